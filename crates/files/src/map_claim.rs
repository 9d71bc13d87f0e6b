//! The part that this session has in the maps of one file: plain data.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

/// The claim of a file, as this session has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Not at all. The kernel has no pages of the file if handles have joined.
    #[default]
    Absent,
    /// The kernel may have pages.
    Held,
    /// The session takes the pages back from the kernel.
    Ending,
}

/// The part of this session in the maps of a file.
#[derive(Debug, Default)]
pub(crate) struct MapClaim {
    /// Taken by operations that change the claim, one after the other.
    pub(crate) operation_lock: tokio::sync::Mutex<()>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    claim: Claim,
    /// When the session got the claim.
    since: Option<Instant>,
    /// Handles that may be mapped shared and writable, or have been.
    handles: u64,
    /// Requests that may have brought pages into the kernel's cache.
    accesses: u64,
    /// Those of them that are not answered.
    under_way: u64,
    /// The kernel may have pages of the time of a session that has ended.
    draining: bool,
}

/// A request that may bring pages into the kernel's cache, until it is answered.
#[derive(Debug)]
#[must_use = "the kernel may take a page until the request is answered"]
pub struct PageAccess(Option<Arc<Mutex<State>>>);

impl PageAccess {
    /// Access that no session limits, and that is not counted.
    pub fn unlimited() -> PageAccess {
        PageAccess(None)
    }
}

impl Drop for PageAccess {
    fn drop(&mut self) {
        if let Some(state) = &self.0 {
            state.lock().unwrap_or_else(PoisonError::into_inner).under_way -= 1;
        }
    }
}

impl MapClaim {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the session has the claim.
    pub(crate) fn is_held(&self) -> bool {
        self.state().claim == Claim::Held
    }

    /// Returns true if programs of this mount map the file and another session may have its pages.
    pub(crate) fn is_claimed_elsewhere(&self) -> bool {
        let state = self.state();
        state.handles > 0 && state.claim == Claim::Absent
    }

    /// Returns true if there are handles that may be mapped.
    pub(crate) fn is_joined(&self) -> bool {
        self.state().handles > 0
    }

    /// The kernel has pages of the time of a session that has ended, and is to give them back.
    pub(crate) fn begin_draining(&self) {
        self.state().draining = true;
    }

    /// The kernel has given these pages back.
    pub(crate) fn end_draining(&self) {
        self.state().draining = false;
    }

    /// Returns true if the kernel may have pages of the time of a session that has ended.
    pub(crate) fn is_draining(&self) -> bool {
        self.state().draining
    }

    /// When the session got the claim.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.state().since
    }

    pub(crate) fn set(&self, claim: Claim) {
        let mut state = self.state();
        if claim == Claim::Held && state.claim == Claim::Absent {
            state.since = Some(Instant::now());
        }
        state.claim = claim;
    }

    /// A handle may be mapped from now on. `may_map` is its own.
    pub(crate) fn join(&self, may_map: &AtomicBool) {
        let mut state = self.state();
        if !may_map.swap(true, Ordering::Relaxed) {
            state.handles += 1;
        }
    }

    /// A handle that might be mapped is closed. Returns true if it was the last one.
    pub(crate) fn leave(&self, may_map: &AtomicBool) -> bool {
        let mut state = self.state();
        if !may_map.swap(false, Ordering::Relaxed) {
            return false;
        }
        state.handles -= 1;
        state.handles == 0
    }

    /// Access to pages, if it need not wait.
    pub(crate) fn access(&self) -> Option<PageAccess> {
        let mut state = self.state();
        if state.handles == 0 {
            return Some(PageAccess::unlimited());
        }
        if state.claim == Claim::Absent {
            return None;
        }
        state.accesses += 1;
        state.under_way += 1;
        Some(PageAccess(Some(Arc::clone(&self.state))))
    }

    /// Begins to take the pages back. Returns how many accesses there were before.
    pub(crate) fn begin_ending(&self) -> u64 {
        let mut state = self.state();
        state.claim = Claim::Ending;
        state.accesses
    }

    /// Ends a hand-over that began after `accesses` accesses. Returns false if another access came,
    /// or is in flight: then the kernel may have a page again.
    pub(crate) fn end(&self, accesses: u64) -> bool {
        let mut state = self.state();
        let is_over = state.accesses == accesses && state.under_way == 0;
        if is_over {
            state.claim = Claim::Absent;
        }
        is_over
    }
}

#[cfg(test)]
mod tests;

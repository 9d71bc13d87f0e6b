//! The claim of this session on the shared maps of one file. Pure data; see `maps` for the
//! protocol.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

/// The state of a claim; see the diagram in `maps`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Not held. If handles have joined, the kernel has no pages of the file.
    #[default]
    Absent,
    /// Held: the kernel may have pages of the file.
    Held,
    /// Being handed over: the kernel is giving its pages back.
    Ending,
}

/// The claim on the maps of a file, and its users.
#[derive(Debug, Default)]
pub(crate) struct MapClaim {
    /// Serialises operations that change the claim.
    pub(crate) operation_lock: tokio::sync::Mutex<()>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    claim: Claim,
    /// The time at which the session got the claim.
    since: Option<Instant>,
    /// The number of handles that may be mapped shared and writable.
    handles: u64,
    /// The number of requests so far that may have put pages into the kernel's cache.
    accesses: u64,
    /// The number of these requests that are not answered yet.
    under_way: u64,
    /// True if the kernel may have pages from a session that has ended.
    draining: bool,
}

/// A request that may put pages into the kernel's cache. Held until the request is answered.
#[derive(Debug)]
#[must_use = "the kernel may take a page until the request is answered"]
pub struct PageAccess(Option<Arc<Mutex<State>>>);

impl PageAccess {
    /// Returns an access that is not counted, for files without shared maps.
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

    /// Returns true if the session holds the claim.
    pub(crate) fn is_held(&self) -> bool {
        self.state().claim == Claim::Held
    }

    /// Returns true if programs of this mount map the file and another session may hold the claim.
    pub(crate) fn is_claimed_elsewhere(&self) -> bool {
        let state = self.state();
        state.handles > 0 && state.claim == Claim::Absent
    }

    /// Returns true if there are handles that may be mapped.
    pub(crate) fn is_joined(&self) -> bool {
        self.state().handles > 0
    }

    /// Starts draining: the kernel must give back pages from a session that has ended.
    pub(crate) fn begin_draining(&self) {
        self.state().draining = true;
    }

    /// Ends draining: the kernel has given these pages back.
    pub(crate) fn end_draining(&self) {
        self.state().draining = false;
    }

    /// Returns true if the kernel may have pages from a session that has ended.
    pub(crate) fn is_draining(&self) -> bool {
        self.state().draining
    }

    /// Returns the time at which the session got the claim.
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

    /// Counts a handle that may be mapped from now on. `may_map` is the flag of the handle.
    pub(crate) fn join(&self, may_map: &AtomicBool) {
        let mut state = self.state();
        if !may_map.swap(true, Ordering::Relaxed) {
            state.handles += 1;
        }
    }

    /// Stops counting a handle. Returns true if it was the last one.
    pub(crate) fn leave(&self, may_map: &AtomicBool) -> bool {
        let mut state = self.state();
        if !may_map.swap(false, Ordering::Relaxed) {
            return false;
        }
        state.handles -= 1;
        state.handles == 0
    }

    /// Returns an access to pages, or `None` if the caller must wait for the claim first.
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

    /// Begins to hand over the claim. Returns the number of accesses so far.
    pub(crate) fn begin_ending(&self) -> u64 {
        let mut state = self.state();
        state.claim = Claim::Ending;
        state.accesses
    }

    /// Ends a hand-over that began after `accesses` accesses. Returns false if there was another
    /// access since, or one is in flight: then the kernel may have a page again.
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

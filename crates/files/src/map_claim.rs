//! The claim of this session on one file that is mapped by programs: its right to have pages of the
//! file in the kernel's cache, which one session at a time has. Pure data; see `maps` for the
//! protocol.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

/// The state of a claim, that is, of this session's right to have pages of a mapped file in the
/// kernel's cache. The module `maps` has the diagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Claim {
    /// This session does not have the claim. If handles of the file may be mapped, the kernel has
    /// no pages of it.
    #[default]
    Absent,
    /// This session has the claim: the kernel may have pages of the file.
    Held,
    /// This session is handing the claim over to another one: the kernel is writing back and
    /// dropping its pages.
    Ending,
}

/// The claim of this session on a file (its right to have pages of the mapped file in the kernel's
/// cache), with the handles and requests that use it.
#[derive(Debug, Default)]
pub(crate) struct MapClaim {
    /// Held by operations that take, release or hand over the claim, one at a time.
    pub(crate) operation_lock: tokio::sync::Mutex<()>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// The state of the claim.
    claim: Claim,
    /// The time at which the session last got the claim; `None` if it never did.
    since: Option<Instant>,
    /// The number of handles that may be mapped shared and writable.
    handles: u64,
    /// The number of requests so far that may have put pages into the kernel's cache.
    accesses: u64,
    /// The number of such requests that are not answered yet.
    under_way: u64,
    /// True if the kernel may still have pages that it got under an earlier session, which has
    /// ended. They may be older than the changes of other sessions.
    draining: bool,
}

/// A request that may put pages into the kernel's cache. Held until the request is answered.
#[derive(Debug)]
#[must_use = "the kernel may take a page until the request is answered"]
pub struct PageAccess(Option<Arc<Mutex<State>>>);

impl PageAccess {
    /// Returns an access that is not counted. It is for files that no program maps shared and
    /// writable.
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

    /// Returns true if this session holds the claim, that is, if the kernel may have pages of the
    /// mapped file.
    pub(crate) fn is_held(&self) -> bool {
        self.state().claim == Claim::Held
    }

    /// Returns true if programs of this mount may map the file and another session may hold the
    /// claim, the right to have pages of it in the kernel's cache.
    pub(crate) fn is_claimed_elsewhere(&self) -> bool {
        let state = self.state();
        state.handles > 0 && state.claim == Claim::Absent
    }

    /// Returns true if the file has handles that may be mapped shared and writable.
    pub(crate) fn is_joined(&self) -> bool {
        self.state().handles > 0
    }

    /// Starts draining: the kernel must write back and drop the pages that it got under a session
    /// that has ended.
    pub(crate) fn begin_draining(&self) {
        self.state().draining = true;
    }

    /// Ends draining: the kernel has dropped the pages that it got under a session that has ended.
    pub(crate) fn end_draining(&self) {
        self.state().draining = false;
    }

    /// Returns true if the kernel may still have pages that it got under a session that has ended.
    pub(crate) fn is_draining(&self) -> bool {
        self.state().draining
    }

    /// Returns the time at which this session last got the claim on the file; `None` if it never
    /// did.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.state().since
    }

    /// Sets the state of this session's claim on the file.
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

    /// Stops counting a handle that may be mapped. Returns true if it was the last one that was
    /// counted; false also if it was not counted.
    pub(crate) fn leave(&self, may_map: &AtomicBool) -> bool {
        let mut state = self.state();
        if !may_map.swap(false, Ordering::Relaxed) {
            return false;
        }
        state.handles -= 1;
        state.handles == 0
    }

    /// Counts a request that may put pages of the file into the kernel's cache. Returns `None` if
    /// this session must get the claim on the file first.
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

    /// Begins to hand over the claim to another session. Returns the number of requests so far that
    /// may have put pages into the kernel's cache, for `MapClaim::end`.
    pub(crate) fn begin_ending(&self) -> u64 {
        let mut state = self.state();
        state.claim = Claim::Ending;
        state.accesses
    }

    /// Ends a hand-over of the claim, after the kernel has dropped its pages. `accesses` is the
    /// number that `MapClaim::begin_ending` returned. Returns false, and keeps the claim in the
    /// state `Ending`, if another request for pages came since or is in flight: then the kernel may
    /// have a page again.
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

//! What the processes before this one have left, as far as requests that are said again go.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use crate::open::HandleId;

/// Requests of which it is known that they were carried out though nobody may have been told: those
/// of as many programs, the last ones.
pub(crate) const EXECUTED_MAX: usize = 1 << 16;

/// What the processes before this one have left.
#[derive(Debug, Default)]
pub(crate) struct ResentRequests {
    pub(crate) inherited: OnceLock<Inherited>,
}

#[derive(Debug, Default)]
pub(crate) struct Inherited {
    /// Requests whose changes stand in logs.
    pub(crate) executed: HashSet<u64>,
    /// Handles by the requests that asked for them.
    pub(crate) handles: HashMap<u64, HandleId>,
}

impl ResentRequests {
    /// Whether a process before this one has carried out a request that is said again.
    pub(crate) fn has_executed(&self, request: u64) -> bool {
        request != 0
            && self.inherited.get().is_some_and(|inherited| inherited.executed.contains(&request))
    }

    pub(crate) fn get_handle(&self, request: u64) -> Option<HandleId> {
        self.inherited.get()?.handles.get(&request).copied().filter(|_| request != 0)
    }
}

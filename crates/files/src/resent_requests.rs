//! Requests that the kernel sends again because their worker ended before it answered.
//!
//! A request in this table was executed by an earlier worker: it must be answered, not executed.
//! For example, an append whose bytes are in the log must not append them twice.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use crate::open::HandleId;

/// The maximum number of executed requests that are remembered: the newest ones. No more programs
/// than this can wait for an answer at the same time.
pub(crate) const EXECUTED_MAX: usize = 1 << 16;

/// The requests of earlier workers. Empty until the takeover is complete.
#[derive(Debug, Default)]
pub(crate) struct ResentRequests {
    pub(crate) inherited: OnceLock<Inherited>,
}

#[derive(Debug, Default)]
pub(crate) struct Inherited {
    /// Requests whose changes are in the logs of dirty data.
    pub(crate) executed: HashSet<u64>,
    /// The handles that earlier workers gave, by the request that asked for each.
    pub(crate) handles: HashMap<u64, HandleId>,
}

impl ResentRequests {
    /// Returns true if an earlier worker executed this request.
    pub(crate) fn has_executed(&self, request: u64) -> bool {
        request != 0
            && self.inherited.get().is_some_and(|inherited| inherited.executed.contains(&request))
    }

    pub(crate) fn get_handle(&self, request: u64) -> Option<HandleId> {
        self.inherited.get()?.handles.get(&request).copied().filter(|_| request != 0)
    }
}

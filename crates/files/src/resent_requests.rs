//! Requests that the kernel sends again because their worker ended before it answered.
//!
//! A request in this table was executed by an earlier worker: it must be answered, not executed.
//! For example, an append whose bytes are in the log must not append them twice.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use crate::open::HandleId;

/// The maximum number of requests of earlier workers (processes of the mount) that are remembered
/// as executed: the newest ones. No more programs than this can wait for an answer at the same
/// time.
pub(crate) const EXECUTED_MAX: usize = 1 << 16;

/// The requests that earlier workers (processes of the mount) executed and that the kernel may send
/// again. Empty until the state of these workers is taken over.
#[derive(Debug, Default)]
pub(crate) struct ResentRequests {
    /// The requests as found in the ledger; set once, by the takeover.
    pub(crate) inherited: OnceLock<Inherited>,
}

/// The requests of earlier workers, as found in the ledger.
#[derive(Debug, Default)]
pub(crate) struct Inherited {
    /// The numbers of requests whose changes are in the logs of dirty data. They must be answered,
    /// not executed again.
    pub(crate) executed: HashSet<u64>,
    /// The handles that earlier workers opened, by the request that asked for each. If the request
    /// is sent again, it is answered with this handle.
    pub(crate) handles: HashMap<u64, HandleId>,
}

impl ResentRequests {
    /// Returns true if an earlier worker executed this request.
    pub(crate) fn has_executed(&self, request: u64) -> bool {
        request != 0
            && self.inherited.get().is_some_and(|inherited| inherited.executed.contains(&request))
    }

    /// Returns the handle that an earlier worker opened for this request, if there is one.
    pub(crate) fn get_handle(&self, request: u64) -> Option<HandleId> {
        self.inherited.get()?.handles.get(&request).copied().filter(|_| request != 0)
    }
}

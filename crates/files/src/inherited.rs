//! What the processes before this one have left, as far as requests that are said again go.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use crate::open::HandleId;

/// Requests of which it is known that they were carried out though nobody may have been told: those
/// of as many programs, the last ones.
pub(crate) const MADE_MAX: usize = 1 << 16;

/// What the processes before this one have left.
#[derive(Debug, Default)]
pub(crate) struct Inheritance {
    pub(crate) left: OnceLock<Inherited>,
}

#[derive(Debug, Default)]
pub(crate) struct Inherited {
    /// Requests whose changes stand in logs.
    pub(crate) made: HashSet<u64>,
    /// Handles by the requests that asked for them.
    pub(crate) handles: HashMap<u64, HandleId>,
}

impl Inheritance {
    /// Whether a process before this one has carried out a request that is said again.
    pub(crate) fn has_made(&self, request: u64) -> bool {
        request != 0 && self.left.get().is_some_and(|left| left.made.contains(&request))
    }

    pub(crate) fn handle_of(&self, request: u64) -> Option<HandleId> {
        self.left.get()?.handles.get(&request).copied().filter(|_| request != 0)
    }
}

//! Nodes that were read, until it is kept when.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use record::{Attributes, Ino, Timestamp};

/// A time of access that is older than this is renewed, in nanoseconds: a day.
const ATIME_AGE_MAX: i64 = 24 * 60 * 60 * 1_000_000_000;

/// Nodes that were read, and when, until that is kept.
#[derive(Debug, Default)]
pub(crate) struct PendingAccessTimes(Mutex<HashMap<Ino, Timestamp>>);

impl PendingAccessTimes {
    pub(crate) fn lock(&self) -> MutexGuard<'_, HashMap<Ino, Timestamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody says when it was last read.
    pub(crate) fn forget(&self, ino: Ino) {
        self.lock().remove(&ino);
    }
}

/// Whether a time of access is to be renewed.
pub(crate) fn is_due(accessed: Timestamp, attributes: &Attributes, now: Timestamp) -> bool {
    accessed <= attributes.modified
        || accessed <= attributes.status_changed
        || now.0.saturating_sub(accessed.0) >= ATIME_AGE_MAX
}

//! Access times that are not committed yet.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use record::{Attributes, Ino, Timestamp};

/// The age at which an access time is updated by a read, in nanoseconds: one day, as with
/// `relatime`.
const ATIME_AGE_MAX: i64 = 24 * 60 * 60 * 1_000_000_000;

/// The access time of each node that was read, until it is committed.
#[derive(Debug, Default)]
pub(crate) struct PendingAccessTimes(Mutex<HashMap<Ino, Timestamp>>);

impl PendingAccessTimes {
    pub(crate) fn lock(&self) -> MutexGuard<'_, HashMap<Ino, Timestamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the uncommitted access time of a node, because a program sets the time explicitly.
    pub(crate) fn forget(&self, ino: Ino) {
        self.lock().remove(&ino);
    }
}

/// Returns true if a read at `now` must update the access time, by the rules of `relatime`.
pub(crate) fn is_due(accessed: Timestamp, attributes: &Attributes, now: Timestamp) -> bool {
    accessed <= attributes.modified
        || accessed <= attributes.status_changed
        || now.0.saturating_sub(accessed.0) >= ATIME_AGE_MAX
}

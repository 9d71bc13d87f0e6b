//! The use of one access key, as two numbers that requests share without a lock.
//!
//! For example, two requests that note their times in any order leave the later one.

use std::sync::atomic::{AtomicI64, Ordering};

use time::OffsetDateTime;

/// The use of one access key, in nanoseconds since 1970.
#[derive(Debug, Default)]
pub(crate) struct KeyUse {
    /// The last use. 0 for none.
    at: AtomicI64,
    /// The use that was written last. 0 for none.
    written: AtomicI64,
}

impl KeyUse {
    /// Notes a use. A use with an earlier time changes nothing.
    pub(super) fn note(&self, now: OffsetDateTime) {
        let now = i64::try_from(now.unix_timestamp_nanos()).unwrap_or(0);
        // The number is no lock: it orders no other access to memory.
        self.at.fetch_max(now, Ordering::Relaxed);
    }

    /// Returns the use that is not written yet.
    pub(super) fn unwritten(&self) -> Option<i64> {
        let at = self.at.load(Ordering::Relaxed);
        (at > self.written.load(Ordering::Relaxed)).then_some(at)
    }

    /// Notes that this use is written.
    pub(super) fn note_written(&self, at: i64) {
        self.written.fetch_max(at, Ordering::Relaxed);
    }
}

//! What gateways count of lifecycle rules.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a gateway has done by lifecycle rules since it began.
#[derive(Debug, Default)]
pub(crate) struct LifecycleMeters {
    pub(crate) expired: AtomicU64,
    pub(crate) noncurrent: AtomicU64,
    pub(crate) markers: AtomicU64,
    pub(crate) uploads: AtomicU64,
    pub(crate) trash: AtomicU64,
    pub(crate) pages: AtomicU64,
    pub(crate) passes: AtomicU64,
    pub(crate) failures: AtomicU64,
}

/// What a gateway has done by lifecycle rules since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LifecycleCounters {
    /// Objects that expired: each was removed, or hidden behind a delete marker.
    pub expired: u64,
    /// Versions, and delete markers among them, that were no longer current and were removed.
    pub noncurrent: u64,
    /// Delete markers that hid nothing and were removed.
    pub markers: u64,
    /// Uploads that were aborted.
    pub uploads: u64,
    /// What had been in the trash of its bucket for its days, and was removed.
    pub trash: u64,
    /// Pages of passes over buckets.
    pub pages: u64,
    /// Passes over buckets that came to their ends.
    pub passes: u64,
    /// Keys, uploads and buckets at which something failed. The next pass meets them again.
    pub failures: u64,
}

impl LifecycleMeters {
    pub(crate) fn read(&self) -> LifecycleCounters {
        let LifecycleMeters {
            expired,
            noncurrent,
            markers,
            uploads,
            trash,
            pages,
            passes,
            failures,
        } = self;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LifecycleCounters {
            expired: read(expired),
            noncurrent: read(noncurrent),
            markers: read(markers),
            uploads: read(uploads),
            trash: read(trash),
            pages: read(pages),
            passes: read(passes),
            failures: read(failures),
        }
    }
}

/// Adds to one of them.
pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

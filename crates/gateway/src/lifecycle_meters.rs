//! Counters of lifecycle passes.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of lifecycle passes by this gateway since its start, as its tasks update them.
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

/// The counts of a gateway's lifecycle passes since its start: a copy of its counters at one
/// moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LifecycleCounters {
    /// Expired objects: each was removed, or hidden behind a delete marker.
    pub expired: u64,
    /// Removed noncurrent versions, including delete markers among them.
    pub noncurrent: u64,
    /// Removed delete markers that hid no version.
    pub markers: u64,
    /// Multipart uploads that lifecycle rules have aborted.
    pub uploads: u64,
    /// Items that were removed from the trash when their days were over.
    pub trash: u64,
    /// Pages of passes over buckets. A page is one listing of a limited number of versions, with
    /// the removals that follow from it.
    pub pages: u64,
    /// Completed passes over buckets.
    pub passes: u64,
    /// Keys, uploads and buckets for which an action failed. The next pass tries them again.
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

/// Adds `by` to a counter.
pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

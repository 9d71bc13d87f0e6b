//! Counters of lifecycle passes.

use runtime::MetricCounter;

runtime::counters! {
    /// The counters of lifecycle passes by this process since its start.
    pub struct LifecycleMeters {
        /// Expired objects: each was removed, or hidden behind a delete marker.
        expired: "ashlar_lifecycle_removals_total" { kind: "object" }
            "Objects, versions, delete markers, uploads and trash items that lifecycle rules removed.",
        /// Removed noncurrent versions, including delete markers among them.
        noncurrent: "ashlar_lifecycle_removals_total" { kind: "noncurrent_version" },
        /// Removed delete markers that hid no version.
        markers: "ashlar_lifecycle_removals_total" { kind: "delete_marker" },
        /// Multipart uploads that lifecycle rules have aborted.
        uploads: "ashlar_lifecycle_removals_total" { kind: "upload" },
        /// Items that were removed from the trash when their days were over.
        trash: "ashlar_lifecycle_removals_total" { kind: "trash_item" },
        /// Listing pages that lifecycle passes read.
        ///
        /// A page is one listing of a limited number of versions, with the removals that follow
        /// from it.
        pages: "ashlar_lifecycle_pages_total",
        /// Lifecycle passes over a bucket that ended.
        passes: "ashlar_lifecycle_passes_total",
        /// Steps of lifecycle passes that failed.
        ///
        /// A step is an action on a key, an upload or a bucket. The next pass tries it again.
        failures: "ashlar_lifecycle_failures_total",
    }
}

/// The values of the counters at one moment.
pub type LifecycleCounters = LifecycleMeters<u64>;

/// Adds `by` to a counter.
pub(crate) fn count(counter: &MetricCounter, by: u64) {
    counter.add(by);
}

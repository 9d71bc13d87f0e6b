//! The counters of a cache: its own, and some of the `foyer` library.
//!
//! For example, `disk_dropped` comes from the library, which reports it under a name, and
//! `memory_hits` is counted here.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foyer::{Event, EventListener};
use mixtrics::metrics::{
    BoxedCounter, BoxedCounterVec, BoxedGauge, BoxedGaugeVec, BoxedHistogram, BoxedHistogramVec,
    CounterOps, CounterVecOps, GaugeOps, GaugeVecOps, HistogramOps, HistogramVecOps, RegistryOps,
};

use crate::page::{Page, PageKey};

runtime::counters! {
    /// Counters since the cache was opened, in pages unless the name says bytes.
    pub struct CacheMeters {
        /// Pages served from memory.
        memory_hits: "ashlar_cache_page_lookups_total" { result: "memory_hit" }
            "Lookups of 64 KiB pages in the block cache. A joined lookup waited for a fetch that \
             another reader had started.",
        /// Pages that were not in memory and were served from the disk.
        disk_hits: "ashlar_cache_page_lookups_total" { result: "disk_hit" },
        /// Pages that were in neither and had to be fetched.
        misses: "ashlar_cache_page_lookups_total" { result: "miss" },
        /// Pages that came with the request of another reader that fetched them at the same time.
        joined: "ashlar_cache_page_lookups_total" { result: "joined" },
        /// Bytes fetched from the block store into the block cache.
        ///
        /// They are sealed bytes: content, headers and checksums.
        fetched_bytes: "ashlar_cache_fetched_bytes_total",
        /// Requests to the block store that were repeated, because the block was missing or
        /// damaged.
        second_reads,
        /// Pages that were kept in memory after they were fetched.
        admitted: "ashlar_cache_page_insertions_total" { source: "read" }
            "Pages that reads and writes put into the memory of the block cache.",
        /// Pages that were kept in memory when they were written.
        remembered: "ashlar_cache_page_insertions_total" { source: "write" },
        /// Pages removed from the memory of the block cache because their block was deleted.
        forgotten: "ashlar_cache_page_invalidations_total",
        /// Pages evicted from the memory of the block cache to make room.
        evicted: "ashlar_cache_page_evictions_total",
        /// Pages not written to the cache disk because it was too slow.
        disk_dropped: "ashlar_cache_disk_dropped_pages_total",
        /// Pages that the cache disk returned damaged, or lost although its index lists them.
        corrupt: "ashlar_cache_disk_corrupt_pages_total",
        /// Lookups on the cache disk that failed.
        disk_errors: "ashlar_cache_disk_errors_total",
        /// Lookups on the cache disk that did not end in time.
        disk_late: "ashlar_cache_disk_timeouts_total",
    }
}

/// Counts pages that are evicted from memory.
pub(crate) struct EvictionCounter(pub(crate) Arc<CacheMeters>);

impl EventListener for EvictionCounter {
    type Key = PageKey;
    type Value = Page;

    fn on_leave(&self, reason: Event, _: &PageKey, _: &Page) {
        if reason == Event::Evict {
            self.0.evicted.add(1);
        }
    }
}

/// The metrics of the library that are used here. The library identifies metrics by name only.
#[derive(Clone, Debug)]
pub(crate) struct LibraryMetrics {
    /// The counters of the cache: `disk_dropped` counts pages that were dropped on their way to the
    /// disk.
    pub(crate) meters: Arc<CacheMeters>,
    /// Files of the disk that are empty.
    pub(crate) clean: Arc<AtomicU64>,
}

impl LibraryMetrics {
    /// Returns the metrics of a cache that counts with `meters`.
    pub(crate) fn new(meters: &Arc<CacheMeters>) -> LibraryMetrics {
        LibraryMetrics { meters: Arc::clone(meters), clean: Arc::default() }
    }
}

/// Ignores a metric.
#[derive(Debug)]
struct IgnoredMetric;

impl RegistryOps for LibraryMetrics {
    fn register_counter_vec(
        &self,
        _: Cow<'static, str>,
        _: Cow<'static, str>,
        _: &'static [&'static str],
    ) -> BoxedCounterVec {
        Box::new(self.clone())
    }

    fn register_gauge_vec(
        &self,
        _: Cow<'static, str>,
        _: Cow<'static, str>,
        _: &'static [&'static str],
    ) -> BoxedGaugeVec {
        Box::new(self.clone())
    }

    fn register_histogram_vec(
        &self,
        _: Cow<'static, str>,
        _: Cow<'static, str>,
        _: &'static [&'static str],
    ) -> BoxedHistogramVec {
        Box::new(IgnoredMetric)
    }

    fn register_histogram_vec_with_buckets(
        &self,
        _: Cow<'static, str>,
        _: Cow<'static, str>,
        _: &'static [&'static str],
        _: Vec<f64>,
    ) -> BoxedHistogramVec {
        Box::new(IgnoredMetric)
    }
}

impl CounterVecOps for LibraryMetrics {
    fn counter(&self, labels: &[Cow<'static, str>]) -> BoxedCounter {
        match labels.last().map(AsRef::as_ref) {
            Some("buffer_overflow" | "channel_overflow") => {
                Box::new(DroppedPages(Arc::clone(&self.meters)))
            }
            _ => Box::new(IgnoredMetric),
        }
    }
}

impl GaugeVecOps for LibraryMetrics {
    fn gauge(&self, labels: &[Cow<'static, str>]) -> BoxedGauge {
        match labels.last().map(AsRef::as_ref) {
            Some("clean") => Box::new(CleanFiles(Arc::clone(&self.clean))),
            _ => Box::new(IgnoredMetric),
        }
    }
}

/// Counts pages that the library dropped on their way to the disk.
#[derive(Debug)]
struct DroppedPages(Arc<CacheMeters>);

impl CounterOps for DroppedPages {
    fn increase(&self, more: u64) {
        self.0.disk_dropped.add(more);
    }
}

/// Records the number of empty files.
#[derive(Debug)]
struct CleanFiles(Arc<AtomicU64>);

impl GaugeOps for CleanFiles {
    fn increase(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    fn decrease(&self, less: u64) {
        self.0.fetch_sub(less, Ordering::Relaxed);
    }

    fn absolute(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

impl CounterOps for IgnoredMetric {
    fn increase(&self, _: u64) {}
}

impl GaugeOps for IgnoredMetric {
    fn increase(&self, _: u64) {}
    fn decrease(&self, _: u64) {}
    fn absolute(&self, _: u64) {}
}

impl HistogramVecOps for IgnoredMetric {
    fn histogram(&self, _: &[Cow<'static, str>]) -> BoxedHistogram {
        Box::new(IgnoredMetric)
    }
}

impl HistogramOps for IgnoredMetric {
    fn record(&self, _: f64) {}
}

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

/// Counters since the cache was opened, in pages unless the name says bytes, and the present size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// Pages served from memory.
    pub memory_hits: u64,
    /// Pages that were neither in memory nor on the disk and had to be fetched from the block
    /// store.
    pub disk_hits: u64,
    /// Pages that were in neither and had to be fetched.
    pub misses: u64,
    /// Pages that came with the request of another reader that fetched them at the same time.
    pub joined: u64,
    /// Sealed bytes (content, headers and checksums) that came from the block store.
    pub fetched_bytes: u64,
    /// Requests to the block store that were repeated, because the block was missing or damaged.
    pub second_reads: u64,
    /// Pages that were kept in memory after they were fetched.
    pub admitted: u64,
    /// Pages that were kept in memory when they were written.
    pub remembered: u64,
    /// Pages that were removed from memory because their content was deleted.
    pub forgotten: u64,
    /// Pages that were evicted from memory to free space.
    pub evicted: u64,
    /// Pages that were to be written to the disk and were dropped, because the disk was too slow.
    pub disk_dropped: u64,
    /// Pages that the disk returned damaged, or lost although its index lists them.
    pub corrupt: u64,
    /// Lookups on the disk that failed.
    pub disk_errors: u64,
    /// Lookups on the disk that timed out.
    pub disk_late: u64,
    /// Pages in memory now.
    pub memory_pages: u64,
    /// Bytes that these pages take; at most the capacity and one page for each shard.
    pub memory_bytes: u64,
    /// Bytes written to the disk.
    pub disk_written_bytes: u64,
    /// True if the cache has a disk.
    pub disk: bool,
}

/// The counters that the cache itself keeps.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) memory_hits: Metric,
    pub(crate) disk_hits: Metric,
    pub(crate) misses: Metric,
    pub(crate) joined: Metric,
    pub(crate) fetched_bytes: Metric,
    pub(crate) second_reads: Metric,
    pub(crate) admitted: Metric,
    pub(crate) remembered: Metric,
    pub(crate) forgotten: Metric,
    pub(crate) corrupt: Metric,
    pub(crate) disk_errors: Metric,
    pub(crate) disk_late: Metric,
    evicted: Arc<Metric>,
}

/// A number: a counter that only grows, or a level.
#[derive(Debug, Default)]
pub(crate) struct Metric(AtomicU64);

impl Metric {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, more: usize) {
        self.0.fetch_add(more as u64, Ordering::Relaxed);
    }
}

impl Metrics {
    pub(crate) fn read(&self) -> CacheCounters {
        CacheCounters {
            memory_hits: self.memory_hits.get(),
            disk_hits: self.disk_hits.get(),
            misses: self.misses.get(),
            joined: self.joined.get(),
            fetched_bytes: self.fetched_bytes.get(),
            second_reads: self.second_reads.get(),
            admitted: self.admitted.get(),
            remembered: self.remembered.get(),
            forgotten: self.forgotten.get(),
            evicted: self.evicted.get(),
            corrupt: self.corrupt.get(),
            disk_errors: self.disk_errors.get(),
            disk_late: self.disk_late.get(),
            ..CacheCounters::default()
        }
    }

    /// Returns the listener that counts evicted pages.
    pub(crate) fn listener(&self) -> Arc<EvictionCounter> {
        Arc::new(EvictionCounter(Arc::clone(&self.evicted)))
    }
}

/// Counts pages that are evicted from memory.
pub(crate) struct EvictionCounter(Arc<Metric>);

impl EventListener for EvictionCounter {
    type Key = PageKey;
    type Value = Page;

    fn on_leave(&self, reason: Event, _: &PageKey, _: &Page) {
        if reason == Event::Evict {
            self.0.add(1);
        }
    }
}

/// The metrics of the library that are used here. The library identifies metrics by name only.
#[derive(Clone, Debug, Default)]
pub(crate) struct LibraryMetrics {
    /// Pages that were dropped on their way to the disk.
    pub(crate) dropped: Arc<Metric>,
    /// Files of the disk that are empty.
    pub(crate) clean: Arc<Metric>,
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
                Box::new(RecordedMetric(Arc::clone(&self.dropped)))
            }
            _ => Box::new(IgnoredMetric),
        }
    }
}

impl GaugeVecOps for LibraryMetrics {
    fn gauge(&self, labels: &[Cow<'static, str>]) -> BoxedGauge {
        match labels.last().map(AsRef::as_ref) {
            Some("clean") => Box::new(RecordedMetric(Arc::clone(&self.clean))),
            _ => Box::new(IgnoredMetric),
        }
    }
}

/// Records a metric of the library.
#[derive(Debug)]
struct RecordedMetric(Arc<Metric>);

impl CounterOps for RecordedMetric {
    fn increase(&self, more: u64) {
        self.0.0.fetch_add(more, Ordering::Relaxed);
    }
}

impl GaugeOps for RecordedMetric {
    fn increase(&self, more: u64) {
        self.0.0.fetch_add(more, Ordering::Relaxed);
    }

    fn decrease(&self, less: u64) {
        self.0.0.fetch_sub(less, Ordering::Relaxed);
    }

    fn absolute(&self, value: u64) {
        self.0.0.store(value, Ordering::Relaxed);
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

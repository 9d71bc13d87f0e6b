//! The metrics of a cache: its own, and some of the library below.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foyer::{Event, EventListener};
use mixtrics::metrics::{
    BoxedCounter, BoxedCounterVec, BoxedGauge, BoxedGaugeVec, BoxedHistogram, BoxedHistogramVec,
    CounterOps, CounterVecOps, GaugeOps, GaugeVecOps, HistogramOps, HistogramVecOps, RegistryOps,
};

use crate::page::{Page, PageKey};

/// What a cache did since it was opened, in pages unless the name says bytes, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// Pages served from memory.
    pub memory_hits: u64,
    /// Pages served from the disk.
    pub disk_hits: u64,
    /// Pages that were in neither and had to be fetched.
    pub misses: u64,
    /// Pages that came with a request that somebody else had made.
    pub joined: u64,
    /// Sealed bytes that came from the block store.
    pub fetched_bytes: u64,
    /// Requests to the block store that were repeated, because what came was missing or damaged.
    pub second_reads: u64,
    /// Pages that were taken into memory from the block store.
    pub admitted: u64,
    /// Pages that were taken into memory when they were written.
    pub remembered: u64,
    /// Pages that left memory because what they held was deleted.
    pub forgotten: u64,
    /// Pages that left memory to make room.
    pub evicted: u64,
    /// Pages that were to be written to the disk and were not, because it did not keep up.
    pub disk_dropped: u64,
    /// Pages that the disk gave back damaged, or lost although its index named them.
    pub corrupt: u64,
    /// Lookups that the disk answered with an error.
    pub disk_errors: u64,
    /// Lookups that the disk did not answer in time.
    pub disk_late: u64,
    /// Pages in memory now.
    pub memory_pages: u64,
    /// What they cost now, in bytes; at most the capacity and a page for each shard.
    pub memory_bytes: u64,
    /// Bytes written to the disk.
    pub disk_written_bytes: u64,
    /// Whether there is a disk.
    pub disk: bool,
}

/// The cache's own metrics.
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

/// A number that only grows, unless it is a level.
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

    /// What is told when a page leaves memory.
    pub(crate) fn listener(&self) -> Arc<Leaving> {
        Arc::new(Leaving(Arc::clone(&self.evicted)))
    }
}

/// Counts pages that leave memory.
pub(crate) struct Leaving(Arc<Metric>);

impl EventListener for Leaving {
    type Key = PageKey;
    type Value = Page;

    fn on_leave(&self, reason: Event, _: &PageKey, _: &Page) {
        if reason == Event::Evict {
            self.0.add(1);
        }
    }
}

/// The few metrics of the library that matter here. It identifies them by name only.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beneath {
    /// Pages that were dropped on their way to the disk.
    pub(crate) dropped: Arc<Metric>,
    /// Parts of the disk that hold nothing yet.
    pub(crate) clean: Arc<Metric>,
}

/// Ignores a metric.
#[derive(Debug)]
struct Deaf;

impl RegistryOps for Beneath {
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
        Box::new(Deaf)
    }

    fn register_histogram_vec_with_buckets(
        &self,
        _: Cow<'static, str>,
        _: Cow<'static, str>,
        _: &'static [&'static str],
        _: Vec<f64>,
    ) -> BoxedHistogramVec {
        Box::new(Deaf)
    }
}

impl CounterVecOps for Beneath {
    fn counter(&self, labels: &[Cow<'static, str>]) -> BoxedCounter {
        match labels.last().map(AsRef::as_ref) {
            Some("buffer_overflow" | "channel_overflow") => {
                Box::new(Level(Arc::clone(&self.dropped)))
            }
            _ => Box::new(Deaf),
        }
    }
}

impl GaugeVecOps for Beneath {
    fn gauge(&self, labels: &[Cow<'static, str>]) -> BoxedGauge {
        match labels.last().map(AsRef::as_ref) {
            Some("clean") => Box::new(Level(Arc::clone(&self.clean))),
            _ => Box::new(Deaf),
        }
    }
}

/// Records a metric of the library.
#[derive(Debug)]
struct Level(Arc<Metric>);

impl CounterOps for Level {
    fn increase(&self, more: u64) {
        self.0.0.fetch_add(more, Ordering::Relaxed);
    }
}

impl GaugeOps for Level {
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

impl CounterOps for Deaf {
    fn increase(&self, _: u64) {}
}

impl GaugeOps for Deaf {
    fn increase(&self, _: u64) {}
    fn decrease(&self, _: u64) {}
    fn absolute(&self, _: u64) {}
}

impl HistogramVecOps for Deaf {
    fn histogram(&self, _: &[Cow<'static, str>]) -> BoxedHistogram {
        Box::new(Deaf)
    }
}

impl HistogramOps for Deaf {
    fn record(&self, _: f64) {}
}

//! Counters for metrics. For example, the session counts its commits with one.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number for metrics that only grows, from 0. Any thread may add to it.
#[derive(Debug, Default)]
pub struct MetricCounter(AtomicU64);

impl MetricCounter {
    /// Returns the current value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds `more` to the value.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }
}

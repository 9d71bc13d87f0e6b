//! Rates and latencies of each operation of this process, for pages of operators.
//!
//! A request that ends is counted in one of a few *stripes* of its operation: the first whose lock
//! is free. A stripe gathers the counts of one second, and moves them to the history of the
//! operation when its second is over. For example, 16 concurrent PUTs share four stripes, take the
//! lock of the history at most four times a second, and never wait for a reader of an hour of
//! history.
//!
//! The history has counts of each second of the last hour, counts of each ten seconds of the last
//! day, and a histogram of latencies for each five minutes of the last hour. An operation that
//! occurs takes about 600 KiB, and at most [`OPERATIONS_MAX`] operations have a history of their
//! own, so the limit of memory is 20 MiB. Nothing is allocated for operations that do not occur.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

use hdrhistogram::Histogram;
use tokio::time::Instant;

mod history;

pub use self::history::{ActivityCounts, ActivitySeries};
use self::history::{History, WINDOW_SECONDS, latencies};

/// The number of operations with a history of their own. Others share that of [`OTHER`].
const OPERATIONS_MAX: usize = 32;

/// The name of all operations beyond [`OPERATIONS_MAX`], and of unknown ones.
const OTHER: &str = "Other";

/// The number of stripes of an operation. More than this many threads rarely end a request of one
/// operation within the same 100 ns.
const STRIPES: usize = 4;

/// A request that has ended.
#[derive(Clone, Copy, Debug)]
pub struct RequestSample {
    /// The time at which it ended.
    pub ended: Instant,
    /// The time from the end of its head to the end of its response.
    pub duration: Duration,
    /// True if the server could not serve it: a status of 500 or above.
    pub failed: bool,
    /// True if the client made an error or lacks a permission: a status from 400 to 499.
    pub refused: bool,
    /// Bytes of the request's body.
    pub bytes_in: u64,
    /// Bytes of the response's body.
    pub bytes_out: u64,
}

/// The activity of one operation over some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationActivity {
    /// The name of the operation.
    pub operation: &'static str,
    /// The counts over the time of the snapshot.
    pub counts: ActivityCounts,
    /// The median latency over the last hour, to two digits. 0 if there was no request.
    pub p50: Duration,
    /// The 99th percentile of the latency over the last hour.
    pub p99: Duration,
    /// The longest latency of the last hour.
    pub max: Duration,
}

/// The activity of all operations over some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivitySnapshot {
    /// The time that the counts cover: as requested, but at most a day, and at most the age of the
    /// process. A rate is a count divided by this time.
    pub over: Duration,
    /// The operations with a request since the start, in the order of their names.
    pub operations: Vec<OperationActivity>,
}

/// The rates and latencies of all operations of this process.
#[derive(Debug)]
pub struct Activity {
    started: Instant,
    /// The index into `tracked` of each operation that may occur.
    indices: HashMap<&'static str, usize>,
    /// The operations, the last of them [`OTHER`].
    tracked: Vec<(&'static str, OnceLock<Tracked>)>,
    /// The number of operations with a history of their own.
    occurred: AtomicUsize,
}

/// The stripes and the history of one operation.
#[derive(Debug)]
struct Tracked {
    stripes: [Mutex<Stripe>; STRIPES],
    history: Mutex<History>,
}

/// The counts of one second and the latencies of one window, by some of the requests.
#[derive(Debug)]
struct Stripe {
    second: u64,
    counts: ActivityCounts,
    latencies: Histogram<u32>,
}

impl Activity {
    /// Returns the activity of a process that starts now. `operations` are the names of all
    /// operations that may occur.
    pub fn new(started: Instant, operations: impl IntoIterator<Item = &'static str>) -> Activity {
        let mut tracked: Vec<_> =
            operations.into_iter().map(|name| (name, OnceLock::new())).collect();
        let indices = tracked.iter().enumerate().map(|(index, (name, _))| (*name, index)).collect();
        tracked.push((OTHER, OnceLock::new()));
        Activity { started, indices, tracked, occurred: AtomicUsize::new(0) }
    }

    /// Counts a request of an operation.
    pub fn record(&self, operation: &str, sample: &RequestSample) {
        let second = sample.ended.saturating_duration_since(self.started).as_secs();
        let tracked = self.tracked(operation);
        let micros = u64::try_from(sample.duration.as_micros()).unwrap_or(u64::MAX);
        let mut stripe = tracked.stripe(micros);
        tracked.advance(&mut stripe, second);
        stripe.counts.add(&ActivityCounts {
            requests: 1,
            failed: sample.failed.into(),
            refused: sample.refused.into(),
            bytes_in: sample.bytes_in,
            bytes_out: sample.bytes_out,
        });
        stripe.latencies.saturating_record(micros.max(1));
    }

    /// Returns the activity of each operation over the time `since` before `now`.
    pub fn snapshot(&self, now: Instant, since: Duration) -> ActivitySnapshot {
        let second = self.second(now);
        let since = since.clamp(Duration::from_secs(1), history::DAY);
        let summary = |(name, tracked): (&'static str, &Tracked)| {
            let history = tracked.flushed(second);
            let latencies = history.latencies(second);
            let quantile = |of| Duration::from_micros(latencies.value_at_quantile(of));
            OperationActivity {
                operation: name,
                counts: history.total(second, since),
                p50: quantile(0.5),
                p99: quantile(0.99),
                max: Duration::from_micros(latencies.max()),
            }
        };
        let mut operations: Vec<_> = self.occurred().map(summary).collect();
        operations.sort_by_key(|summary| summary.operation);
        ActivitySnapshot { over: since.min(self.age(now)), operations }
    }

    /// Returns the counts of an operation, or of all operations together if `operation` is `None`,
    /// over the time `since` before `now`: in steps of a second up to an hour, and of ten seconds
    /// up to a day.
    pub fn series(&self, now: Instant, since: Duration, operation: Option<&str>) -> ActivitySeries {
        let second = self.second(now);
        let since = since.min(history::DAY);
        let chosen =
            |(name, _): &(&'static str, &Tracked)| operation.is_none_or(|one| one == *name);
        let mut series = history::empty_series(since);
        for (_, tracked) in self.occurred().filter(chosen) {
            tracked.flushed(second).add_to_series(second, &mut series);
        }
        series
    }

    /// Returns the operations with a request, with their names.
    fn occurred(&self) -> impl Iterator<Item = (&'static str, &Tracked)> {
        self.tracked.iter().filter_map(|(name, tracked)| Some((*name, tracked.get()?)))
    }

    /// Returns the whole seconds from the start to `now`.
    fn second(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.started).as_secs()
    }

    /// Returns the age of the process, at least a second, so that rates can be divided by it.
    fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started).max(Duration::from_secs(1))
    }

    /// Returns the stripes and the history of an operation.
    fn tracked(&self, operation: &str) -> &Tracked {
        let other = self.tracked.len() - 1;
        let index = self.indices.get(operation).copied().unwrap_or(other);
        let (_, cell) = &self.tracked[index];
        if let Some(tracked) = cell.get() {
            return tracked;
        }
        // The first request of an operation. Two threads may both count it, so fewer operations
        // than the limit get a history; never more.
        let is_own =
            index != other && self.occurred.fetch_add(1, Ordering::Relaxed) < OPERATIONS_MAX;
        let (_, cell) = if is_own { &self.tracked[index] } else { &self.tracked[other] };
        cell.get_or_init(Tracked::new)
    }
}

impl Tracked {
    fn new() -> Tracked {
        let stripe = |_| {
            let (second, counts) = (0, ActivityCounts::default());
            Mutex::new(Stripe { second, counts, latencies: latencies() })
        };
        Tracked { stripes: std::array::from_fn(stripe), history: Mutex::new(History::new()) }
    }

    /// Returns a stripe whose lock is free. If none is, waits for one, which `random` chooses.
    fn stripe(&self, random: u64) -> MutexGuard<'_, Stripe> {
        // Two threads that begin at different stripes share no cache line.
        let first = usize::try_from(random).unwrap_or_default() % STRIPES;
        for step in 0..STRIPES {
            match self.stripes[(first + step) % STRIPES].try_lock() {
                Ok(stripe) => return stripe,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        self.stripes[first].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the counts of a stripe to the history if its second is over, and its latencies if
    /// their window is over.
    fn advance(&self, stripe: &mut Stripe, second: u64) {
        // A thread may come late with a request of the second before.
        if second <= stripe.second {
            return;
        }
        let mut history = self.history();
        history.add(stripe.second, &stripe.counts);
        stripe.counts = ActivityCounts::default();
        if second / WINDOW_SECONDS > stripe.second / WINDOW_SECONDS {
            history.add_latencies(stripe.second, &stripe.latencies);
            stripe.latencies.reset();
        }
        stripe.second = second;
    }

    /// Returns the history after the counts of all stripes have moved to it.
    fn flushed(&self, second: u64) -> MutexGuard<'_, History> {
        for stripe in &self.stripes {
            let mut stripe = stripe.lock().unwrap_or_else(PoisonError::into_inner);
            let mut history = self.history();
            history.add(stripe.second, &stripe.counts);
            stripe.counts = ActivityCounts::default();
            // The latencies move with each reader, too, so that a page shows the last requests.
            history.add_latencies(stripe.second, &stripe.latencies);
            stripe.latencies.reset();
            stripe.second = stripe.second.max(second);
        }
        self.history()
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;

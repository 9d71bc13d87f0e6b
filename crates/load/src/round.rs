//! The result of a round, and the arithmetic of results.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;

/// The shortest and longest latencies that are distinguished, in nanoseconds.
const NANOS: (u64, u64) = (1, 600_000_000_000);

/// Digits of a latency that are kept.
const DIGITS: u8 = 3;

/// Different errors whose texts are kept.
const SAMPLES_MAX: usize = 5;

/// The progress of a run, and the way to stop it.
#[derive(Debug, Default)]
pub struct Gauge {
    units: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
    stop: AtomicBool,
}

impl Gauge {
    /// What was counted since the start: units, bytes, errors.
    pub fn seen(&self) -> (u64, u64, u64) {
        let seen = |it: &AtomicU64| it.load(Ordering::Relaxed);
        (seen(&self.units), seen(&self.bytes), seen(&self.errors))
    }

    /// Stops the run: requests in flight finish, no other one begins.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether the run was stopped.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, units: u64, bytes: u64) {
        self.units.fetch_add(units, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_error(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }
}

/// The result of one round.
#[derive(Clone)]
pub struct Round {
    /// Requests with a good response.
    pub requests: u64,
    /// What the rate counts; see [`crate::Verb::unit`].
    pub units: u64,
    /// Bytes of bodies, sent or received.
    pub bytes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Some of the errors, each once.
    pub samples: Vec<String>,
    /// From the first request to the last response.
    pub took: Duration,
    latencies: Histogram<u64>,
}

impl fmt::Debug for Round {
    /// Without the counts of thousands of latencies.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requests, units, bytes, errors, samples, took, latencies: _ } = self;
        write!(f, "{requests} requests, {units} units, {bytes} bytes in {took:?}, ")?;
        write!(f, "{errors} errors: {samples:?}")
    }
}

impl Round {
    pub(crate) fn empty() -> Self {
        let latencies =
            Histogram::new_with_bounds(NANOS.0, NANOS.1, DIGITS).expect("the bounds are in order");
        let (samples, took) = (Vec::new(), Duration::ZERO);
        Self { requests: 0, units: 0, bytes: 0, errors: 0, samples, took, latencies }
    }

    /// One request that went well.
    pub(crate) fn add(&mut self, units: u64, bytes: u64, latency: Duration) {
        self.requests += 1;
        self.units += units;
        self.bytes += bytes;
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.latencies.saturating_record(nanos);
    }

    /// One that did not.
    pub(crate) fn add_error(&mut self, text: String) {
        self.errors += 1;
        self.keep(text);
    }

    fn keep(&mut self, text: String) {
        if self.samples.len() < SAMPLES_MAX && !self.samples.contains(&text) {
            self.samples.push(text);
        }
    }

    /// Adds the result of another client or round.
    pub(crate) fn merge(&mut self, other: Self) {
        self.requests += other.requests;
        self.units += other.units;
        self.bytes += other.bytes;
        self.errors += other.errors;
        other.samples.into_iter().for_each(|text| self.keep(text));
        self.took = self.took.max(other.took);
        self.latencies.add(&other.latencies).expect("all histograms have the same bounds");
    }

    /// Units per second.
    #[expect(clippy::cast_precision_loss, reason = "a round has far fewer than 2^52 requests")]
    pub fn rate(&self) -> f64 {
        self.units as f64 / self.took.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// MiB of bodies per second.
    #[expect(clippy::cast_precision_loss, reason = "a rate has no use for more than 52 bits")]
    pub fn mib_rate(&self) -> f64 {
        self.bytes as f64 / f64::from(1 << 20) / self.took.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// The latency that `percent` of the requests stay below; the longest for 100.
    pub fn percentile(&self, percent: f64) -> Duration {
        Duration::from_nanos(self.latencies.value_at_percentile(percent))
    }
}

/// The median; not a number if there are no values.
pub fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    let middle = all.len() / 2;
    match (all.get(middle), all.len() % 2) {
        (None, _) => f64::NAN,
        (Some(only), 1) => *only,
        (Some(upper), _) => f64::midpoint(all[middle - 1], *upper),
    }
}

#[cfg(test)]
mod tests;

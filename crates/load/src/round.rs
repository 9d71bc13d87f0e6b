//! The result of a round, and the arithmetic of results.
//!
//! For example, [`Round::percentile`] of 99 is the latency that 99 % of the requests do not exceed.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;

/// The smallest and largest latency of the histogram in nanoseconds.
const NANOS: (u64, u64) = (1, 600_000_000_000);

/// The significant digits of a latency.
const DIGITS: u8 = 3;

/// The largest number of different error texts in a result.
const SAMPLES_MAX: usize = 5;

/// The progress of a run of the load: shared counts that another thread can read, and a flag with
/// which it can stop the run.
#[derive(Debug, Default)]
pub struct Gauge {
    units: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
    stop: AtomicBool,
}

impl Gauge {
    /// Returns the counts since the start of the run: units (such as requests or listed keys, see
    /// `Verb::unit`), bytes of bodies, and errors.
    pub fn seen(&self) -> (u64, u64, u64) {
        let seen = |it: &AtomicU64| it.load(Ordering::Relaxed);
        (seen(&self.units), seen(&self.bytes), seen(&self.errors))
    }

    /// Stops the run: requests in flight finish, and no more begin.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Returns true if the run was stopped.
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

/// The result of one round, in which all clients repeat one operation for a given time.
#[derive(Clone)]
pub struct Round {
    /// The number of requests with a correct response.
    pub requests: u64,
    /// The number of units that the rate counts; see [`crate::Verb::unit`].
    pub units: u64,
    /// The bytes of bodies, sent or received.
    pub bytes: u64,
    /// The number of failed requests.
    pub errors: u64,
    /// Texts of errors, each once, at most 5.
    pub samples: Vec<String>,
    /// The time from the first request to the last response.
    pub took: Duration,
    latencies: Histogram<u64>,
    /// The latencies of the requests that write objects.
    writes: Histogram<u64>,
}

impl fmt::Debug for Round {
    /// Leaves out the histogram, which has thousands of counts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requests, units, bytes, errors, samples, took, .. } = self;
        write!(f, "{requests} requests, {units} units, {bytes} bytes in {took:?}, ")?;
        write!(f, "{errors} errors: {samples:?}")
    }
}

impl Round {
    pub(crate) fn empty() -> Self {
        let latencies =
            Histogram::new_with_bounds(NANOS.0, NANOS.1, DIGITS).expect("the bounds are in order");
        let (samples, took, writes) = (Vec::new(), Duration::ZERO, latencies.clone());
        Self { requests: 0, units: 0, bytes: 0, errors: 0, samples, took, latencies, writes }
    }

    /// Adds a successful request with its units, its bytes of bodies and its latency.
    pub(crate) fn add(&mut self, units: u64, bytes: u64, latency: Duration) {
        self.requests += 1;
        self.units += units;
        self.bytes += bytes;
        self.latencies.saturating_record(nanos(latency));
    }

    /// Adds the latency of a request that writes an object, in addition to [`Round::add`].
    pub(crate) fn add_write(&mut self, latency: Duration) {
        self.writes.saturating_record(nanos(latency));
    }

    /// Adds a failed request.
    pub(crate) fn add_error(&mut self, text: String) {
        self.errors += 1;
        self.keep(text);
    }

    fn keep(&mut self, text: String) {
        if self.samples.len() < SAMPLES_MAX && !self.samples.contains(&text) {
            self.samples.push(text);
        }
    }

    /// Adds the result of another client or round to this one. The duration becomes the longer of
    /// the two.
    pub(crate) fn merge(&mut self, other: Self) {
        self.requests += other.requests;
        self.units += other.units;
        self.bytes += other.bytes;
        self.errors += other.errors;
        other.samples.into_iter().for_each(|text| self.keep(text));
        // Clients run at the same time, so their durations are not added.
        self.took = self.took.max(other.took);
        self.latencies.add(&other.latencies).expect("all histograms have the same bounds");
        self.writes.add(&other.writes).expect("all histograms have the same bounds");
    }

    /// Returns the units per second.
    #[expect(clippy::cast_precision_loss, reason = "a round has far fewer than 2^52 requests")]
    pub fn rate(&self) -> f64 {
        self.units as f64 / self.took.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Returns the MiB of bodies per second.
    #[expect(clippy::cast_precision_loss, reason = "a rate has no use for more than 52 bits")]
    pub fn mib_rate(&self) -> f64 {
        self.bytes as f64 / f64::from(1 << 20) / self.took.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Returns the latency that `percent` % of the requests do not exceed. 100 gives the largest
    /// latency.
    pub fn percentile(&self, percent: f64) -> Duration {
        Duration::from_nanos(self.latencies.value_at_percentile(percent))
    }

    /// Returns the latency that `percent` % of the requests that write an object do not exceed, for
    /// example of the PUTs of the mixed load. Returns 0 if there were none.
    pub fn write_percentile(&self, percent: f64) -> Duration {
        Duration::from_nanos(self.writes.value_at_percentile(percent))
    }
}

/// Returns a latency as the histogram records it.
fn nanos(latency: Duration) -> u64 {
    u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the median; NaN if there are no values.
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

//! The history of one operation: rings of counts and of latencies.
//!
//! Each slot of a ring has the number of its step, so a slot of an hour ago is recognised and needs
//! no timer that clears it. For example, after a quiet hour the first request replaces one slot,
//! and a reader ignores all others.

use std::time::Duration;

use hdrhistogram::Histogram;

/// The longest latency that a histogram distinguishes, in microseconds: an hour.
const LATENCY_MICROS_MAX: u64 = 3_600_000_000;

/// The number of significant decimal digits of a latency in a histogram.
const LATENCY_DIGITS: u8 = 2;

/// The span of the ring of seconds.
const HOUR_SECONDS: u64 = 3_600;

/// The length of a step of the second ring.
const STEP_SECONDS: u64 = 10;

/// The span of the second ring.
pub(super) const DAY: Duration = Duration::from_hours(24);

/// The number of steps of the second ring.
const DAY_STEPS: u64 = DAY.as_secs() / STEP_SECONDS;

/// The length of a window of latencies.
pub(super) const WINDOW_SECONDS: u64 = 300;

/// The number of windows of latencies.
const WINDOWS: u64 = 12;

const _: () = assert!(WINDOWS * WINDOW_SECONDS == HOUR_SECONDS);

/// Counts of requests over some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActivityCounts {
    /// Requests that ended.
    pub requests: u64,
    /// Requests that the server could not serve.
    pub failed: u64,
    /// Requests that the server refused.
    pub refused: u64,
    /// Bytes of request bodies.
    pub bytes_in: u64,
    /// Bytes of response bodies.
    pub bytes_out: u64,
}

impl ActivityCounts {
    /// Adds other counts to these.
    pub(super) fn add(&mut self, more: &ActivityCounts) {
        self.requests += more.requests;
        self.failed += more.failed;
        self.refused += more.refused;
        self.bytes_in += more.bytes_in;
        self.bytes_out += more.bytes_out;
    }
}

/// Counts in equal steps of time, for a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivitySeries {
    /// The length of a step.
    pub step: Duration,
    /// The counts of each step, the oldest first. The last step is complete.
    pub points: Vec<ActivityCounts>,
}

/// The counts of one step of a ring.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    step: u64,
    counts: ActivityCounts,
}

/// A ring of the counts of the last steps.
#[derive(Debug)]
struct Ring {
    slots: Box<[Slot]>,
    /// The length of a step in seconds.
    step_seconds: u64,
}

impl Ring {
    fn new(steps: u64, step_seconds: u64) -> Ring {
        let steps = usize::try_from(steps).unwrap_or_default();
        Ring { slots: vec![Slot::default(); steps].into_boxed_slice(), step_seconds }
    }

    fn slot(&self, step: u64) -> usize {
        // The remainder is below the length, which is a `usize`.
        usize::try_from(step % self.slots.len() as u64).unwrap_or_default()
    }

    /// Adds the counts of a second. A slot of a later step stays as it is: these counts are older
    /// than the ring.
    fn add(&mut self, second: u64, counts: &ActivityCounts) {
        let step = second / self.step_seconds;
        let index = self.slot(step);
        let slot = &mut self.slots[index];
        if slot.step < step {
            *slot = Slot { step, counts: ActivityCounts::default() };
        }
        if slot.step == step {
            slot.counts.add(counts);
        }
    }

    /// Returns the counts of a step; zeros if it had no request or is older than the ring.
    fn counts(&self, step: u64) -> ActivityCounts {
        let slot = self.slots[self.slot(step)];
        if slot.step == step { slot.counts } else { ActivityCounts::default() }
    }
}

/// The latencies of one window.
#[derive(Debug)]
struct Window {
    number: u64,
    latencies: Histogram<u32>,
}

/// The history of one operation.
#[derive(Debug)]
pub(super) struct History {
    hour: Ring,
    day: Ring,
    windows: [Option<Window>; 12],
}

impl History {
    /// Returns an empty history.
    pub(super) fn new() -> History {
        History {
            hour: Ring::new(HOUR_SECONDS, 1),
            day: Ring::new(DAY_STEPS, STEP_SECONDS),
            windows: std::array::from_fn(|_| None),
        }
    }

    /// Adds the counts of a second.
    pub(super) fn add(&mut self, second: u64, counts: &ActivityCounts) {
        self.hour.add(second, counts);
        self.day.add(second, counts);
    }

    /// Adds latencies of a second's window.
    pub(super) fn add_latencies(&mut self, second: u64, more: &Histogram<u32>) {
        if more.is_empty() {
            return;
        }
        let number = second / WINDOW_SECONDS;
        let slot = usize::try_from(number % WINDOWS).unwrap_or_default();
        let window =
            self.windows[slot].get_or_insert_with(|| Window { number, latencies: latencies() });
        if window.number < number {
            window.latencies.reset();
            window.number = number;
        }
        if window.number == number {
            window.latencies.add(more).expect("all histograms have the same bounds");
        }
    }

    /// Returns the latencies of the windows that the last hour before a second overlaps.
    pub(super) fn latencies(&self, second: u64) -> Histogram<u32> {
        let newest = second / WINDOW_SECONDS;
        let mut all = latencies();
        for window in self.windows.iter().flatten() {
            if window.number + WINDOWS > newest {
                all.add(&window.latencies).expect("all histograms have the same bounds");
            }
        }
        all
    }

    /// Returns the counts of the time `over` until now, `second` included. Beyond an hour, the time
    /// is rounded up to ten seconds.
    pub(super) fn total(&self, second: u64, over: Duration) -> ActivityCounts {
        let (ring, steps) = if over.as_secs() <= HOUR_SECONDS {
            (&self.hour, over.as_secs().min(HOUR_SECONDS))
        } else {
            (&self.day, over.as_secs().div_ceil(STEP_SECONDS).min(DAY_STEPS))
        };
        let now = second / ring.step_seconds;
        let mut total = ActivityCounts::default();
        for step in (now + 1).saturating_sub(steps)..=now {
            total.add(&ring.counts(step));
        }
        total
    }

    /// Adds the counts of this operation to the points of a series that ends before the step of
    /// `second`, which is not complete.
    pub(super) fn add_to_series(&self, second: u64, series: &mut ActivitySeries) {
        let ring =
            if series.step.as_secs() == self.hour.step_seconds { &self.hour } else { &self.day };
        let now = second / ring.step_seconds;
        let points = series.points.len() as u64;
        for (index, point) in series.points.iter_mut().enumerate() {
            // Before the start of the process there is no step.
            if let Some(step) = (now + index as u64).checked_sub(points) {
                point.add(&ring.counts(step));
            }
        }
    }
}

/// Returns a series of zeros over the time `since`: in steps of a second up to an hour, and of ten
/// seconds beyond.
pub(super) fn empty_series(since: Duration) -> ActivitySeries {
    let step = if since.as_secs() <= HOUR_SECONDS { 1 } else { STEP_SECONDS };
    let points = usize::try_from(since.as_secs().div_ceil(step)).unwrap_or_default();
    // The rings keep the current step too, so a series has one step less than they have.
    let points = points.min(usize::try_from(HOUR_SECONDS.max(DAY_STEPS)).unwrap_or_default() - 1);
    ActivitySeries {
        step: Duration::from_secs(step),
        points: vec![ActivityCounts::default(); points],
    }
}

/// Returns an empty histogram of latencies in microseconds.
pub(super) fn latencies() -> Histogram<u32> {
    Histogram::new_with_bounds(1, LATENCY_MICROS_MAX, LATENCY_DIGITS)
        .expect("the bounds are constants in order")
}

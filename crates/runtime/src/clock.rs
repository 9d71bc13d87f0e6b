//! The wall clock, as an argument, and instants for rights that expire.
//!
//! Timestamps in records are of this clock: they are for people, and for S3's Last-Modified. No
//! decision between processes compares two of them, except the end of object locks. Timeouts use
//! the runtime's own time, which only runs forward, and which tests can pause. For example, an
//! operator who sets the clock of the machine forward does not end an object lock early, because
//! [`Clock::passed`] does not follow.

use std::fmt::Debug;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use record::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// A wall clock: the source of all timestamps in records.
pub trait Clock: Debug + Send + Sync + 'static {
    /// Returns the current time.
    fn now(&self) -> Timestamp;

    /// Returns a time that has certainly passed, for rights that must not end early. It is the
    /// minimum of [`Clock::now`] and of the clock at the start of the process plus the time that
    /// has elapsed since. So a clock that is set forward has no effect until the process restarts.
    fn passed(&self) -> Timestamp {
        self.now()
    }
}

/// The clock of the machine. Its time at construction is the base of [`Clock::passed`].
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    /// The time of the machine at construction.
    started_at: Timestamp,
    /// The instant of construction.
    started: Moment,
}

impl SystemClock {
    /// Returns the clock of the machine. The machine's time at this call is trusted: it is the base
    /// of `Clock::passed`.
    #[expect(clippy::new_without_default, reason = "the time of construction matters")]
    pub fn new() -> SystemClock {
        SystemClock { started_at: system_time(), started: Moment::now() }
    }
}

/// Returns the time of the machine's clock.
fn system_time() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "the only place that reads the machine's clock")]
    let now = SystemTime::now();
    // A clock before 1970 is wrong anyway, so 0 is as good.
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        system_time()
    }

    fn passed(&self) -> Timestamp {
        // By the boot clock, which no operator can set.
        let passed = i64::try_from(self.started.elapsed().as_nanos()).unwrap_or(i64::MAX);
        self.now().min(Timestamp(self.started_at.0.saturating_add(passed)))
    }
}

/// An instant at which a right ends, for example the right of a session to answer from its cached
/// records. It has passed if either of two clocks says so: the runtime's, which tests can pause, or
/// the boot clock, which counts the time in which the machine was suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The instant of the runtime's clock.
    run: Instant,
    /// The time since the boot of the machine, with the time in which it was suspended.
    booted: Duration,
}

impl Moment {
    /// Returns the current instant.
    pub fn now() -> Moment {
        let since = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(since.tv_sec).unwrap_or_default();
        let nanos = u32::try_from(since.tv_nsec).unwrap_or_default();
        Moment { run: Instant::now(), booted: Duration::new(seconds, nanos) }
    }

    /// Returns the instant that is later than this one by `wait`.
    #[must_use]
    pub fn after(self, wait: Duration) -> Moment {
        Moment { run: self.run + wait, booted: self.booted + wait }
    }

    /// Returns the earlier of two instants by each of the two clocks.
    #[must_use]
    pub fn earlier_of(self, other: Moment) -> Moment {
        Moment { run: self.run.min(other.run), booted: self.booted.min(other.booted) }
    }

    /// Returns the time until this instant, by the clock that reaches it first; 0 if it has passed.
    pub fn remaining(self) -> Duration {
        // The earlier of both, because a caller that sleeps for this time must not sleep past the
        // end of its right.
        let now = Moment::now();
        let run = self.run.saturating_duration_since(now.run);
        run.min(self.booted.saturating_sub(now.booted))
    }

    /// Returns the time since this instant, by the boot clock.
    pub fn elapsed(self) -> Duration {
        Moment::now().booted.saturating_sub(self.booted)
    }

    /// Returns true if this instant has passed by either clock.
    pub fn has_passed(self) -> bool {
        let now = Moment::now();
        now.run >= self.run || now.booted >= self.booted
    }
}

/// A clock for tests, which stops until it is set.
#[derive(Debug, Default)]
pub struct SetClock {
    now: AtomicI64,
    passed: AtomicI64,
}

impl SetClock {
    /// Returns a clock whose current time, and whose time that has certainly passed, are `now`.
    pub fn new(now: Timestamp) -> SetClock {
        SetClock { now: AtomicI64::new(now.0), passed: AtomicI64::new(now.0) }
    }

    /// Sets the current time and the time that has certainly passed.
    pub fn set(&self, now: Timestamp) {
        self.jump(now);
        self.passed.store(now.0, Ordering::Relaxed);
    }

    /// Sets the current time alone, as an operator sets the clock of a machine. The time that has
    /// certainly passed does not follow forward.
    pub fn jump(&self, now: Timestamp) {
        self.now.store(now.0, Ordering::Relaxed);
    }
}

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now.load(Ordering::Relaxed))
    }

    fn passed(&self) -> Timestamp {
        self.now().min(Timestamp(self.passed.load(Ordering::Relaxed)))
    }
}

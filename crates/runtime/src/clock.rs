//! The time of day, as an argument.
//!
//! Records carry timestamps by this clock, for people and for S3's Last-Modified. Between
//! processes nothing is decided by comparing two of them, but for when locks of objects end. Waiting and deadlines go by the runtime's own time, which
//! only runs forward and which tests may pause.

use std::fmt::Debug;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use record::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// Tells the time of day.
pub trait Clock: Debug + Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// A time that has surely come, for what must not end early: not later than [`Clock::now`], and
    /// not later than what the process was told at its start, with what has passed since. Whoever sets
    /// the machine's clock forward changes nothing of it until the process is started anew.
    fn passed(&self) -> Timestamp {
        self.now()
    }
}

/// The machine's clock, as it was found when this was made.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    /// What it told then.
    told: Timestamp,
    /// When that was.
    made: Moment,
}

impl SystemClock {
    /// The clock, trusted to be right at this moment.
    #[expect(clippy::new_without_default, reason = "it matters when it is made")]
    pub fn new() -> SystemClock {
        SystemClock { told: told(), made: Moment::now() }
    }
}

/// What the machine's clock tells.
fn told() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "the one place that asks the machine")]
    let now = SystemTime::now();
    // A machine that believes itself before 1970 is wrong by more than this.
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        told()
    }

    fn passed(&self) -> Timestamp {
        let passed = i64::try_from(self.made.elapsed().as_nanos()).unwrap_or(i64::MAX);
        self.now().min(Timestamp(self.told.0.saturating_add(passed)))
    }
}

/// An instant of this process's own time, for a right that ends by itself. Time in which the machine
/// slept has passed too, which the runtime's instants do not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// By the runtime, which tests may pause.
    run: Instant,
    /// Since the machine was started, its sleep included.
    awake: Duration,
}

impl Moment {
    /// This one.
    pub fn now() -> Moment {
        let since = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(since.tv_sec).unwrap_or_default();
        let nanos = u32::try_from(since.tv_nsec).unwrap_or_default();
        Moment { run: Instant::now(), awake: Duration::new(seconds, nanos) }
    }

    /// The one so much later.
    #[must_use]
    pub fn after(self, wait: Duration) -> Moment {
        Moment { run: self.run + wait, awake: self.awake + wait }
    }

    /// How long it takes until it comes, by the clock by which that is sooner.
    pub fn left(self) -> Duration {
        let now = Moment::now();
        let run = self.run.saturating_duration_since(now.run);
        run.min(self.awake.saturating_sub(now.awake))
    }

    /// How long it is past, by the clock that nobody sets.
    pub fn elapsed(self) -> Duration {
        Moment::now().awake.saturating_sub(self.awake)
    }

    /// Whether it has come, by either clock.
    pub fn has_come(self) -> bool {
        let now = Moment::now();
        now.run >= self.run || now.awake >= self.awake
    }
}

/// A clock that stands until it is set.
#[derive(Debug, Default)]
pub struct SetClock {
    now: AtomicI64,
    passed: AtomicI64,
}

impl SetClock {
    /// Stands at `now`.
    pub fn new(now: Timestamp) -> SetClock {
        SetClock { now: AtomicI64::new(now.0), passed: AtomicI64::new(now.0) }
    }

    /// Sets the time, forward or back, and lets as much pass.
    pub fn set(&self, now: Timestamp) {
        self.jump(now);
        self.passed.store(now.0, Ordering::Relaxed);
    }

    /// Sets the time as somebody sets a machine's clock, while no time passes.
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

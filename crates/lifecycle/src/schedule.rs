//! Decides when a pass over a bucket begins.
//!
//! The record of a pass holds the day of the process that began it, and the clocks of processes
//! differ. A single start with a fast clock records a future day. This must not keep processes with
//! other clocks from passes of their own. On the other hand, two processes whose clocks differ
//! permanently must not begin one pass after the other. Each process therefore remembers the pass
//! of its own day, and begins it once:
//!
//! | recorded day | own pass of today | result |
//! |---|---|---|
//! | the same | | continue it, or wait for tomorrow if it is done |
//! | later, by no more than [`SKEW_PART`] of a day | | wait: this clock reaches that day soon |
//! | later | not begun | begin |
//! | later | begun or done | wait: a process whose clock is ahead has begun a pass after it |
//! | earlier | done | wait for tomorrow |
//! | earlier, and that pass is not complete | not done | continue that pass; the own one follows |
//! | earlier, and that pass is complete | not begun, or begun and replaced | begin |
//!
//! A pass over many keys can take longer than a day. If each day began a new pass, no pass would
//! reach the last keys.
//!
//! For each clock there is at most one pass a day, and one more for each start of a process. The
//! recorded day decides only when a pass begins. Each page compares dates with the clock of the
//! process that does the page, as locks do; see [`volume::Volume::passed`].

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use record::{Ino, LifecyclePass, PassPosition, Timestamp};

/// The part of a day by which clocks may differ and still count as equal: one hour of 24.
const SKEW_PART: u32 = 24;

/// The lifecycle pass over a bucket that is due by the clock of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnPass {
    /// The version number of the bucket's configurations that this process knows. Each change of
    /// the rules raises it, and a pass with a higher number replaces an earlier pass.
    pub(crate) configs_version: u64,
    /// The day of this process's clock, counted from 1970 in days of the configured length.
    pub(crate) day: i64,
    /// The latest day that a clock with a tolerable difference may record now.
    pub(crate) day_max: i64,
}

impl OwnPass {
    /// Returns the pass that is due at `now`, for days of this length.
    pub(crate) fn at(now: Timestamp, day: Duration, configs_version: u64) -> OwnPass {
        let skew = i64::try_from((day / SKEW_PART).as_nanos()).unwrap_or(i64::MAX);
        let day_max = day_of(Timestamp(now.0.saturating_add(skew)), day);
        OwnPass { configs_version, day: day_of(now, day), day_max }
    }
}

/// Returns the number of the day at `now`, counted from 1970 in days of this length.
pub(crate) fn day_of(now: Timestamp, day: Duration) -> i64 {
    let day = i64::try_from(day.as_nanos()).unwrap_or(i64::MAX).max(1);
    now.0.div_euclid(day)
}

/// The decision of a process about the lifecycle pass over a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Begin a pass at the first key.
    Begin,
    /// Continue this pass, which the bucket's record has, at its position.
    Continue(LifecyclePass),
    /// Do nothing now: the pass is done, or another process's clock or rules are ahead of this
    /// one's.
    Wait,
}

/// The progress of the last pass over a bucket that this process knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    configs_version: u64,
    day: i64,
    is_done: bool,
}

/// The last known pass over each bucket, by the inode number of the bucket. The process has begun
/// it, continued it, or found it in the bucket's record with the day of its own clock.
#[derive(Debug, Default)]
pub(crate) struct KnownPasses(Mutex<HashMap<Ino, Known>>);

impl KnownPasses {
    /// Decides if this process begins, continues or leaves the pass over a bucket. `noted` is the
    /// pass in the bucket's record, `None` if there is no record; `own` is the pass that is due by
    /// this process's clock.
    pub(crate) fn decide(
        &self,
        bucket: Ino,
        noted: Option<&LifecyclePass>,
        own: OwnPass,
    ) -> Decision {
        let Some(noted) = noted else { return Decision::Begin };
        if noted.configs_version > own.configs_version {
            // This process has not yet read the rules that another process follows.
            return Decision::Wait;
        }
        if noted.configs_version < own.configs_version {
            return Decision::Begin;
        }
        if noted.day == own.day {
            self.note(bucket, noted);
            return match noted.position {
                PassPosition::KeysAfter(_) => Decision::Continue(noted.clone()),
                PassPosition::Finished => Decision::Wait,
            };
        }
        let known = self.of(bucket, own);
        // See the table of this module: the first branch has its rows for later days, the others
        // those for earlier days.
        if noted.day > own.day {
            let waits = noted.day <= own.day_max || known.is_some();
            return if waits { Decision::Wait } else { Decision::Begin };
        }
        if known.is_some_and(|known| known.is_done) {
            return Decision::Wait;
        }
        match noted.position {
            PassPosition::KeysAfter(_) => Decision::Continue(noted.clone()),
            PassPosition::Finished => Decision::Begin,
        }
    }

    /// Remembers the progress of a pass over `bucket` that this process has begun, continued or
    /// found with its own day. Replaces the pass that was known before, unless that is of a later
    /// day and of the same rules: the process then continues the pass of an earlier day.
    pub(crate) fn note(&self, bucket: Ino, pass: &LifecyclePass) {
        let is_done = pass.position == PassPosition::Finished;
        let new = Known { configs_version: pass.configs_version, day: pass.day, is_done };
        let mut passes = self.lock();
        let known = passes.entry(bucket).or_insert(new);
        if known.configs_version != new.configs_version || known.day <= new.day {
            *known = new;
        }
    }

    /// Forgets the known passes of other days than `day`, the number of a day since 1970. So those
    /// of deleted buckets are forgotten, too.
    pub(crate) fn keep_only(&self, day: i64) {
        self.lock().retain(|_, known| known.day == day);
    }

    fn of(&self, bucket: Ino, own: OwnPass) -> Option<Known> {
        let known = self.lock().get(&bucket).copied()?;
        let is_own = (known.configs_version, known.day) == (own.configs_version, own.day);
        is_own.then_some(known)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Ino, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;

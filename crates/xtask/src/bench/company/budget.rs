//! The time of a measurement of files, which has a limit.
//!
//! Work on files takes as long as it takes, unlike rounds of requests. So the number of rounds
//! depends on the machine: another round begins if it is expected to end in time, and no work
//! begins after the limit. For example, if a round takes 90 s, a limit of 270 s allows three.

use std::time::{Duration, Instant};

/// The time after which no more work begins. The longest work takes a minute on each mount.
pub(super) const ROUNDS_TIME_MAX: Duration = Duration::from_secs(270);

/// The rounds of a measurement, and the time that they take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    began: Instant,
    limit: Duration,
    rounds_max: u32,
    rounds: u32,
}

impl Budget {
    /// Begins a measurement of at most `rounds_max` rounds.
    pub(super) fn begin(now: Instant, limit: Duration, rounds_max: u32) -> Self {
        Self { began: now, limit, rounds_max, rounds: 0 }
    }

    /// Returns the number of the next round, from 0, or `None` if there is no time for it. The
    /// first round has no condition. The next one is expected to take as long as the average so
    /// far.
    pub(super) fn next(&mut self, now: Instant) -> Option<u32> {
        if self.rounds >= self.rounds_max {
            return None;
        }
        let elapsed = now.duration_since(self.began);
        if self.rounds > 0 && elapsed + elapsed / self.rounds > self.limit {
            return None;
        }
        self.rounds += 1;
        Some(self.rounds - 1)
    }

    /// Returns true if no more work may begin.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.began) >= self.limit
    }

    /// The number of rounds that have begun.
    pub(super) fn rounds(&self) -> u32 {
        self.rounds
    }
}

#[cfg(test)]
mod tests;

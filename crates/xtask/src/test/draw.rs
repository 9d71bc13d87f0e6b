//! Draws the metadata engine that a run tests more thoroughly than the others.
//!
//! Some suites take long, and a second engine would mostly repeat the result of the first one. Such
//! a suite runs on one engine in each run. The date selects the engine, so all runs of one day draw
//! the same engine, and consecutive days draw all engines in turn.
//!
//! For example, with all five engines wanted, five days in a row draw `SQLite`, `PostgreSQL`,
//! `MariaDB`, Redis and etcd.

use std::time::{Duration, SystemTime};

use crate::engines::Engine;

/// The length of a day, in seconds. Days are those of UTC.
const DAY: u64 = 24 * 60 * 60;

/// A day, counted from 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Day(u64);

impl Day {
    /// Returns the day of this machine's clock. A clock before 1970 counts as the first day.
    pub(super) fn today() -> Self {
        Self::after(SystemTime::UNIX_EPOCH.elapsed().unwrap_or(Duration::ZERO))
    }

    /// Returns the day at this time after the beginning of 1970.
    fn after(since: Duration) -> Self {
        Self(since.as_secs() / DAY)
    }

    /// Draws one of `engines`, which must not be empty.
    pub(super) fn draw(self, engines: &[Engine]) -> Engine {
        // Consecutive days give consecutive engines, so each engine is drawn equally often.
        let place = self.0 % u64::try_from(engines.len()).expect("a few engines");
        engines[usize::try_from(place).expect("smaller than a few")]
    }
}

/// Returns the engine that follows `drawn` in `engines`.
pub(super) fn next(drawn: Engine, engines: &[Engine]) -> Engine {
    let place = engines.iter().position(|engine| *engine == drawn).unwrap_or_default();
    engines[(place + 1) % engines.len()]
}

#[cfg(test)]
mod tests;

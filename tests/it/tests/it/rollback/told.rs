//! When everything happened, and what was told that cannot be.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;
use std::time::Instant;

/// The moments of a round, each known once it has come.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// Before the store stood still to be copied: what was acknowledged by then is in the copy.
    pub(super) frozen: OnceLock<Instant>,
    /// After the copy was made: what began since is not in it.
    pub(super) thawed: OnceLock<Instant>,
    /// Before the store was killed: what was acknowledged by then, and is not in the copy, is gone.
    pub(super) killed: OnceLock<Instant>,
    /// After it was: what began since is not of the store that was killed.
    pub(super) gone: OnceLock<Instant>,
}

/// What becomes of a change that was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Stays,
    /// Both are right.
    MayStay,
    TakenBack,
}

impl Times {
    /// By the time of a call that was told of as done.
    pub(super) fn fate(&self, began: Instant, ended: Instant) -> Fate {
        let (Some(&frozen), Some(&thawed)) = (self.frozen.get(), self.thawed.get()) else {
            return Fate::Stays;
        };
        let Some(&killed) = self.killed.get() else { return Fate::MayStay };
        if ended < frozen || self.gone.get().is_some_and(|&gone| began >= gone) {
            Fate::Stays
        } else if began >= thawed && ended < killed {
            Fate::TakenBack
        } else {
            Fate::MayStay
        }
    }

    /// Whether what was acknowledged from `began` on and is asked for until `now` is still there.
    pub(super) fn holds(&self, began: Instant, now: Instant) -> bool {
        let after = self.gone.get().is_some_and(|&gone| began >= gone);
        after || self.killed.get().is_none_or(|&killed| now < killed)
    }
}

/// How something is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wrong {
    /// Durable, touched by nobody since, and gone, other bytes or not to be read.
    Neglected,
    /// Durable or acknowledged, and another version or none is there.
    Lost,
    /// There, and not to be read.
    Unreadable,
    /// Other bytes than were ever put under this key, or another tag than theirs.
    Foreign,
}

/// All that is wrong, in words.
#[derive(Debug, Default)]
pub(super) struct Complaints(Vec<(Wrong, String)>);

/// Complaints that are shown.
const SHOWN: usize = 20;

impl Complaints {
    pub(super) fn add(&mut self, wrong: Wrong, what: String) {
        self.0.push((wrong, what));
    }

    pub(super) fn extend(&mut self, other: Complaints) {
        self.0.extend(other.0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// How many of each kind.
    pub(super) fn figures(&self) -> String {
        let mut counts: BTreeMap<Wrong, usize> = BTreeMap::new();
        for (wrong, _) in &self.0 {
            *counts.entry(*wrong).or_default() += 1;
        }
        format!("{counts:?}")
    }
}

impl fmt::Display for Complaints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (wrong, what) in self.0.iter().take(SHOWN) {
            writeln!(f, "  {wrong:?}: {what}")?;
        }
        Ok(())
    }
}

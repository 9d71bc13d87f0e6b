//! The times of a round, and the violations.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;
use std::time::Instant;

/// The times of a round, each set once it is known.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// Before the store was paused for the copy: changes acknowledged before it are in the copy.
    pub(super) frozen: OnceLock<Instant>,
    /// After the copy was made: changes that began later are not in it.
    pub(super) thawed: OnceLock<Instant>,
    /// Before the store was killed: changes acknowledged before it, and not in the copy, are lost.
    pub(super) killed: OnceLock<Instant>,
    /// After the store was killed: changes that began later are in the restored store.
    pub(super) gone: OnceLock<Instant>,
}

/// The effect of a restore on an acknowledged change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Stays,
    /// Both are allowed.
    MayStay,
    TakenBack,
}

impl Times {
    /// Returns the effect on an acknowledged change with these times.
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

    /// Returns true if a change that began at `began` must still be visible to a read at `now`.
    pub(super) fn holds(&self, began: Instant, now: Instant) -> bool {
        let after = self.gone.get().is_some_and(|&gone| began >= gone);
        after || self.killed.get().is_none_or(|&killed| now < killed)
    }
}

/// The kinds of violations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Violation {
    /// An object that was durable, and not touched since, is missing, unreadable or has other
    /// bytes.
    Neglected,
    /// A durable or acknowledged version is missing or replaced by another version.
    Lost,
    /// An object exists and cannot be read.
    Unreadable,
    /// The bytes or the entity tag were never put under this key.
    Foreign,
}

/// The violations as text.
#[derive(Debug, Default)]
pub(super) struct Violations(Vec<(Violation, String)>);

/// Number of violations that are shown.
const SHOWN: usize = 20;

impl Violations {
    pub(super) fn add(&mut self, kind: Violation, what: String) {
        self.0.push((kind, what));
    }

    pub(super) fn extend(&mut self, other: Violations) {
        self.0.extend(other.0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of violations of each kind.
    pub(super) fn figures(&self) -> String {
        let mut counts: BTreeMap<Violation, usize> = BTreeMap::new();
        for (kind, _) in &self.0 {
            *counts.entry(*kind).or_default() += 1;
        }
        format!("{counts:?}")
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, what) in self.0.iter().take(SHOWN) {
            writeln!(f, "  {kind:?}: {what}")?;
        }
        Ok(())
    }
}

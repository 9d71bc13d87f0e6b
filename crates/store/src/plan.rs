//! Plans: what must hold, and what happens then.

use std::collections::HashSet;

use crate::StoreErrorKind;
use crate::{Follow, Key, Limits, Read, TallyKey, Value};

/// A condition that must hold at the instant of commit.
///
/// Guards compare bytes, not versions: a record that returned to the same bytes says the same
/// thing, and ids are never reused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// The record has exactly these bytes.
    Equals(Key, Value),
    /// There is no such record.
    Absent(Key),
    /// The record exists; its bytes do not matter.
    Present(Key),
    /// No record in `start..end`, both in one partition of one ordered space. The range belongs to
    /// an owner record that every plan writing into it guards, and that a plan relying on this
    /// guard deletes or rewrites: engines do not protect the range itself.
    Empty(Key, Key),
}

/// What a tally may be told to become, or to change by, either side of 0. Callers keep sums within;
/// beyond, a tally's value is not defined, and nothing else suffers. The bound is where engines
/// that count in floating point lose digits.
pub const TALLY_MAX: i64 = 1 << 53;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Sets a record.
    Put(Key, Value),
    /// Removes a record, if it is there.
    Delete(Key),
    /// Adds to a tally. Additions commute.
    Add(TallyKey, i64),
    /// Raises a tally to at least this value.
    Max(TallyKey, i64),
    /// Sets a tally.
    Set(TallyKey, i64),
    /// Removes a tally; it reads as 0 from then on.
    Clear(TallyKey),
}

impl Write {
    fn key(&self) -> (bool, &Key) {
        match self {
            Write::Put(key, _) | Write::Delete(key) => (false, key),
            Write::Add(TallyKey(key), _)
            | Write::Max(TallyKey(key), _)
            | Write::Set(TallyKey(key), _)
            | Write::Clear(TallyKey(key)) => (true, key),
        }
    }
}

/// Writes that happen together, or not at all, if every guard holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What must hold.
    pub guards: Vec<Guard>,
    /// What happens then. A key stands in at most one write.
    pub writes: Vec<Write>,
}

/// The store's decision on a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every guard held and every write happened.
    Committed,
    /// A guard did not hold; nothing was written.
    Refused {
        /// The first guard, in the plan's order, that did not hold.
        guard: usize,
        /// The record that `Equals` or `Absent` met instead, if there was one.
        found: Option<Value>,
    },
    /// Nothing was written, for a reason that concerns this plan and not the whole batch: what an
    /// error of the whole call would mean. [`StoreErrorKind::Unavailable`] says that there is no
    /// room for what the plan adds, and [`StoreErrorKind::Corrupt`] that a record which it guards is
    /// damaged. A batch of which every plan failed is an error of the call.
    Failed(StoreErrorKind),
}

/// Why a plan is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// Two writes name one key.
    #[error("two writes name {0:?}")]
    WrittenTwice(Key),
    /// A range that leaves its partition, runs backwards, or scans a point space.
    #[error("no range from {0:?} to {1:?}")]
    BadRange(Key, Key),
    /// A follow whose targets are too short for a key.
    #[error("keys of {0} bytes cannot be followed to")]
    BadFollow(usize),
    /// More than a limit allows.
    #[error("{what}: {size} is more than {limit}")]
    TooLarge {
        /// Which limit.
        what: &'static str,
        /// What there is.
        size: usize,
        /// What is allowed.
        limit: usize,
    },
}

impl Plan {
    /// Guards and writes, together.
    pub fn items(&self) -> usize {
        self.guards.len() + self.writes.len()
    }

    /// Bytes of keys and values.
    pub fn bytes(&self) -> usize {
        let guards = self.guards.iter().map(|guard| match guard {
            Guard::Equals(key, value) => key.as_bytes().len() + value.len(),
            Guard::Absent(key) | Guard::Present(key) => key.as_bytes().len(),
            Guard::Empty(start, end) => start.as_bytes().len() + end.as_bytes().len(),
        });
        let writes = self.writes.iter().map(|write| match write {
            Write::Put(key, value) => key.as_bytes().len() + value.len(),
            other => other.key().1.as_bytes().len() + size_of::<i64>(),
        });
        guards.sum::<usize>() + writes.sum::<usize>()
    }

    /// Whether an engine with these limits may be asked to decide this plan.
    pub fn check(&self, limits: &Limits) -> Result<(), Malformed> {
        within("items of a plan", self.items(), limits.plan_items)?;
        within("bytes of a plan", self.bytes(), limits.plan_bytes)?;
        for guard in &self.guards {
            match guard {
                Guard::Equals(key, value) => check_record(key, Some(value), limits)?,
                Guard::Absent(key) | Guard::Present(key) => check_record(key, None, limits)?,
                Guard::Empty(start, end) => {
                    check_record(start, None, limits)?;
                    check_record(end, None, limits)?;
                    check_range(start, end)?;
                }
            }
        }
        let mut seen = HashSet::with_capacity(self.writes.len());
        for write in &self.writes {
            let (tally, key) = write.key();
            let value = if let Write::Put(_, value) = write { Some(value) } else { None };
            check_record(key, value, limits)?;
            if let Write::Add(_, number) | Write::Max(_, number) | Write::Set(_, number) = write {
                let size = usize::try_from(number.unsigned_abs()).unwrap_or(usize::MAX);
                within("a tally", size, usize::try_from(TALLY_MAX).unwrap_or(usize::MAX))?;
            }
            if !seen.insert((tally, key)) {
                return Err(Malformed::WrittenTwice(key.clone()));
            }
        }
        Ok(())
    }
}

impl Limits {
    /// What every engine allows, at least. A plan cannot be split, and the largest that there is
    /// makes every directory of a key whose 512 components have a letter each.
    pub const LEAST: Limits = Limits {
        key_bytes: 1_100 + Key::PREFIX_BYTES,
        value_bytes: 1 << 20,
        plan_items: 4_096,
        plan_bytes: 4 << 20,
        batch_plans: 64,
        batch_items: 4_096,
        batch_bytes: 4 << 20,
        reads: 2_048,
        range_records: 10_000,
    };

    /// Whether an engine with these limits may be asked to decide this batch.
    pub fn check_commit(&self, plans: &[Plan]) -> Result<(), Malformed> {
        within("plans of a batch", plans.len(), self.batch_plans)?;
        let items = plans.iter().map(Plan::items).sum();
        within("items of a batch", items, self.batch_items)?;
        let bytes = plans.iter().map(Plan::bytes).sum();
        within("bytes of a batch", bytes, self.batch_bytes)?;
        plans.iter().try_for_each(|plan| plan.check(self))
    }

    /// Whether an engine with these limits may be asked these questions at once.
    pub fn check_read(&self, reads: &[Read]) -> Result<(), Malformed> {
        within("questions of a read", reads.len(), self.reads)?;
        for read in reads {
            match read {
                Read::Record { key, follow } => {
                    check_record(key, None, self)?;
                    check_follow(follow.as_ref(), self)?;
                }
                Read::Range { start, end, limit, follow } => {
                    check_record(start, None, self)?;
                    check_record(end, None, self)?;
                    check_range(start, end)?;
                    check_follow(follow.as_ref(), self)?;
                    let limit = usize::try_from(*limit).unwrap_or(usize::MAX);
                    within("records of a range", limit, self.page(self.range_records))?;
                }
                Read::Tally(TallyKey(key)) => check_record(key, None, self)?,
            }
        }
        Ok(())
    }

    /// How many records a page of a walk has when a caller wishes for `limit`.
    pub fn page(&self, limit: u32) -> usize {
        usize::try_from(limit.min(self.range_records)).unwrap_or(usize::MAX).max(1)
    }
}

fn check_follow(follow: Option<&Follow>, limits: &Limits) -> Result<(), Malformed> {
    let Some(follow) = follow else { return Ok(()) };
    let bytes = follow.prefix.len() + usize::from(follow.length);
    within("bytes of a followed key", bytes, limits.key_bytes)?;
    let most = follow.most.map_or(0, |most| usize::try_from(most).unwrap_or(usize::MAX));
    within("bytes of a followed record", most, limits.value_bytes)?;
    if bytes < Key::PREFIX_BYTES { Err(Malformed::BadFollow(bytes)) } else { Ok(()) }
}

/// Whether `start..end` is a range of one partition of one ordered space. The end may be the first
/// key of the next partition, which closes a whole one.
fn check_range(start: &Key, end: &Key) -> Result<(), Malformed> {
    let same = start.space() == end.space() && start.partition() == end.partition();
    let whole = start.space() == end.space()
        && end.suffix().is_empty()
        && start.partition().checked_add(1) == Some(end.partition());
    if start.space().is_ordered() && start <= end && (same || whole) {
        Ok(())
    } else {
        Err(Malformed::BadRange(start.clone(), end.clone()))
    }
}

fn check_record(key: &Key, value: Option<&Value>, limits: &Limits) -> Result<(), Malformed> {
    within("bytes of a key", key.as_bytes().len(), limits.key_bytes)?;
    within("bytes of a value", value.map_or(0, Value::len), limits.value_bytes)
}

fn within(what: &'static str, size: usize, limit: usize) -> Result<(), Malformed> {
    if size <= limit { Ok(()) } else { Err(Malformed::TooLarge { what, size, limit }) }
}

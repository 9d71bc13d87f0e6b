//! Checks plans, batches and reads against an engine's limits.
//!
//! Each engine checks a call before it sends it. For example, a plan that puts a record and deletes
//! the same record is malformed: the result would depend on the order of its writes.

use std::collections::HashSet;

use crate::{
    COUNTER_MAX, CounterKey, Follow, Guard, Key, Limits, Plan, Read, StoreError, StoreErrorKind,
    Value, Write,
};

/// The reason why a call is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// Two writes of one plan change the record or counter with this key.
    #[error("two writes have the key {0:?}")]
    WrittenTwice(Key),
    /// A plan bounds the counter with this key by a guard `AtMost`, and also sets, raises or clears
    /// it. It may only add to it.
    #[error("a plan that bounds the counter {0:?} sets, raises or clears it")]
    BoundedAndSet(Key),
    /// The range from the first key to the second leaves its partition, runs backwards, or belongs
    /// to a point space, whose records are read by key only.
    #[error("{0:?}..{1:?} is not a range of one ordered partition")]
    BadRange(Key, Key),
    /// A read has a follow, that is, a rule that derives a second key from the found record, and
    /// that key would have this number of bytes. Each key has at least `Key::PREFIX_BYTES`.
    #[error("a follow derives keys of {0} bytes, which is too short")]
    BadFollow(usize),
    /// A size in the call exceeds a limit of the engine.
    #[error("{what}: {size} is more than {limit}")]
    TooLarge {
        /// The quantity that the limit bounds, for example `items of a plan`.
        what: &'static str,
        /// The size found.
        size: usize,
        /// The limit.
        limit: usize,
    },
}

impl From<Malformed> for StoreError {
    fn from(malformed: Malformed) -> StoreError {
        StoreError::because(StoreErrorKind::Malformed, "checking a call", malformed)
    }
}

impl Plan {
    /// Checks the plan against the limits of an engine, and against the rules for its writes.
    ///
    /// # Errors
    /// Fails with the first violation.
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
                Guard::AtMost(counter, most) => {
                    check_record(&counter.0, None, limits)?;
                    check_number(*most)?;
                }
            }
        }
        // A bound is compared with the counter before the plan plus the plan's addition. Engines
        // rely on the plan changing the counter in no other way.
        let bounded: HashSet<&CounterKey> = self.bounded_counters().collect();
        let mut seen = HashSet::with_capacity(self.writes.len());
        for write in &self.writes {
            let (counter, key) = write.key();
            let value = if let Write::Put(_, value) = write { Some(value) } else { None };
            check_record(key, value, limits)?;
            if let Write::Add(_, number) | Write::Max(_, number) | Write::Set(_, number) = write {
                check_number(*number)?;
            }
            if let Write::Max(counter, _) | Write::Set(counter, _) | Write::Clear(counter) = write
                && bounded.contains(counter)
            {
                return Err(Malformed::BoundedAndSet(key.clone()));
            }
            if !seen.insert((counter, key)) {
                return Err(Malformed::WrittenTwice(key.clone()));
            }
        }
        Ok(())
    }
}

impl Limits {
    /// The limits that each engine has at least; callers rely on them. A plan cannot be split, so
    /// `plan_items` fits the largest plan: the removal of all directories of a key with 512
    /// components of one letter.
    pub const LEAST: Limits = Limits {
        key_bytes: 1_100 + Key::PREFIX_BYTES,
        value_bytes: 1 << 20,
        plan_items: 4_224,
        plan_bytes: 4 << 20,
        batch_plans: 64,
        batch_items: 4_224,
        batch_bytes: 4 << 20,
        reads: 2_048,
        range_records: 10_000,
        commits_in_flight: 1,
        reads_in_flight: 1,
        serves_one: false,
    };

    /// Checks a batch, and each of its plans, against these limits.
    ///
    /// # Errors
    /// Fails with the first violation.
    pub fn check_commit(&self, plans: &[Plan]) -> Result<(), Malformed> {
        within("plans of a batch", plans.len(), self.batch_plans)?;
        let items = plans.iter().map(Plan::items).sum();
        within("items of a batch", items, self.batch_items)?;
        let bytes = plans.iter().map(Plan::bytes).sum();
        within("bytes of a batch", bytes, self.batch_bytes)?;
        plans.iter().try_for_each(|plan| plan.check(self))
    }

    /// Checks the questions of one read against these limits.
    ///
    /// # Errors
    /// Fails with the first violation.
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
                Read::Counter(CounterKey(key)) => check_record(key, None, self)?,
            }
        }
        Ok(())
    }

    /// Returns the number of records of one page of a walk or snapshot if the caller wants `limit`:
    /// at least 1, at most [`Limits::range_records`].
    pub fn page(&self, limit: u32) -> usize {
        usize::try_from(limit.min(self.range_records)).unwrap_or(usize::MAX).max(1)
    }
}

fn check_follow(follow: Option<&Follow>, limits: &Limits) -> Result<(), Malformed> {
    let Some(follow) = follow else { return Ok(()) };
    let bytes = follow.prefix.len() + usize::from(follow.length);
    within("bytes of a followed key", bytes, limits.key_bytes)?;
    let fetched = follow.bytes_max.map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    within("bytes of a followed record", fetched, limits.value_bytes)?;
    if bytes < Key::PREFIX_BYTES { Err(Malformed::BadFollow(bytes)) } else { Ok(()) }
}

/// Checks that `start..end` is a range of one partition (the space and the eight bytes that follow
/// it in a key) of one ordered space. The end may be the first key of the next partition; then the
/// range contains the rest of the partition.
fn check_range(start: &Key, end: &Key) -> Result<(), Malformed> {
    let same = start.space() == end.space() && start.partition() == end.partition();
    let to_next = start.space() == end.space()
        && end.suffix().is_empty()
        && start.partition().checked_add(1) == Some(end.partition());
    if start.space().is_ordered() && start <= end && (same || to_next) {
        Ok(())
    } else {
        Err(Malformed::BadRange(start.clone(), end.clone()))
    }
}

fn check_number(number: i64) -> Result<(), Malformed> {
    let size = usize::try_from(number.unsigned_abs()).unwrap_or(usize::MAX);
    within("a counter", size, usize::try_from(COUNTER_MAX).unwrap_or(usize::MAX))
}

fn check_record(key: &Key, value: Option<&Value>, limits: &Limits) -> Result<(), Malformed> {
    within("bytes of a key", key.as_bytes().len(), limits.key_bytes)?;
    within("bytes of a value", value.map_or(0, Value::len), limits.value_bytes)
}

fn within(what: &'static str, size: usize, limit: usize) -> Result<(), Malformed> {
    if size <= limit { Ok(()) } else { Err(Malformed::TooLarge { what, size, limit }) }
}

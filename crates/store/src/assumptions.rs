//! Decides a batch before its records are read: on assumptions, which the commit then checks.
//!
//! Engines use this if their database can check conditions and write in one step. The engine
//! assumes that the first guard on each record holds and decides all plans in memory. It then sends
//! the writes of the committed plans, with the assumptions as conditions. If a condition does not
//! hold, the database changes nothing and returns the records that differ. The engine learns them
//! and decides again.
//!
//! Invariant: if all conditions of a [`DecidedBatch`] hold at the instant of the commit, its
//! verdicts and writes are those of the plans, one after the other, at that instant.
//!
//! For example, two plans guard that the directory entry `a` is absent and put it. The engine
//! assumes that `a` is absent. Then the first plan is committed and the second one is refused with
//! the record of the first, in one round trip. If `a` exists, the database returns it. Both plans
//! are then refused with that record, and nothing more is sent.
//!
//! This module does not know how an engine checks conditions.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::feed::compact;
use crate::{CounterChange, CounterKey, Guard, Key, Plan, Value, Verdict, Write};

/// The state of a record before a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Before {
    /// The record does not exist.
    Absent,
    /// The record exists, with any bytes.
    Present,
    /// The record exists and has these bytes.
    Equal(Value),
}

/// A record that a decision names.
#[derive(Debug, Default)]
struct Record {
    /// The assumed state before the batch; `None` if the decision is right for any state.
    before: Option<Before>,
    /// The record after the plans so far. It has no bytes if only its presence is assumed.
    now: Option<Value>,
    written: bool,
}

impl Record {
    /// Assumes that a guard on the record holds.
    fn assume(&mut self, guard: &Guard) {
        let (before, now) = match guard {
            Guard::Equals(_, value) => (Before::Equal(value.clone()), Some(value.clone())),
            Guard::Present(_) => (Before::Present, Some(Value::new())),
            Guard::Absent(_) | Guard::Empty(..) | Guard::AtMost(..) => (Before::Absent, None),
        };
        (self.before, self.now) = (Some(before), now);
    }
}

/// The records, counters and ranges that did not meet the conditions of a decision.
#[derive(Debug, Default)]
pub struct Found {
    /// Each record that differs from the condition on it; `None` if it does not exist.
    pub records: BTreeMap<Key, Option<Value>>,
    /// The values of all bounded counters, if at least one exceeds its bound; otherwise empty.
    pub counters: BTreeMap<CounterKey, i64>,
    /// The ranges that are not empty.
    pub filled: BTreeSet<(Key, Key)>,
}

/// The plans of one batch, and the knowledge about the database from earlier tries to commit it.
#[derive(Debug)]
pub struct Assumptions<'a> {
    plans: &'a [Plan],
    learned: Found,
}

/// The reason why a batch cannot be decided with the present assumptions.
enum Obstacle<'a> {
    /// One guard assumes that the record exists, and another one needs its bytes.
    NeedsBytes(&'a Key),
    /// Conditions on the state before the batch cannot express the decision.
    Inexpressible,
}

impl<'a> Assumptions<'a> {
    /// Creates the assumptions for a batch about which nothing is known.
    pub fn new(plans: &'a [Plan]) -> Assumptions<'a> {
        Assumptions { plans, learned: Found::default() }
    }

    /// Decides the plans. Returns `None` if conditions on the state before the batch cannot express
    /// the result. For example, a bound on a counter that an earlier plan of the batch sets is not
    /// a condition on its value before. A batch of one plan without knowledge is never `None`.
    pub fn decide(&mut self) -> Option<DecidedBatch<'a>> {
        loop {
            match DecidedBatch::of(self.plans, &self.learned) {
                Ok(decision) => return Some(decision),
                // If the record is absent after all, this assumption is right; otherwise the
                // database returns its bytes.
                Err(Obstacle::NeedsBytes(key)) => {
                    self.learned.records.insert(key.clone(), None);
                }
                Err(Obstacle::Inexpressible) => return None,
            }
        }
    }

    /// Learns from a commit that changed nothing, and decides again. `found` is the state at one
    /// instant: everything that did not meet the conditions of `refused`. The new decision is
    /// [certain](DecidedBatch::is_certain) if this state refuses all plans. Returns `None` like
    /// [`Assumptions::decide`].
    pub fn learn(&mut self, refused: &DecidedBatch<'a>, found: Found) -> Option<DecidedBatch<'a>> {
        let keys: BTreeSet<Key> = found.records.keys().cloned().collect();
        self.learned.records.extend(found.records);
        self.learned.counters.extend(found.counters);
        self.learned.filled.extend(found.filled);
        let mut next = self.decide()?;
        // Knowledge from before `found` counts only if a condition of `refused` has confirmed it.
        let is_known = |(key, record): (&&Key, &Record)| {
            record.before.is_none()
                || keys.contains(*key)
                || refused.records.get(*key).is_some_and(|it| it.before == record.before)
        };
        next.is_certain = !next.commits()
            && next.records.iter().all(is_known)
            && next.bounds.is_empty()
            && next.ranges.is_subset(&refused.ranges);
        Some(next)
    }
}

/// The verdicts and writes of a batch, and the conditions under which they are right.
#[derive(Debug)]
pub struct DecidedBatch<'a> {
    plans: &'a [Plan],
    records: BTreeMap<&'a Key, Record>,
    is_certain: bool,
    /// The verdict of each plan.
    pub verdicts: Vec<Verdict>,
    /// The conditions on counters: the largest value that each may have before the batch.
    pub bounds: BTreeMap<&'a CounterKey, i64>,
    /// The ranges that must contain no record before the batch.
    pub ranges: BTreeSet<(&'a Key, &'a Key)>,
    /// The changes of counters by the committed plans.
    pub counters: BTreeMap<&'a CounterKey, CounterChange>,
}

impl<'a> DecidedBatch<'a> {
    fn of(plans: &'a [Plan], learned: &Found) -> Result<DecidedBatch<'a>, Obstacle<'a>> {
        let mut decision = DecidedBatch {
            plans,
            records: BTreeMap::new(),
            is_certain: false,
            verdicts: Vec::with_capacity(plans.len()),
            bounds: BTreeMap::new(),
            ranges: BTreeSet::new(),
            counters: BTreeMap::new(),
        };
        for plan in plans {
            let verdict = decision.verdict(plan, learned)?;
            if verdict == Verdict::Committed {
                plan.writes.iter().for_each(|write| decision.apply(write, learned));
            }
            decision.verdicts.push(verdict);
        }
        // No condition says that a counter exceeds a number, or that a range is not empty.
        let knows_more = !learned.counters.is_empty() || !learned.filled.is_empty();
        if knows_more && decision.commits() {
            return Err(Obstacle::Inexpressible);
        }
        Ok(decision)
    }

    /// Returns true if at least one plan is committed.
    fn commits(&self) -> bool {
        self.verdicts.contains(&Verdict::Committed)
    }

    /// Returns the plans of the batch.
    pub fn plans(&self) -> &'a [Plan] {
        self.plans
    }

    /// Returns true if the verdicts are right without another commit, because the last try found
    /// the records that refuse all plans.
    pub fn is_certain(&self) -> bool {
        self.is_certain
    }

    /// Returns the conditions on records, in the order of keys.
    pub fn conditions(&self) -> impl Iterator<Item = (&'a Key, &Before)> {
        self.records.iter().filter_map(|(key, record)| Some((*key, record.before.as_ref()?)))
    }

    /// Returns the records that committed plans write, in the order of keys: each with its assumed
    /// state before the batch, and its bytes after it, or `None` if it is deleted.
    pub fn writes(&self) -> impl Iterator<Item = (&'a Key, Option<&Before>, Option<&Value>)> {
        let written = self.records.iter().filter(|(_, record)| record.written);
        written.map(|(key, record)| (*key, record.before.as_ref(), record.now.as_ref()))
    }

    /// Returns the batch's entry in the change feed: the encoded keys of the records that committed
    /// plans write.
    pub fn entry(&self) -> Bytes {
        let both = self.plans.iter().zip(&self.verdicts);
        compact::entry(
            both.filter(|(_, verdict)| **verdict == Verdict::Committed).map(|(plan, _)| plan),
        )
    }

    fn verdict(&mut self, plan: &'a Plan, learned: &Found) -> Result<Verdict, Obstacle<'a>> {
        for (index, guard) in plan.guards.iter().enumerate() {
            let (holds, found) = match guard {
                Guard::Equals(key, value) => {
                    let now = self.record(key, guard, learned)?;
                    (now == Some(value), now)
                }
                Guard::Absent(key) => {
                    let now = self.record(key, guard, learned)?;
                    (now.is_none(), now)
                }
                Guard::Present(key) => (self.record(key, guard, learned)?.is_some(), None),
                Guard::Empty(start, end) => (self.is_empty(start, end, learned), None),
                Guard::AtMost(counter, most) => {
                    let limit = plan.limit_before(counter, *most);
                    (self.is_at_most(counter, limit, learned)?, None)
                }
            };
            if !holds {
                return Ok(Verdict::Refused { guard: index, found: found.cloned() });
            }
        }
        Ok(Verdict::Committed)
    }

    /// Returns a record after the plans so far. If nothing is known about it, assumes that the
    /// guard holds.
    fn record(
        &mut self,
        key: &'a Key,
        guard: &Guard,
        learned: &Found,
    ) -> Result<Option<&Value>, Obstacle<'a>> {
        let record = self.records.entry(key).or_insert_with(|| {
            let known = |value: &Option<Value>| Record {
                before: Some(value.clone().map_or(Before::Absent, Before::Equal)),
                now: value.clone(),
                written: false,
            };
            learned.records.get(key).map_or_else(Record::default, known)
        });
        if !record.written {
            match (&record.before, guard) {
                (None, _) | (Some(Before::Present), Guard::Equals(..)) => record.assume(guard),
                (Some(Before::Present), Guard::Absent(_)) => {
                    return Err(Obstacle::NeedsBytes(key));
                }
                (Some(Before::Absent | Before::Present | Before::Equal(_)), _) => {}
            }
        }
        Ok(record.now.as_ref())
    }

    fn is_empty(&mut self, start: &'a Key, end: &'a Key, learned: &Found) -> bool {
        let is_filled = |(first, behind): &(Key, Key)| first == start && behind == end;
        if self.records.range::<&Key, _>(start..end).any(|(_, record)| record.now.is_some())
            || learned.filled.iter().any(is_filled)
        {
            return false;
        }
        self.ranges.insert((start, end));
        true
    }

    /// Returns true if a counter is at most `limit` after the plans so far. If nothing is known
    /// about it, assumes that.
    fn is_at_most(
        &mut self,
        counter: &'a CounterKey,
        limit: i64,
        learned: &Found,
    ) -> Result<bool, Obstacle<'a>> {
        let added = match self.counters.get(counter) {
            None => 0,
            Some(CounterChange::By { add, floor: None }) => *add,
            Some(CounterChange::By { .. } | CounterChange::To(_)) => {
                return Err(Obstacle::Inexpressible);
            }
        };
        let before = limit.checked_sub(added).ok_or(Obstacle::Inexpressible)?;
        if let Some(known) = learned.counters.get(counter) {
            return Ok(*known <= before);
        }
        let bound = self.bounds.entry(counter).or_insert(before);
        *bound = before.min(*bound);
        Ok(true)
    }

    fn apply(&mut self, write: &'a Write, learned: &Found) {
        let (key, now) = match write {
            Write::Put(key, value) => (key, Some(value.clone())),
            Write::Delete(key) => (key, None),
            Write::Add(key, _) | Write::Max(key, _) | Write::Set(key, _) | Write::Clear(key) => {
                let change = self.counters.entry(key).or_insert(CounterChange::NONE);
                *change = change.then(write);
                return;
            }
        };
        let record = self.records.entry(key).or_insert_with(|| {
            // No guard needs the bytes of this record, so only its presence counts.
            let presence = |value: &Option<Value>| match value {
                Some(_) => Before::Present,
                None => Before::Absent,
            };
            Record { before: learned.records.get(key).map(presence), ..Record::default() }
        });
        (record.now, record.written) = (now, true);
    }
}

#[cfg(test)]
mod tests;

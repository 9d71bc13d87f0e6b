//! Deciding plans in an engine's memory, over what its database held when it was locked.
//!
//! This is for engines whose database cannot decide a batch by itself. They fetch what a [`Batch`] asks
//! for in one trip, under locks: each guarded record, each counter that is bounded or added to, and
//! enough of each range that must be empty. Plans are decided on that, in order, and change it in memory. What
//! they have changed is then written in another trip.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::{CounterKey, Guard, Key, Plan, Value, Verdict, Write};

/// What is known of a record or counter: what it is now, and whether a plan made it so.
#[derive(Debug)]
struct Slot<T> {
    now: Option<T>,
    written: bool,
}

impl<T> Slot<T> {
    /// Nothing, until the database has answered.
    fn absent() -> Slot<T> {
        Slot { now: None, written: false }
    }

    fn written(now: Option<T>) -> Slot<T> {
        Slot { now, written: true }
    }
}

/// The records and counters that plans look at, and what becomes of them.
#[derive(Debug, Default)]
pub struct Batch {
    records: BTreeMap<Key, Slot<Value>>,
    counters: BTreeMap<CounterKey, Slot<i64>>,
    ranges: BTreeSet<(Key, Key)>,
    deleted: BTreeSet<Key>,
}

impl Batch {
    /// A batch that knows what these plans ask for, and no answers yet.
    pub fn of<'a>(plans: impl Iterator<Item = &'a Plan>) -> Batch {
        let mut batch = Batch::default();
        for plan in plans {
            for guard in &plan.guards {
                match guard {
                    Guard::Equals(key, _) | Guard::Absent(key) | Guard::Present(key) => {
                        batch.records.entry(key.clone()).or_insert_with(Slot::absent);
                    }
                    Guard::Empty(start, end) => {
                        batch.ranges.insert((start.clone(), end.clone()));
                    }
                    Guard::AtMost(counter, _) => {
                        batch.counters.entry(counter.clone()).or_insert_with(Slot::absent);
                    }
                }
            }
            for write in &plan.writes {
                match write {
                    Write::Add(key, _) | Write::Max(key, _) => {
                        batch.counters.entry(key.clone()).or_insert_with(Slot::absent);
                    }
                    Write::Delete(key) => {
                        batch.deleted.insert(key.clone());
                    }
                    Write::Put(..) | Write::Set(..) | Write::Clear(_) => {}
                }
            }
        }
        batch
    }

    /// The records to fetch, in the order of the answers that [`Batch::found`] takes.
    pub fn records(&self) -> impl ExactSizeIterator<Item = &Key> {
        self.records.keys()
    }

    /// The counters to fetch, in the order of the answers that [`Batch::found`] takes.
    pub fn counters(&self) -> impl ExactSizeIterator<Item = &CounterKey> {
        self.counters.keys()
    }

    /// The ranges that must be empty, and how many keys of each to fetch: one more than this batch
    /// can delete there. So a range with a record that stays is seen to be not empty.
    pub fn ranges(&self) -> impl Iterator<Item = (&Key, &Key, usize)> {
        self.ranges
            .iter()
            .map(|(start, end)| (start, end, 1 + self.deleted.range(start..end).count()))
    }

    /// Takes the answers, in the order of the questions; those without one do not exist.
    /// `in_ranges` are the keys found in ranges.
    pub fn found(
        &mut self,
        records: Vec<Option<Value>>,
        counters: Vec<Option<i64>>,
        in_ranges: Vec<Key>,
    ) {
        for (slot, now) in self.records.values_mut().zip(records) {
            slot.now = now;
        }
        for (slot, now) in self.counters.values_mut().zip(counters) {
            slot.now = now;
        }
        for key in in_ranges {
            // No guard compares its bytes: otherwise it would be among the records already.
            let there = Slot { now: Some(Bytes::new()), written: false };
            self.records.entry(key).or_insert(there);
        }
    }

    /// Decides one plan, and carries it out in memory if its guards hold.
    pub fn decide(&mut self, plan: &Plan) -> Verdict {
        for (index, guard) in plan.guards.iter().enumerate() {
            if let Err(found) = self.holds(plan, guard) {
                return Verdict::Refused { guard: index, found };
            }
        }
        for write in &plan.writes {
            self.apply(write);
        }
        Verdict::Committed
    }

    fn holds(&self, plan: &Plan, guard: &Guard) -> Result<(), Option<Value>> {
        let now = |key| self.records.get(key).and_then(|slot: &Slot<Value>| slot.now.as_ref());
        let (holds, found) = match guard {
            Guard::Equals(key, value) => (now(key) == Some(value), now(key)),
            Guard::Absent(key) => (now(key).is_none(), now(key)),
            Guard::Present(key) => (now(key).is_some(), None),
            Guard::Empty(start, end) => {
                (self.records.range(start..end).all(|(_, slot)| slot.now.is_none()), None)
            }
            Guard::AtMost(counter, most) => {
                (self.counter(counter) <= plan.most_before(counter, *most), None)
            }
        };
        if holds { Ok(()) } else { Err(found.cloned()) }
    }

    fn counter(&self, key: &CounterKey) -> i64 {
        self.counters.get(key).and_then(|slot| slot.now).unwrap_or(0)
    }

    fn apply(&mut self, write: &Write) {
        let (key, now) = match write {
            Write::Put(key, value) => {
                self.records.insert(key.clone(), Slot::written(Some(value.clone())));
                return;
            }
            Write::Delete(key) => {
                self.records.insert(key.clone(), Slot::written(None));
                return;
            }
            Write::Add(key, by) => (key, Some(self.counter(key).saturating_add(*by))),
            Write::Max(key, least) => (key, Some(self.counter(key).max(*least))),
            Write::Set(key, value) => (key, Some(*value)),
            Write::Clear(key) => (key, None),
        };
        self.counters.insert(key.clone(), Slot::written(now));
    }

    /// Whether a counter that the batch asked for is 0 by now.
    pub fn is_zero(&self, counter: &CounterKey) -> bool {
        self.counters.get(counter).is_some_and(|slot| slot.now.unwrap_or(0) == 0)
    }

    /// What plans made of records: bytes, or nothing.
    pub fn written_records(&self) -> impl Iterator<Item = (&Key, Option<&Value>)> {
        let written = self.records.iter().filter(|(_, slot)| slot.written);
        written.map(|(key, slot)| (key, slot.now.as_ref()))
    }

    /// What plans made of counters: a number, or nothing.
    pub fn written_counters(&self) -> impl Iterator<Item = (&CounterKey, Option<i64>)> {
        let written = self.counters.iter().filter(|(_, slot)| slot.written);
        written.map(|(key, slot)| (key, slot.now))
    }
}

/// What a sequence of changes makes of a counter, whatever it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterChange {
    /// This number.
    To(i64),
    /// What it was and `add`, and at least `floor`.
    By {
        /// What is added.
        add: i64,
        /// What it is at least.
        floor: Option<i64>,
    },
}

impl CounterChange {
    /// No change.
    const NONE: CounterChange = CounterChange::By { add: 0, floor: None };

    /// What it makes of a counter that was `before`.
    pub fn of(self, before: i64) -> i64 {
        match self {
            CounterChange::To(number) => number,
            CounterChange::By { add, floor } => {
                let number = before.saturating_add(add);
                floor.map_or(number, |floor| number.max(floor))
            }
        }
    }

    fn then(self, write: &Write) -> CounterChange {
        match (self, write) {
            (_, Write::Set(_, number)) => CounterChange::To(*number),
            (_, Write::Clear(_)) => CounterChange::To(0),
            (CounterChange::To(was), Write::Add(_, by)) => {
                CounterChange::To(was.saturating_add(*by))
            }
            (CounterChange::To(was), Write::Max(_, least)) => CounterChange::To(was.max(*least)),
            (CounterChange::By { add, floor }, Write::Add(_, by)) => CounterChange::By {
                add: add.saturating_add(*by),
                floor: floor.map(|floor| floor.saturating_add(*by)),
            },
            (CounterChange::By { add, floor }, Write::Max(_, least)) => {
                CounterChange::By { add, floor: Some(floor.map_or(*least, |was| was.max(*least))) }
            }
            (unchanged, Write::Put(..) | Write::Delete(_)) => unchanged,
        }
    }
}

/// What plans that are committed, in this order, make of counters: one change for each.
pub fn counter_changes<'a>(
    committed: impl IntoIterator<Item = &'a Plan>,
) -> BTreeMap<&'a CounterKey, CounterChange> {
    let mut changes = BTreeMap::new();
    for write in committed.into_iter().flat_map(|plan| &plan.writes) {
        if let Write::Add(key, _) | Write::Max(key, _) | Write::Set(key, _) | Write::Clear(key) =
            write
        {
            let change = changes.entry(key).or_insert(CounterChange::NONE);
            *change = change.then(write);
        }
    }
    changes
}

#[cfg(test)]
mod tests;

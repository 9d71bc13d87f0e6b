//! Decides plans in an engine's memory, from records that its database returned under locks.
//!
//! Engines use this if their database cannot decide a batch by itself. The engine first fetches the
//! records, counters and ranges that a [`Batch`] lists, in one round trip and under locks: each
//! guarded record, each counter that is bounded or changed relative to its value, and enough keys
//! of each range that must be empty. The batch then decides the plans in order and applies their
//! writes in memory. In another round trip the engine writes the records and counters that changed.
//!
//! For example, a batch of two plans adds 1 to the same counter twice. The engine fetches the
//! counter once, as 5, and writes 7.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::{CounterKey, Guard, Key, Plan, Value, Verdict, Write};

/// A record or counter in the memory of a batch: `now` is its present value, `None` if it does not
/// exist, and `written` is true if a plan of the batch wrote it.
#[derive(Debug)]
struct Slot<T> {
    now: Option<T>,
    written: bool,
}

impl<T> Slot<T> {
    /// Returns the slot of a record or counter that does not exist, or that was not fetched yet.
    fn absent() -> Slot<T> {
        Slot { now: None, written: false }
    }

    fn written(now: Option<T>) -> Slot<T> {
        Slot { now, written: true }
    }
}

/// The plans' view of the database during the decision of one batch: the records and counters that
/// guards and writes of the plans need, and their values after the plans decided so far.
#[derive(Debug, Default)]
pub struct Batch {
    records: BTreeMap<Key, Slot<Value>>,
    counters: BTreeMap<CounterKey, Slot<i64>>,
    ranges: BTreeSet<(Key, Key)>,
    deleted: BTreeSet<Key>,
}

impl Batch {
    /// Creates a batch that lists the records, counters and ranges that these plans need. It has no
    /// values until the caller calls [`Batch::set_found`].
    pub fn new<'a>(plans: impl Iterator<Item = &'a Plan>) -> Batch {
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

    /// Returns the records to fetch, in the order in which [`Batch::set_found`] takes their values.
    pub fn records(&self) -> impl ExactSizeIterator<Item = &Key> {
        self.records.keys()
    }

    /// Returns the counters to fetch, in the order in which [`Batch::set_found`] takes their
    /// values.
    pub fn counters(&self) -> impl ExactSizeIterator<Item = &CounterKey> {
        self.counters.keys()
    }

    /// Returns each range that a guard requires to be empty, with the number of its keys that the
    /// engine must fetch: one more than the number of keys that this batch may delete in it. So a
    /// record that the batch does not delete is always found.
    pub fn ranges(&self) -> impl Iterator<Item = (&Key, &Key, usize)> {
        self.ranges
            .iter()
            .map(|(start, end)| (start, end, 1 + self.deleted.range(start..end).count()))
    }

    /// Sets the values that the database returned, in the order of [`Batch::records`] and
    /// [`Batch::counters`]; `None` for a record or counter that does not exist. `in_ranges` are the
    /// keys found in all of [`Batch::ranges`], in any order.
    pub fn set_found(
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
            // No guard compares the bytes of this record; otherwise it would be among the records
            // already. So any bytes do.
            let present = Slot { now: Some(Bytes::new()), written: false };
            self.records.entry(key).or_insert(present);
        }
    }

    /// Decides one plan against the values after the earlier plans. If its guards hold, applies its
    /// writes in memory and returns `Committed`; otherwise changes nothing and returns `Refused`.
    pub fn decide(&mut self, plan: &Plan) -> Verdict {
        for (index, guard) in plan.guards.iter().enumerate() {
            if let Err(found) = self.holds(plan, guard) {
                return Verdict::Refused { guard: index, found };
            }
        }
        // Writes come after all guards: a refused plan must not change any value.
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
                (self.counter(counter) <= plan.limit_before(counter, *most), None)
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

    /// Returns true if a counter that the batch fetched or wrote is 0 after the plans decided so
    /// far, or does not exist.
    pub fn is_zero(&self, counter: &CounterKey) -> bool {
        self.counters.get(counter).is_some_and(|slot| slot.now.unwrap_or(0) == 0)
    }

    /// Returns the number of records in a range after the plans decided so far, of those that the
    /// batch knows. If the engine fetched the whole range, this is the number of all of its
    /// records.
    pub fn count_in(&self, start: &Key, end: &Key) -> usize {
        self.records.range(start..end).filter(|(_, slot)| slot.now.is_some()).count()
    }

    /// Returns the records that committed plans of the batch wrote, each with its final bytes, or
    /// `None` if the engine must delete it.
    pub fn written_records(&self) -> impl Iterator<Item = (&Key, Option<&Value>)> {
        let written = self.records.iter().filter(|(_, slot)| slot.written);
        written.map(|(key, slot)| (key, slot.now.as_ref()))
    }

    /// Returns the counters that committed plans of the batch wrote, each with its final value, or
    /// `None` if the engine must delete it.
    pub fn written_counters(&self) -> impl Iterator<Item = (&CounterKey, Option<i64>)> {
        let written = self.counters.iter().filter(|(_, slot)| slot.written);
        written.map(|(key, slot)| (key, slot.now))
    }
}

/// The combined effect of a sequence of writes on one counter, which holds for any earlier value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterChange {
    /// The counter becomes this value, for any value before.
    To(i64),
    /// The counter becomes `max(before + add, floor)`.
    By {
        /// The sum of the additions.
        add: i64,
        /// The least value of the result, if there is one.
        floor: Option<i64>,
    },
}

impl CounterChange {
    /// The effect of no writes: the counter keeps its value.
    pub(crate) const NONE: CounterChange = CounterChange::By { add: 0, floor: None };

    /// Returns the value that a counter has after this change, if it was `before`.
    pub fn apply_to(self, before: i64) -> i64 {
        match self {
            CounterChange::To(number) => number,
            CounterChange::By { add, floor } => {
                let number = before.saturating_add(add);
                floor.map_or(number, |floor| number.max(floor))
            }
        }
    }

    /// Returns the combined effect of this change and then `write`. A write of a record has no
    /// effect.
    pub(crate) fn then(self, write: &Write) -> CounterChange {
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

/// Returns the combined effect of committed plans, in this order, on each counter that they change.
/// An engine can then change each counter with one statement.
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

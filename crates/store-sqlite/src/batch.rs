//! Deciding plans in memory, over what the file held when the transaction began.
//!
//! A batch knows each guarded record and each tally that is added to, and enough of each range
//! that must be empty. Plans are decided over that, in order, and change it; what they changed is
//! then written at once.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use store::{Guard, Key, Plan, TallyKey, Value, Verdict, Write};

/// What is known of a record or tally: what it is now, and whether a plan made it so.
#[derive(Debug)]
struct Slot<T> {
    now: Option<T>,
    written: bool,
}

impl<T> Slot<T> {
    /// Nothing, unless the file says otherwise.
    fn absent() -> Slot<T> {
        Slot { now: None, written: false }
    }

    fn written(now: Option<T>) -> Slot<T> {
        Slot { now, written: true }
    }
}

/// The records and tallies that plans look at, and what becomes of them.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    records: BTreeMap<Key, Slot<Value>>,
    tallies: BTreeMap<TallyKey, Slot<i64>>,
    ranges: BTreeSet<(Key, Key)>,
    deleted: BTreeSet<Key>,
}

impl Batch {
    /// A batch that knows what these plans ask, and no answers yet.
    pub(crate) fn of<'a>(plans: impl Iterator<Item = &'a Plan>) -> Batch {
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
                }
            }
            for write in &plan.writes {
                match write {
                    Write::Add(key, _) | Write::Max(key, _) => {
                        batch.tallies.entry(key.clone()).or_insert_with(Slot::absent);
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
    pub(crate) fn records(&self) -> impl ExactSizeIterator<Item = &Key> {
        self.records.keys()
    }

    /// The tallies to fetch, in the order of the answers that [`Batch::found`] takes.
    pub(crate) fn tallies(&self) -> impl ExactSizeIterator<Item = &TallyKey> {
        self.tallies.keys()
    }

    /// The ranges that must be empty, and how many keys of each to fetch: one more than this batch
    /// can delete there, so that what is left of them says whether anything is left.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (&Key, &Key, usize)> {
        self.ranges
            .iter()
            .map(|(start, end)| (start, end, 1 + self.deleted.range(start..end).count()))
    }

    /// Takes the answers, in the order of the questions; those without one do not exist.
    /// `in_ranges` are the keys found in ranges.
    pub(crate) fn found(
        &mut self,
        records: Vec<Option<Value>>,
        tallies: Vec<Option<i64>>,
        in_ranges: Vec<Key>,
    ) {
        for (slot, now) in self.records.values_mut().zip(records) {
            slot.now = now;
        }
        for (slot, now) in self.tallies.values_mut().zip(tallies) {
            slot.now = now;
        }
        for key in in_ranges {
            // Nobody asks for its bytes, or it would be among the records already.
            let there = Slot { now: Some(Bytes::new()), written: false };
            self.records.entry(key).or_insert(there);
        }
    }

    /// Decides one plan, and carries it out in memory if its guards hold.
    pub(crate) fn decide(&mut self, plan: &Plan) -> Verdict {
        for (index, guard) in plan.guards.iter().enumerate() {
            if let Err(found) = self.holds(guard) {
                return Verdict::Refused { guard: index, found };
            }
        }
        for write in &plan.writes {
            self.apply(write);
        }
        Verdict::Committed
    }

    fn holds(&self, guard: &Guard) -> Result<(), Option<Value>> {
        let now = |key| self.records.get(key).and_then(|slot: &Slot<Value>| slot.now.as_ref());
        let (holds, found) = match guard {
            Guard::Equals(key, value) => (now(key) == Some(value), now(key)),
            Guard::Absent(key) => (now(key).is_none(), now(key)),
            Guard::Present(key) => (now(key).is_some(), None),
            Guard::Empty(start, end) => {
                (self.records.range(start..end).all(|(_, slot)| slot.now.is_none()), None)
            }
        };
        if holds { Ok(()) } else { Err(found.cloned()) }
    }

    fn apply(&mut self, write: &Write) {
        let tally = |key| self.tallies.get(key).and_then(|slot| slot.now).unwrap_or(0);
        let (key, now) = match write {
            Write::Put(key, value) => {
                self.records.insert(key.clone(), Slot::written(Some(value.clone())));
                return;
            }
            Write::Delete(key) => {
                self.records.insert(key.clone(), Slot::written(None));
                return;
            }
            Write::Add(key, by) => (key, Some(tally(key).saturating_add(*by))),
            Write::Max(key, least) => (key, Some(tally(key).max(*least))),
            Write::Set(key, value) => (key, Some(*value)),
            Write::Clear(key) => (key, None),
        };
        self.tallies.insert(key.clone(), Slot::written(now));
    }

    /// What plans made of records: bytes, or nothing.
    pub(crate) fn written_records(&self) -> impl Iterator<Item = (&Key, Option<&Value>)> {
        let written = self.records.iter().filter(|(_, slot)| slot.written);
        written.map(|(key, slot)| (key, slot.now.as_ref()))
    }

    /// What plans made of tallies: a number, or nothing.
    pub(crate) fn written_tallies(&self) -> impl Iterator<Item = (&TallyKey, Option<i64>)> {
        let written = self.tallies.iter().filter(|(_, slot)| slot.written);
        written.map(|(key, slot)| (key, slot.now))
    }
}

//! The combined effect of a batch, if all of its plans are committed.
//!
//! Most batches are committed as a whole. Then the server can check each record once and write it
//! once, no matter from which plan a guard or a write comes. [`crate::encode`] turns the merged
//! batch into commands for `commit_batch.lua`. A batch that cannot be merged goes to
//! `commit_plans.lua`, which decides the plans one by one. A merged batch with a guard that does
//! not hold goes there too.
//!
//! For example, two plans that add 1 to a counter become one addition of 2.

use std::collections::BTreeMap;

use store::{Guard, Key, Plan, Value, Write};

use crate::opcode;

/// The state in which a guard requires a record to be before the first plan of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected<'a> {
    Absent,
    Present,
    Equal(&'a Value),
}

/// The combined change of a counter by all plans of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Add(i64),
    Max(i64),
    Set(i64),
}

/// All guards and writes of a batch, at most one guard and one write for each record.
#[derive(Debug, Default)]
pub(crate) struct MergedBatch<'a> {
    pub(crate) guards: BTreeMap<&'a Key, Expected<'a>>,
    pub(crate) writes: BTreeMap<&'a Key, Option<&'a Value>>,
    pub(crate) counters: BTreeMap<&'a Key, Change>,
    /// The largest values that counters with a guard `AtMost` may have before the first plan.
    pub(crate) bounds: BTreeMap<&'a Key, i64>,
}

impl<'a> MergedBatch<'a> {
    /// Merges plans. Returns `None` if a plan would certainly be refused, or if the combined effect
    /// is not one guard and one write for each record.
    pub(crate) fn merge(plans: &'a [Plan]) -> Option<MergedBatch<'a>> {
        let mut batch = MergedBatch::default();
        for plan in plans {
            for guard in &plan.guards {
                match guard {
                    Guard::Equals(key, value) => batch.expect(key, Expected::Equal(value))?,
                    Guard::Absent(key) => batch.expect(key, Expected::Absent)?,
                    Guard::Present(key) => batch.expect(key, Expected::Present)?,
                    Guard::Empty(..) => return None,
                    Guard::AtMost(counter, most) => {
                        batch.bound(&counter.0, plan.limit_before(counter, *most))?;
                    }
                }
            }
            for write in &plan.writes {
                match write {
                    Write::Put(key, value) => {
                        batch.writes.insert(key, Some(value));
                    }
                    Write::Delete(key) => {
                        batch.writes.insert(key, None);
                    }
                    Write::Add(counter, by) => batch.change(&counter.0, Change::Add(*by))?,
                    Write::Max(counter, least) => batch.change(&counter.0, Change::Max(*least))?,
                    Write::Set(counter, number) => {
                        batch.change(&counter.0, Change::Set(*number))?;
                    }
                    Write::Clear(counter) => batch.change(&counter.0, Change::Set(0))?,
                }
            }
        }
        Some(batch)
    }

    fn expect(&mut self, key: &'a Key, expected: Expected<'a>) -> Option<()> {
        // A guard on a record that an earlier plan of the batch writes is decided here.
        if let Some(written) = self.writes.get(key) {
            let holds = match (expected, written) {
                (Expected::Absent, None) | (Expected::Present, Some(_)) => true,
                (Expected::Equal(value), Some(written)) => value == *written,
                _ => false,
            };
            return holds.then_some(());
        }
        // No earlier plan writes the record, so all guards on it require a state before the batch.
        let before = *self.guards.entry(key).or_insert(expected);
        match (before, expected) {
            _ if before == expected => Some(()),
            (Expected::Present, Expected::Equal(_)) => {
                self.guards.insert(key, expected);
                Some(())
            }
            (Expected::Equal(_), Expected::Present) => Some(()),
            _ => None,
        }
    }

    /// Adds the bound of a plan on a counter: `most` less the additions of the plan itself, reduced
    /// by those of earlier plans. Returns `None` if the batch cannot be merged.
    fn bound(&mut self, counter: &'a Key, most: i64) -> Option<()> {
        let most = match self.counters.get(counter) {
            None => most,
            Some(Change::Add(sum)) => most.checked_sub(*sum)?,
            Some(Change::Max(_) | Change::Set(_)) => return None,
        };
        let bound = self.bounds.entry(counter).or_insert(most);
        *bound = most.min(*bound);
        Some(())
    }

    fn change(&mut self, counter: &'a Key, change: Change) -> Option<()> {
        let Some(before) = self.counters.get_mut(counter) else {
            self.counters.insert(counter, change);
            return Some(());
        };
        *before = match (*before, change) {
            (Change::Add(sum), Change::Add(by)) => Change::Add(sum.checked_add(by)?),
            (Change::Max(one), Change::Max(other)) => Change::Max(one.max(other)),
            (_, Change::Set(number)) => Change::Set(number),
            _ => return None,
        };
        Some(())
    }
}

impl Change {
    /// Returns the code of the kind of change in scripts, and the number of the change.
    pub(crate) fn encoded(self) -> (u8, i64) {
        match self {
            Change::Add(by) => (opcode::ADD, by),
            Change::Max(least) => (opcode::MAX, least),
            Change::Set(number) => (opcode::SET, number),
        }
    }
}

#[cfg(test)]
mod tests;

//! What the plans of a batch come to if all are committed.
//!
//! Most batches are committed whole, and then it matters little to the server which plan a guard or a
//! write came from: it checks each record once, and writes each once. `joined.lua` does that, by what
//! [`crate::laid`] lays out for it. A batch for which it is not plain goes to `commit.lua`, and so does
//! one of which a guard does not hold.

use std::collections::BTreeMap;

use store::{Guard, Key, Plan, Value, Write};

use crate::code;

/// What a guard of a record expects of it, before the first plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected<'a> {
    Absent,
    Present,
    Equal(&'a Value),
}

/// What becomes of a tally.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Add(i64),
    Max(i64),
    Set(i64),
}

/// All guards and all writes of a batch.
#[derive(Debug, Default)]
pub(crate) struct Joined<'a> {
    pub(crate) guards: BTreeMap<&'a Key, Expected<'a>>,
    pub(crate) writes: BTreeMap<&'a Key, Option<&'a Value>>,
    pub(crate) tallies: BTreeMap<&'a Key, Change>,
}

impl<'a> Joined<'a> {
    /// Joins plans; `None` if they can or may not be committed all, or if it is not plain.
    pub(crate) fn of(plans: &'a [Plan]) -> Option<Joined<'a>> {
        let mut joined = Joined::default();
        for plan in plans {
            for guard in &plan.guards {
                match guard {
                    Guard::Equals(key, value) => joined.expect(key, Expected::Equal(value))?,
                    Guard::Absent(key) => joined.expect(key, Expected::Absent)?,
                    Guard::Present(key) => joined.expect(key, Expected::Present)?,
                    Guard::Empty(..) => return None,
                }
            }
            for write in &plan.writes {
                match write {
                    Write::Put(key, value) => {
                        joined.writes.insert(key, Some(value));
                    }
                    Write::Delete(key) => {
                        joined.writes.insert(key, None);
                    }
                    Write::Add(tally, by) => joined.change(&tally.0, Change::Add(*by))?,
                    Write::Max(tally, least) => joined.change(&tally.0, Change::Max(*least))?,
                    Write::Set(tally, number) => joined.change(&tally.0, Change::Set(*number))?,
                    Write::Clear(tally) => joined.change(&tally.0, Change::Set(0))?,
                }
            }
        }
        Some(joined)
    }

    fn expect(&mut self, key: &'a Key, expected: Expected<'a>) -> Option<()> {
        if let Some(written) = self.writes.get(key) {
            let holds = match (expected, written) {
                (Expected::Absent, None) | (Expected::Present, Some(_)) => true,
                (Expected::Equal(value), Some(written)) => value == *written,
                _ => false,
            };
            return holds.then_some(());
        }
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

    fn change(&mut self, tally: &'a Key, change: Change) -> Option<()> {
        let Some(before) = self.tallies.get_mut(tally) else {
            self.tallies.insert(tally, change);
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
    /// What a script calls it, and its number.
    pub(crate) fn parts(self) -> (u8, i64) {
        match self {
            Change::Add(by) => (code::ADD, by),
            Change::Max(least) => (code::MAX, least),
            Change::Set(number) => (code::SET, number),
        }
    }
}

#[cfg(test)]
mod tests;

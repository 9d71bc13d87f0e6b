//! The arguments of the function in `commit.sql`: the locks of a batch, and the conditions and
//! writes of a [`DecidedBatch`] as lists.
//!
//! A decision has one condition and one write for each record, and one change for each counter, so
//! the order within a batch does not matter to the function.
//!
//! For example, two PUTs of different objects of one bucket are conditions on different records,
//! new records, and one counter to which both add.
//!
//! This module knows neither SQL nor connections.

use bytes::Bytes;
use store::{Before, CounterChange, DecidedBatch, Plan};

use crate::counters::{SUM_MAX, rank};
use crate::locks::locks;

/// Limit of updated records, and of counters: the function searches each value among all of them.
const CHANGES_MAX: usize = 256;

/// Keys, and the item of each key at the same index.
type Lists<'a, T> = (Vec<&'a [u8]>, Vec<T>);

/// The arguments of one call. Keys of records are in ascending order.
#[derive(Debug, Default)]
pub(crate) struct Arguments<'a> {
    /// The hashes of all guarded and written keys in ascending order, each with true if a key with
    /// this hash is written.
    pub(crate) locks: Vec<(i32, bool)>,
    pub(crate) equal: Lists<'a, &'a [u8]>,
    pub(crate) held: Vec<&'a [u8]>,
    /// Records that must not exist. A put without a guard is expected to be new, so its record is
    /// here too.
    pub(crate) absent: Vec<&'a [u8]>,
    /// The starts and the ends of ranges that must be empty.
    pub(crate) ranges: Lists<'a, &'a [u8]>,
    /// Records that exist and get new values.
    pub(crate) updates: Lists<'a, &'a [u8]>,
    pub(crate) news: Lists<'a, &'a [u8]>,
    pub(crate) deletes: Vec<&'a [u8]>,
    /// Changes relative to a counter's value: counters that are only added to, counters that are
    /// only raised, all others. All processes change counters in this order.
    pub(crate) counters: Vec<Counter<'a>>,
    /// Counters that get a value regardless of the value before.
    pub(crate) sets: Lists<'a, i64>,
    pub(crate) clears: Vec<&'a [u8]>,
    /// The largest values that counters may have after all changes. These counters are also in
    /// `counters`.
    pub(crate) bounds: Lists<'a, i64>,
    /// The entry for the change feed: the keys of the written records.
    pub(crate) entry: Bytes,
}

/// The change of one counter by the whole batch: it becomes `max(before + add, floor)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counter<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) add: i64,
    /// The least value of the result, if there is one.
    pub(crate) floor: Option<i64>,
}

impl<'a> Arguments<'a> {
    /// Converts a decision on plans, which are within limits. Returns `None` if the batch has too
    /// many changes, or changes a bounded counter in another way than by adding.
    pub(crate) fn of(decision: &'a DecidedBatch<'a>, plans: &[Plan]) -> Option<Arguments<'a>> {
        let mut arguments = Arguments::default();
        for (key, before) in decision.conditions() {
            match before {
                Before::Equal(value) => push(&mut arguments.equal, key.as_bytes(), &value[..]),
                Before::Present => arguments.held.push(key.as_bytes()),
                Before::Absent => arguments.absent.push(key.as_bytes()),
            }
        }
        for (start, end) in &decision.ranges {
            push(&mut arguments.ranges, start.as_bytes(), end.as_bytes());
        }
        for (key, before, now) in decision.writes() {
            let key = key.as_bytes();
            match (before, now) {
                (Some(Before::Present | Before::Equal(_)), Some(value)) => {
                    push(&mut arguments.updates, key, &value[..]);
                }
                (before, Some(value)) => {
                    if before.is_none() {
                        arguments.absent.push(key);
                    }
                    push(&mut arguments.news, key, &value[..]);
                }
                (_, None) => arguments.deletes.push(key),
            }
        }
        arguments.add_counters(decision)?;
        if arguments.updates.0.len().max(arguments.counters.len()) > CHANGES_MAX {
            return None;
        }
        arguments.locks = locks(plans);
        arguments.entry = decision.entry();
        Some(arguments)
    }

    /// Adds the changes and the bounds of counters. Returns `None` if a bounded counter is changed
    /// in another way than by adding.
    fn add_counters(&mut self, decision: &'a DecidedBatch<'a>) -> Option<()> {
        let within = |number: i64| number.clamp(-SUM_MAX, SUM_MAX);
        let unchanged = CounterChange::By { add: 0, floor: None };
        for (counter, bound) in &decision.bounds {
            let change = decision.counters.get(*counter).copied().unwrap_or(unchanged);
            let CounterChange::By { add, floor: None } = change else { return None };
            // The function compares once, after all additions.
            push(&mut self.bounds, counter.0.as_bytes(), bound.saturating_add(add));
        }
        let bounded = decision.bounds.keys().map(|counter| (*counter, unchanged));
        let only_bounded = bounded.filter(|(counter, _)| !decision.counters.contains_key(*counter));
        let changed = decision.counters.iter().map(|(counter, change)| (*counter, *change));
        let mut ranked = Vec::new();
        for (counter, change) in changed.chain(only_bounded) {
            let key = counter.0.as_bytes();
            match change {
                CounterChange::To(0) => self.clears.push(key),
                CounterChange::To(number) => push(&mut self.sets, key, within(number)),
                CounterChange::By { add, floor } => {
                    if add != 0 || floor.is_some() || decision.bounds.contains_key(counter) {
                        let (add, floor) = (within(add), floor.map(within));
                        ranked.push((rank(change), Counter { key, add, floor }));
                    }
                }
            }
        }
        ranked.sort_by_key(|(rank, counter)| (*rank, counter.key));
        self.counters = ranked.into_iter().map(|(_, counter)| counter).collect();
        Some(())
    }
}

fn push<'a, T>(lists: &mut Lists<'a, T>, key: &'a [u8], item: T) {
    lists.0.push(key);
    lists.1.push(item);
}

#[cfg(test)]
mod tests;

//! A batch as lists, for the optimistic commit: all guards hold, and no plan guards or writes a
//! record that another plan writes.
//!
//! Then the order of the plans does not matter. Guards become sets of keys, and writes become one
//! change for each key. Only the database can decide if all guards hold. If one does not, the batch
//! is sent again in the form of [`crate::conflict_waves`].
//!
//! For example, two PUTs of different objects of one bucket are one such batch: different records,
//! and one counter to which both add.
//!
//! This module knows neither SQL nor connections.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use store::feed::compact;
use store::{CounterChange, CounterKey, Guard, Plan, Write, counter_changes};

use crate::conflict_waves::{self, SUM_MAX};

/// Limit of updated records, and of counters: the statement searches each value among all of them.
const CHANGES_MAX: usize = 256;

/// A batch for the optimistic commit, which assumes that all guards hold. Keys are in ascending
/// order.
#[derive(Debug, Default)]
pub(crate) struct OptimisticBatch<'a> {
    /// The hashes of all guarded and written keys in ascending order, each with true if a key with
    /// this hash is written.
    pub(crate) locks: Vec<(i32, bool)>,
    pub(crate) equal: BTreeMap<&'a [u8], &'a [u8]>,
    pub(crate) held: BTreeSet<&'a [u8]>,
    pub(crate) absent: BTreeSet<&'a [u8]>,
    /// Records that exist and get new values.
    pub(crate) updates: BTreeMap<&'a [u8], &'a [u8]>,
    /// Records that do not exist yet.
    pub(crate) news: BTreeMap<&'a [u8], &'a [u8]>,
    pub(crate) deletes: BTreeSet<&'a [u8]>,
    /// Changes of counters, in the order of
    /// [`ConflictWaves`](crate::conflict_waves::ConflictWaves): counters that are only added to,
    /// counters that are only raised, all others.
    pub(crate) counters: Vec<Counter<'a>>,
    /// The largest values that counters may have after all changes. These counters are also in
    /// `counters`.
    pub(crate) bounds: BTreeMap<&'a [u8], i64>,
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

impl<'a> OptimisticBatch<'a> {
    /// Converts plans, which are within limits. Returns `None` if plans conflict, or for another
    /// reason the batch may have to be decided plan by plan even if all guards hold.
    pub(crate) fn of(plans: &'a [Plan]) -> Option<OptimisticBatch<'a>> {
        if conflict_waves::waves(plans).into_iter().any(|wave| wave > 0) {
            return None;
        }
        let mut batch = OptimisticBatch::default();
        for guard in plans.iter().flat_map(|plan| &plan.guards) {
            match guard {
                Guard::Equals(key, value) => {
                    let other = batch.equal.insert(key.as_bytes(), value);
                    // Two guards that require different bytes cannot both hold.
                    if other.is_some_and(|other| other != value) {
                        return None;
                    }
                }
                Guard::Present(key) => {
                    batch.held.insert(key.as_bytes());
                }
                Guard::Absent(key) => {
                    batch.absent.insert(key.as_bytes());
                }
                Guard::Empty(..) => return None,
                Guard::AtMost(..) => {}
            }
        }
        for write in plans.iter().flat_map(|plan| &plan.writes) {
            match write {
                Write::Put(key, value) => batch.put(key.as_bytes(), value)?,
                Write::Delete(key) => {
                    batch.deletes.insert(key.as_bytes());
                }
                _ => {}
            }
        }
        let changes = changes(plans);
        batch.bounds = bounds(plans, &changes)?;
        batch.counters = counters(&changes, &batch.bounds)?;
        if batch.contradicts() || batch.updates.len().max(batch.counters.len()) > CHANGES_MAX {
            return None;
        }
        batch.locks = conflict_waves::locks(plans);
        batch.entry = compact::entry(plans);
        Some(batch)
    }

    /// Adds a put. Returns `None` if the batch already puts this record.
    fn put(&mut self, key: &'a [u8], value: &'a [u8]) -> Option<()> {
        let before = if self.equal.contains_key(key) || self.held.contains(key) {
            self.updates.insert(key, value)
        } else {
            // A record without a guard is most likely new.
            self.absent.insert(key);
            self.news.insert(key, value)
        };
        before.is_none().then_some(())
    }

    /// Returns true if two guards cannot both hold, or if a key is both put and deleted.
    fn contradicts(&self) -> bool {
        let written = |key: &&[u8]| self.updates.contains_key(*key) || self.news.contains_key(*key);
        self.absent.iter().any(|key| self.equal.contains_key(*key) || self.held.contains(*key))
            || self.deletes.iter().any(written)
    }
}

/// Returns the change of each counter that the plans change or bound.
pub(crate) fn changes(plans: &[Plan]) -> BTreeMap<&CounterKey, CounterChange> {
    let mut changes = counter_changes(plans);
    for counter in plans.iter().flat_map(Plan::bounded_counters) {
        changes.entry(counter).or_insert(CounterChange::By { add: 0, floor: None });
    }
    changes
}

/// Returns the rank of a counter's change. Counters are written, and thereby locked, in the order
/// of their rank, then of their key.
pub(crate) fn rank(change: CounterChange) -> u8 {
    match change {
        CounterChange::By { floor: None, .. } => 0,
        CounterChange::By { add: 0, floor: Some(0..) } => 1,
        CounterChange::By { .. } | CounterChange::To(_) => 2,
    }
}

/// Returns the largest value that each bounded counter may have after all plans. Returns `None` if
/// the batch changes a bounded counter in another way than by adding.
fn bounds<'a>(
    plans: &'a [Plan],
    changes: &BTreeMap<&'a CounterKey, CounterChange>,
) -> Option<BTreeMap<&'a [u8], i64>> {
    let mut bounds = BTreeMap::new();
    if plans.iter().all(|plan| plan.bounded_counters().next().is_none()) {
        return Some(bounds);
    }
    // The sum of the additions of the plans so far.
    let mut sums: HashMap<&CounterKey, i64> = HashMap::new();
    for plan in plans {
        for write in &plan.writes {
            if let Write::Add(key, by) = write {
                let sum = sums.entry(key).or_default();
                *sum = sum.saturating_add(*by);
            }
        }
        for guard in &plan.guards {
            let Guard::AtMost(key, most) = guard else { continue };
            let CounterChange::By { add, floor: None } = *changes.get(key)? else { return None };
            // The statement compares once, after all additions. So the bound of a plan in the
            // middle of the batch grows by the additions that come after it.
            let still_added = add.saturating_sub(sums.get(key).copied().unwrap_or(0));
            let most = most.saturating_add(still_added);
            let bound = bounds.entry(key.0.as_bytes()).or_insert(most);
            *bound = most.min(*bound);
        }
    }
    Some(bounds)
}

/// Returns the changes of counters. Returns `None` if the batch sets a counter regardless of its
/// value.
fn counters<'a>(
    changes: &BTreeMap<&'a CounterKey, CounterChange>,
    bounds: &BTreeMap<&'a [u8], i64>,
) -> Option<Vec<Counter<'a>>> {
    let within = |number: i64| number.clamp(-SUM_MAX, SUM_MAX);
    let mut counters = Vec::new();
    for (key, change) in changes {
        let CounterChange::By { add, floor } = *change else { return None };
        let key = key.0.as_bytes();
        if add != 0 || floor.is_some() || bounds.contains_key(key) {
            let (add, floor) = (within(add), floor.map(within));
            counters.push((rank(*change), Counter { key, add, floor }));
        }
    }
    counters.sort_by_key(|(rank, _)| *rank);
    Some(counters.into_iter().map(|(_, counter)| counter).collect())
}

#[cfg(test)]
mod tests;

//! A batch as lists, for the usual commit: every guard holds, and no plan looks at what another one
//! writes.
//!
//! Then the order of the plans does not matter. Guards become sets of keys, and writes one change for each
//! key. Whether all guards hold, only the database can say. If they do not, the batch is sent again in the
//! form of [`crate::rounds`].
//!
//! This module knows neither SQL nor connections.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use store::feed::compact;
use store::{CounterChange, CounterKey, Guard, Plan, Write, counter_changes};

use crate::rounds::{self, SUM_MAX};

/// Updated records, or counters, at most: each value is searched for among all of them.
const CHANGES_MAX: usize = 256;

/// A batch in which everything holds, ready to be sent. Keys are in ascending order.
#[derive(Debug, Default)]
pub(crate) struct Whole<'a> {
    /// Hashes of keys in ascending order, and whether the key is written.
    pub(crate) locks: Vec<(i32, bool)>,
    pub(crate) equal: BTreeMap<&'a [u8], &'a [u8]>,
    pub(crate) held: BTreeSet<&'a [u8]>,
    pub(crate) absent: BTreeSet<&'a [u8]>,
    /// Records that exist and get new values.
    pub(crate) updates: BTreeMap<&'a [u8], &'a [u8]>,
    /// Records that do not exist yet.
    pub(crate) news: BTreeMap<&'a [u8], &'a [u8]>,
    pub(crate) deletes: BTreeSet<&'a [u8]>,
    /// What changes counters, in the order of [`Rounds`](crate::rounds::Rounds): those that are only
    /// added to, those that are only raised, all others.
    pub(crate) counters: Vec<Counter<'a>>,
    /// What counters may be at most when all have changed. They are among `counters`.
    pub(crate) bounds: BTreeMap<&'a [u8], i64>,
    /// What it adds to the change feed.
    pub(crate) entry: Bytes,
}

/// What a batch makes of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counter<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) add: i64,
    /// What it is at least.
    pub(crate) floor: Option<i64>,
}

impl<'a> Whole<'a> {
    /// A batch of plans, which are within limits. `None` if it may need rounds even if all guards hold.
    pub(crate) fn of(plans: &'a [Plan]) -> Option<Whole<'a>> {
        if rounds::rounds(plans).into_iter().any(|round| round > 0) {
            return None;
        }
        let mut whole = Whole::default();
        for guard in plans.iter().flat_map(|plan| &plan.guards) {
            match guard {
                Guard::Equals(key, value) => {
                    let other = whole.equal.insert(key.as_bytes(), value);
                    if other.is_some_and(|other| other != value) {
                        return None;
                    }
                }
                Guard::Present(key) => {
                    whole.held.insert(key.as_bytes());
                }
                Guard::Absent(key) => {
                    whole.absent.insert(key.as_bytes());
                }
                Guard::Empty(..) => return None,
                Guard::AtMost(..) => {}
            }
        }
        for write in plans.iter().flat_map(|plan| &plan.writes) {
            match write {
                Write::Put(key, value) => whole.put(key.as_bytes(), value)?,
                Write::Delete(key) => {
                    whole.deletes.insert(key.as_bytes());
                }
                _ => {}
            }
        }
        let changes = changes(plans);
        whole.bounds = bounds(plans, &changes)?;
        whole.counters = counters(&changes, &whole.bounds)?;
        if whole.contradicts() || whole.updates.len().max(whole.counters.len()) > CHANGES_MAX {
            return None;
        }
        whole.locks = rounds::locks(plans);
        whole.entry = compact::entry(plans);
        Some(whole)
    }

    /// Puts a record; `None` if that was done before.
    fn put(&mut self, key: &'a [u8], value: &'a [u8]) -> Option<()> {
        let before = if self.equal.contains_key(key) || self.held.contains(key) {
            self.updates.insert(key, value)
        } else {
            // Most likely there is no guard because the record is new.
            self.absent.insert(key);
            self.news.insert(key, value)
        };
        before.is_none().then_some(())
    }

    /// Whether two guards cannot both hold, or a key is both put and deleted.
    fn contradicts(&self) -> bool {
        let written = |key: &&[u8]| self.updates.contains_key(*key) || self.news.contains_key(*key);
        self.absent.iter().any(|key| self.equal.contains_key(*key) || self.held.contains(*key))
            || self.deletes.iter().any(written)
    }
}

/// What plans make of counters that they change or bound.
pub(crate) fn changes(plans: &[Plan]) -> BTreeMap<&CounterKey, CounterChange> {
    let mut changes = counter_changes(plans);
    for counter in plans.iter().flat_map(Plan::bounded_counters) {
        changes.entry(counter).or_insert(CounterChange::By { add: 0, floor: None });
    }
    changes
}

/// The order in which counters of different changes are written, and thus locked. Those of one rank
/// are in the order of their keys.
pub(crate) fn rank(change: CounterChange) -> u8 {
    match change {
        CounterChange::By { floor: None, .. } => 0,
        CounterChange::By { add: 0, floor: Some(0..) } => 1,
        CounterChange::By { .. } | CounterChange::To(_) => 2,
    }
}

/// What bounded counters may be at most when all plans have added to them; `None` if one is changed
/// in another way.
fn bounds<'a>(
    plans: &'a [Plan],
    changes: &BTreeMap<&'a CounterKey, CounterChange>,
) -> Option<BTreeMap<&'a [u8], i64>> {
    let mut bounds = BTreeMap::new();
    if plans.iter().all(|plan| plan.bounded_counters().next().is_none()) {
        return Some(bounds);
    }
    // What has been added by the plans so far.
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
            let still_added = add.saturating_sub(sums.get(key).copied().unwrap_or(0));
            let most = most.saturating_add(still_added);
            let bound = bounds.entry(key.0.as_bytes()).or_insert(most);
            *bound = most.min(*bound);
        }
    }
    Some(bounds)
}

/// What becomes of counters; `None` if one is set regardless of its value.
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

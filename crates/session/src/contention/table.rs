//! The table of reservations: records and ranges by place in the queue.
//!
//! For example, places 4 and 7 both reserve the inode 12. A plan of place 9 that writes inode 12
//! waits for place 7, which waits for place 4.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use store::{Guard, Key, Plan, Write};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Most operations that may reserve records after a refusal. Further operations still wait for
/// reserved records, but no operation waits for them.
pub(crate) const RESERVATIONS_MAX: usize = 1_024;

/// All reservations of records by refused operations, by place in the queue and by key.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// Number of reservations, so that an operation without contention takes no lock.
    len: AtomicUsize,
    rows: Mutex<Rows>,
}

#[derive(Debug, Default)]
struct Rows {
    next_place: u64,
    places: BTreeMap<u64, Reserved>,
    /// The places of the operations that reserve each record.
    keys: HashMap<Key, BTreeSet<u64>>,
}

/// The records and ranges that the operation at one place has reserved.
#[derive(Debug, Default)]
struct Reserved {
    keys: Vec<Key>,
    ranges: Vec<(Key, Key)>,
    /// True if the operation changes none of the records: it copies from them. Such operations do
    /// not wait for each other.
    only_reads: bool,
    /// Cancelled when the reservation ends.
    ended: CancellationToken,
    /// The time after which operations wait no longer for this one; `None` without a limit, and for
    /// a turn that is not at the front of the queue yet.
    expires: Option<Instant>,
}

/// A reservation for which an operation has to wait.
#[derive(Debug)]
pub(crate) struct Earlier {
    /// The place of the operation that has the reservation.
    pub(crate) place: u64,
    /// Cancelled when the reservation ends.
    pub(crate) ended: CancellationToken,
    /// The time after which the reservation does not count any more; `None` without a limit.
    pub(crate) expires: Option<Instant>,
}

impl Table {
    /// Returns true if no operation has reserved a record.
    pub(crate) fn is_empty(&self) -> bool {
        self.len.load(Ordering::Relaxed) == 0
    }

    /// Finds the latest reservation of a record that `plan` writes, among those before `place`, or
    /// among all if there is no place.
    pub(crate) fn earlier(&self, plan: &Plan, place: Option<u64>) -> Option<Earlier> {
        self.earlier_of(plan.writes.iter().filter_map(record_of).collect(), place, false)
    }

    /// As [`Table::earlier`], for an operation that changes these records, or that `only_reads`
    /// them.
    pub(crate) fn earlier_of(
        &self,
        mut written: Vec<&Key>,
        place: Option<u64>,
        only_reads: bool,
    ) -> Option<Earlier> {
        let rows = self.rows();
        let before = place.unwrap_or(u64::MAX);
        written.sort_unstable();
        let counts = |other: &Reserved| !(only_reads && other.only_reads);
        let counts_at = |place: &&u64| rows.places.get(*place).is_none_or(counts);
        let by_key = written
            .iter()
            .filter_map(|key| rows.keys.get(key)?.range(..before).rev().find(counts_at));
        let by_key = by_key.max().copied();
        let touches = |reserved: &Reserved| {
            reserved.ranges.iter().any(|(start, end)| {
                let first = written.partition_point(|key| *key < start);
                written.get(first).is_some_and(|key| *key < end)
            })
        };
        let later = by_key.map_or(0, |place| place + 1);
        let mut by_range = rows.places.range(later..before.max(later)).rev();
        let by_range = by_range.find(|(_, reserved)| counts(reserved) && touches(reserved));
        let by_range = by_range.map(|(place, _)| *place);
        let place = by_range.or(by_key)?;
        let Reserved { ended, expires, .. } = rows.places.get(&place)?;
        Some(Earlier { place, ended: ended.clone(), expires: *expires })
    }

    /// Takes the last place in the queue of refused operations and reserves the records of these
    /// guards, for an operation that changes them or `only_reads` them. Returns the place, or
    /// `None` if there are [`RESERVATIONS_MAX`] places.
    pub(crate) fn join(&self, guards: &[Guard], only_reads: bool) -> Option<u64> {
        let mut rows = self.rows();
        if rows.places.len() >= RESERVATIONS_MAX {
            return None;
        }
        let place = rows.next_place;
        rows.next_place += 1;
        rows.places.insert(place, Reserved { only_reads, ..Reserved::default() });
        self.len.store(rows.places.len(), Ordering::Relaxed);
        rows.reserve(place, guards);
        Some(place)
    }

    /// Returns true if the operation at `place` has not left the queue, and its place has not
    /// expired.
    pub(crate) fn has(&self, place: u64) -> bool {
        self.rows().places.contains_key(&place)
    }

    /// Lets others wait for the operation at `place` until this time, if it has no limit yet.
    pub(crate) fn expire_at(&self, place: u64, time: Instant) {
        if let Some(reserved) = self.rows().places.get_mut(&place) {
            reserved.expires.get_or_insert(time);
        }
    }

    /// Reserves the records of these guards for the operation at `place`, too. Returns false if its
    /// place has expired.
    pub(crate) fn reserve_too(&self, place: u64, guards: &[Guard]) -> bool {
        let mut rows = self.rows();
        rows.reserve(place, guards);
        rows.places.contains_key(&place)
    }

    /// Replaces the records that the operation at `place` has reserved by those of these guards.
    pub(crate) fn reserve(&self, place: u64, guards: &[Guard]) {
        let mut rows = self.rows();
        rows.release(place);
        rows.reserve(place, guards);
    }

    /// Ends the reservation of the operation at `place` and wakes the operations that wait for it.
    /// Does nothing if it has ended before.
    pub(crate) fn leave(&self, place: u64) {
        let mut rows = self.rows();
        rows.release(place);
        let ended = rows.places.remove(&place);
        self.len.store(rows.places.len(), Ordering::Relaxed);
        drop(rows);
        if let Some(reserved) = ended {
            reserved.ended.cancel();
        }
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rows {
    fn reserve(&mut self, place: u64, guards: &[Guard]) {
        let Some(reserved) = self.places.get_mut(&place) else { return };
        for guard in guards {
            match guard {
                Guard::Equals(key, _) | Guard::Absent(key) | Guard::Present(key) => {
                    if self.keys.entry(key.clone()).or_default().insert(place) {
                        reserved.keys.push(key.clone());
                    }
                }
                Guard::Empty(start, end) => {
                    let range = (start.clone(), end.clone());
                    // A turn reserves the ranges of each of its plans, which are mostly the same.
                    if !reserved.ranges.contains(&range) {
                        reserved.ranges.push(range);
                    }
                }
                // Additions to a counter commute, so they make no operation wait. If the counter
                // had no capacity for an operation, it reads the counter, and fails if the quota is
                // used up.
                Guard::AtMost(..) => {}
            }
        }
    }

    fn release(&mut self, place: u64) {
        let Some(reserved) = self.places.get_mut(&place) else { return };
        reserved.ranges.clear();
        for key in reserved.keys.drain(..) {
            if let Some(places) = self.keys.get_mut(&key) {
                places.remove(&place);
                if places.is_empty() {
                    self.keys.remove(&key);
                }
            }
        }
    }
}

/// Returns the record that a write changes; `None` for a counter.
fn record_of(write: &Write) -> Option<&Key> {
    match write {
        Write::Put(key, _) | Write::Delete(key) => Some(key),
        Write::Add(..) | Write::Max(..) | Write::Set(..) | Write::Clear(..) => None,
    }
}

#[cfg(test)]
mod tests;

//! Which records and ranges are reserved, and for which place in the line.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use store::{Guard, Key, Plan, Write};
use tokio_util::sync::CancellationToken;

/// Operations that may have a reservation at a time. Further ones wait for those in the line, and
/// for each other only by their refusals.
pub(super) const RESERVATIONS_MAX: usize = 1_024;

/// All reservations, by place and by key.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// How many there are, so that an operation that nobody contends with takes no lock.
    len: AtomicUsize,
    rows: Mutex<Rows>,
}

#[derive(Debug, Default)]
struct Rows {
    next_place: u64,
    places: BTreeMap<u64, Reserved>,
    /// The places that reserve a record.
    keys: HashMap<Key, BTreeSet<u64>>,
}

/// What one place reserves.
#[derive(Debug, Default)]
struct Reserved {
    keys: Vec<Key>,
    ranges: Vec<(Key, Key)>,
    /// Cancelled when the reservation ends.
    ended: CancellationToken,
}

impl Table {
    /// Returns true if nothing is reserved.
    pub(super) fn is_empty(&self) -> bool {
        self.len.load(Ordering::Relaxed) == 0
    }

    /// The latest reservation of something that `plan` writes, of those before `place`, or of all if
    /// there is no place. Returns what is cancelled when it ends.
    pub(super) fn earlier(&self, plan: &Plan, place: Option<u64>) -> Option<CancellationToken> {
        let rows = self.rows();
        let before = place.unwrap_or(u64::MAX);
        let mut written: Vec<&Key> = plan.writes.iter().filter_map(record_of).collect();
        written.sort_unstable();
        let by_key = written.iter().filter_map(|key| rows.keys.get(key)?.range(..before).last());
        let by_key = by_key.max().copied();
        let touches = |reserved: &Reserved| {
            reserved.ranges.iter().any(|(start, end)| {
                let first = written.partition_point(|key| *key < start);
                written.get(first).is_some_and(|key| *key < end)
            })
        };
        let later = by_key.map_or(0, |place| place + 1);
        let mut by_range = rows.places.range(later..before.max(later)).rev();
        let by_range = by_range.find(|(_, reserved)| touches(reserved)).map(|(place, _)| *place);
        let earlier = by_range.or(by_key)?;
        rows.places.get(&earlier).map(|reserved| reserved.ended.clone())
    }

    /// Takes the last place, and reserves what these guards depend on. Returns none if there are
    /// [`RESERVATIONS_MAX`] places already.
    pub(super) fn join(&self, guards: &[Guard]) -> Option<u64> {
        let mut rows = self.rows();
        if rows.places.len() >= RESERVATIONS_MAX {
            return None;
        }
        let place = rows.next_place;
        rows.next_place += 1;
        rows.places.insert(place, Reserved::default());
        self.len.store(rows.places.len(), Ordering::Relaxed);
        rows.reserve(place, guards);
        Some(place)
    }

    /// Reserves what these guards depend on for a place, and nothing else.
    pub(super) fn reserve(&self, place: u64, guards: &[Guard]) {
        let mut rows = self.rows();
        rows.release(place);
        rows.reserve(place, guards);
    }

    /// Ends a reservation. Those who wait for it go on.
    pub(super) fn leave(&self, place: u64) {
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
                Guard::Empty(start, end) => reserved.ranges.push((start.clone(), end.clone())),
                // Who adds to a counter does not make others wait. An operation that the counter
                // had no room for reads it, and ends if there is none.
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

/// The record that a write changes.
fn record_of(write: &Write) -> Option<&Key> {
    match write {
        Write::Put(key, _) | Write::Delete(key) => Some(key),
        Write::Add(..) | Write::Max(..) | Write::Set(..) | Write::Clear(..) => None,
    }
}

#[cfg(test)]
mod tests;

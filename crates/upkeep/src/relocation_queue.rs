//! The policies of the relocator, its queues of packs and files, and the limit of sparse blocks.
//!
//! For example, a program overwrites 4 KiB at random positions of a large file. Its gateway queues
//! the file at the first write, and the relocator looks at it 250 ms later, once for all writes
//! until then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// The relocator moves the bytes of blocks with a smaller share of live bytes than this, in
/// percent. Blocks then take up at most `100 / LIVE_SHARE_PERCENT` times their live bytes: twice as
/// much at 50.
pub const LIVE_SHARE_PERCENT: u64 = 50;

/// The delay between a note of sparse packs and the look at them, so that the live bytes of several
/// packs go into one new pack.
pub const REPACK_DELAY: Duration = Duration::from_secs(10);

/// The delay between a write to a file and the look at the file, so that one look serves several
/// writes.
pub const COMPACT_DELAY: Duration = Duration::from_millis(250);

/// The most candidates in a queue. The next survey finds the others.
const CANDIDATES_MAX: usize = 65_536;

/// Returns true if so few bytes of a block are live (visible in files) that they are worth moving.
/// `live` and `length` are in content bytes.
pub(crate) const fn is_sparse(live: u64, length: u32) -> bool {
    live.saturating_mul(100) < (length as u64).saturating_mul(LIVE_SHARE_PERCENT)
}

/// A policy of the relocator: a reason to move content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Bodies that are staged inline in their inodes' records move into blocks.
    Destage,
    /// The live bytes of sparse packs move into new packs.
    Repack,
    /// The visible bytes of files move out of blocks that later writes have mostly hidden.
    Compact,
}

impl Policy {
    /// Returns the pause after a failure. A body in a record takes up room for other bodies, so its
    /// move is tried again sooner.
    pub(crate) fn retry_pause(self) -> Duration {
        match self {
            Policy::Destage => Duration::from_secs(5),
            Policy::Repack | Policy::Compact => Duration::from_secs(30),
        }
    }

    /// Returns the pause between two pages of a survey. The survey of files reads every inode of
    /// the volume, those of the others only a part of the records.
    pub(crate) fn survey_pause(self) -> Duration {
        match self {
            Policy::Destage | Policy::Repack => Duration::ZERO,
            Policy::Compact => Duration::from_secs(1),
        }
    }
}

/// The times of a candidate that waits for the relocator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    /// The time at which the relocator is to look at it.
    pub(crate) due: Instant,
    /// The time of its last known change.
    pub(crate) changed: Instant,
}

/// A queue of candidates, packs or files, of whose blocks little may be live.
#[derive(Debug)]
pub(crate) struct RelocationQueue<K> {
    /// The delay between the first note of a candidate and the look at it.
    delay: Duration,
    candidates: Mutex<Candidates<K>>,
    /// Notified when a candidate is due before all others.
    pub(crate) earlier: Arc<Notify>,
    /// Locked during a step of the relocator, so that there is one at a time.
    pub(crate) step: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Candidates<K> {
    notes: BTreeMap<K, Note>,
    by_due: BTreeSet<(Instant, K)>,
    /// Candidates that are not looked at before the given time, because a look at them takes long.
    resting: BTreeMap<K, Instant>,
}

impl<K: Copy + Ord> RelocationQueue<K> {
    /// Creates an empty queue, with the delay between a note and the look.
    pub(crate) fn new(delay: Duration) -> RelocationQueue<K> {
        let (notes, by_due, resting) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        let candidates = Mutex::new(Candidates { notes, by_due, resting });
        let (earlier, step) = (Arc::default(), tokio::sync::Mutex::default());
        RelocationQueue { delay, candidates, earlier, step }
    }

    /// Queues a candidate that changed now.
    pub(crate) fn note(&self, candidate: K) {
        let (now, mut candidates) = (Instant::now(), self.candidates());
        let rested = candidates.resting.get(&candidate).copied().unwrap_or(now);
        match candidates.notes.get_mut(&candidate) {
            // The due time stays: a file that is written to all the time is looked at all the same.
            Some(note) => note.changed = now,
            None => {
                let due = (now + self.delay).max(rested);
                self.insert(&mut candidates, candidate, Note { due, changed: now });
            }
        }
    }

    /// Queues a candidate with the given times, unless it is queued already.
    pub(crate) fn note_for_later(&self, candidate: K, note: Note) {
        self.insert(&mut self.candidates(), candidate, note);
    }

    /// Queues a candidate for a look without a delay, unless it is queued already.
    pub(crate) fn note_due(&self, candidate: K) {
        let now = Instant::now();
        self.note_for_later(candidate, Note { due: now, changed: now });
    }

    fn insert(&self, candidates: &mut Candidates<K>, candidate: K, note: Note) {
        let Candidates { notes, by_due, .. } = candidates;
        // Candidates beyond the limit are dropped here; the next survey finds them.
        if notes.len() >= CANDIDATES_MAX || notes.contains_key(&candidate) {
            return;
        }
        notes.insert(candidate, note);
        by_due.insert((note.due, candidate));
        if by_due.first() == Some(&(note.due, candidate)) {
            self.earlier.notify_one();
        }
    }

    /// Lets the relocator leave a candidate alone for `time`, even if it changes meanwhile.
    pub(crate) fn rest(&self, candidate: K, time: Duration) {
        let (now, mut candidates) = (Instant::now(), self.candidates());
        candidates.resting.retain(|_, until| *until > now);
        // Beyond the limit the candidate is only looked at more often than needed.
        if candidates.resting.len() < CANDIDATES_MAX {
            candidates.resting.insert(candidate, now + time);
        }
    }

    /// Returns the number of candidates in the queue.
    pub(crate) fn len(&self) -> usize {
        self.candidates().notes.len()
    }

    /// Returns the time at which the relocator is to look at the next candidate; `None` if the
    /// queue is empty.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.candidates().by_due.first().map(|(due, _)| *due)
    }

    /// Removes the candidate from the queue that is due first, and returns it. Returns `None` if no
    /// candidate is due at `until`. If `until` is `None`, every candidate is due.
    pub(crate) fn take_due(&self, until: Option<Instant>) -> Option<(K, Note)> {
        let mut candidates = self.candidates();
        let (due, candidate) = *candidates.by_due.first()?;
        if until.is_some_and(|until| due > until) {
            return None;
        }
        candidates.by_due.pop_first();
        candidates.notes.remove(&candidate).map(|note| (candidate, note))
    }

    /// Each method leaves the queue consistent, so a poisoned lock is still usable.
    fn candidates(&self) -> MutexGuard<'_, Candidates<K>> {
        self.candidates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;

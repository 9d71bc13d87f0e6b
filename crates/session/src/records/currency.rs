//! Decides which cache entries are current, that is, certainly equal to the record in the store.
//!
//! A session without peers knows every change to a record, because it made the change itself. A
//! session with leases of all its peers knows every change as well, because each peer gives notice
//! of a batch before it sends the batch to the store. In both cases the session is *authoritative*,
//! and an answer from memory is as good as one from the store: it contains every commit that was
//! acknowledged before the question, and it is true as of one instant. [`crate::peers`] finds the
//! peers, and [`crate::leases`] decides until when the session is authoritative.
//!
//! An entry is current only if all of these hold; otherwise it is a hint:
//!
//! - No batch that writes the record is in flight. From the sending of such a batch until its
//!   verdict the entry is a hint.
//! - No two such batches were in flight at once. Their order is unknown, so the entry stays a hint
//!   until it is read again.
//! - No such batch has an unknown outcome. It may still commit at any time, so the entry is a hint
//!   until the outcome is known.
//! - If it came from a read: no such batch ended between the sending of the read and its answer.
//! - The session is authoritative. An entry is current in one *generation*. A change of the set of
//!   peers begins a new generation, and so does a batch of a peer without notice. So no entry has
//!   to be visited.
//!
//! A batch of a peer counts as in flight from its notice until the peer reports its end.
//!
//! In a formula: `current(e) = authoritative && e.current_in == generation`. The first four rules
//! decide if `current_in` is set to the generation or to [`Generation::NONE`].
//!
//! For example, a read of inode 7 is sent, then a batch that writes inode 7. The batch ends first.
//! The read may have seen the record before or after the batch, so its result is a hint, while the
//! value of the batch is current.
//!
//! Entries and [`InFlight`] change only under one mutex. Lookups do not take it; they work like the
//! reader of a seqlock. The reader loads a counter of demotions, reads the entries, and loads the
//! counter again. The counter grows after an entry has stopped being current. If it has not grown,
//! all entries that were found were current when the last one was read.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use runtime::Moment;
use store::Key;

/// Limit of the keys of plans with an unknown outcome. Beyond it no entry is current any more.
pub(super) const UNKNOWN_KEYS_MAX: usize = 65_536;

/// Limit of the keys that were written while reads were in flight. Beyond it the results of these
/// reads are hints.
pub(super) const WRITTEN_KEYS_MAX: usize = 16_384;

/// The period between two calls of [`Currency::end_authority`], counted from 1. In a generation the
/// session first may have peers, and then may be authoritative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Generation(u64);

impl Generation {
    /// The generation of hints. No entry is current in it.
    pub(super) const NONE: Generation = Generation(0);
}

/// The reason for which a session is authoritative, that is, may answer reads from its cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Basis {
    /// No other session exists.
    Alone,
    /// Each other session gives notice before it changes records.
    Leases,
}

/// The authority of this session: its right to answer reads from the cache, because it knows of
/// every change before the change can happen.
#[derive(Clone, Copy, Debug)]
struct Authority {
    generation: Generation,
    /// Time until which no other session can have changed a record without notice; `None` while one
    /// may have.
    until: Option<Moment>,
    /// The reason, if `until` is set.
    basis: Basis,
}

/// The state of the cache when a lookup without the mutex began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeqlockRead {
    /// Entries of this generation were current then.
    pub(super) generation: Generation,
    demotions: u64,
}

impl SeqlockRead {
    /// Returns a state of the cache that differs for each `moment`, for tests.
    #[cfg(test)]
    pub(crate) fn at(moment: u64) -> SeqlockRead {
        SeqlockRead { generation: Generation(1), demotions: moment }
    }
}

/// Decides which entries are current, that is, certainly equal to the records in the store.
#[derive(Debug)]
pub(super) struct Currency {
    /// True if this session is ever authoritative, that is, answers reads from its cache.
    enabled: bool,
    authority: RwLock<Authority>,
    /// Counts how often entries stopped being current within a generation. It grows after the
    /// entries have changed.
    demotions: AtomicU64,
    in_flight: Mutex<InFlight>,
}

/// The reads and batches in flight, and the keys that they write.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// True if no entry is current for the rest of the session's life.
    disabled: bool,
    /// Keys that batches in flight write.
    writes: HashMap<Key, KeyInFlight>,
    /// Keys that batches with an unknown outcome write, each with the number of these batches.
    unknown: HashMap<Key, u32>,
    /// Number of batches that have ended.
    batches_ended: u64,
    /// Number of reads in flight.
    reads: usize,
    /// Results of reads and batches that were sent when fewer than this number of batches had ended
    /// are hints.
    facts_from: u64,
    /// Keys of batches that ended while reads were in flight, each with `batches_ended` after its
    /// batch.
    written_during_reads: HashMap<Key, u64>,
}

/// The batches in flight that write one key.
#[derive(Clone, Copy, Debug)]
struct KeyInFlight {
    batches: u32,
    /// True if two of them were in flight at once.
    raced: bool,
}

/// The result of a read or a verdict, with the facts that decide if an entry made of it is current
/// (certainly equal to the store's record).
#[derive(Clone, Copy, Debug)]
pub(super) struct Observation {
    /// The number of batches that had ended when the read or batch was sent.
    sent_at: u64,
    /// The generation in which its records are current, unless a batch raced it.
    generation: Generation,
}

impl Currency {
    /// Creates the state of a session that is authoritative at times, if `enabled`.
    pub(super) fn new(enabled: bool) -> Currency {
        let authority = Authority { generation: Generation(1), until: None, basis: Basis::Alone };
        Currency {
            enabled,
            authority: RwLock::new(authority),
            demotions: AtomicU64::new(0),
            in_flight: Mutex::default(),
        }
    }

    /// Returns true if this session is ever authoritative, that is, answers reads from its cache.
    pub(super) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Locks the mutex under which entries and the state of reads and batches change. Only its
    /// holder changes entries.
    pub(super) fn in_flight(&self) -> MutexGuard<'_, InFlight> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn authority(&self) -> Authority {
        *self.authority.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_authority(&self, authority: Authority) {
        *self.authority.write().unwrap_or_else(PoisonError::into_inner) = authority;
    }

    /// Returns the current generation, also while the session is not authoritative.
    pub(super) fn generation(&self) -> Generation {
        self.authority().generation
    }

    /// Begins a lookup without the mutex. Returns `None` while other sessions may change records
    /// without notice.
    pub(super) fn begin_read(&self) -> Option<SeqlockRead> {
        let demotions = self.demotions.load(Ordering::Acquire);
        let Authority { generation, until, .. } = self.authority();
        until.map(|_| SeqlockRead { generation, demotions })
    }

    /// Returns true if no entry has stopped being current since [`Currency::begin_read`], and the
    /// session is still authoritative.
    // The reverse order of `begin_read`: the counter is loaded last, so a demotion during the
    // lookup is always seen.
    pub(super) fn is_valid(&self, seen: SeqlockRead) -> bool {
        let Authority { generation, until, .. } = self.authority();
        let demotions = self.demotions.load(Ordering::Acquire);
        seen == SeqlockRead { generation, demotions }
            && until.is_some_and(|until| !until.has_passed())
    }

    /// Counts that entries have stopped being current (certainly equal to the store's records). The
    /// caller has changed them before.
    pub(super) fn demoted(&self, _in_flight: &mut InFlight) {
        self.demotions.fetch_add(1, Ordering::Release);
    }

    /// Sets the time until which no other session changes records without notice. The caller
    /// guarantees that no other session has changed a record without notice since the first such
    /// call after [`Currency::end_authority`].
    pub(super) fn extend_authority(&self, until: Moment, basis: Basis) {
        let mut in_flight = self.in_flight();
        if !self.enabled || in_flight.disabled {
            return;
        }
        let Authority { generation, until: before, .. } = self.authority();
        // Reads that were sent before the authority began may have missed a change of another
        // session.
        if before.is_none() {
            in_flight.demote_in_flight();
        }
        self.set_authority(Authority { generation, until: Some(until), basis });
    }

    /// Makes all entries hints, which may differ from the store's records, because other sessions
    /// may change records from now on.
    pub(super) fn end_authority(&self, in_flight: &mut InFlight) {
        let Authority { generation: Generation(number), basis, .. } = self.authority();
        let generation = Generation(number + 1);
        self.set_authority(Authority { generation, until: None, basis });
        in_flight.demote_in_flight();
    }

    /// Makes all entries hints for the rest of the session's life.
    pub(super) fn disable(&self, in_flight: &mut InFlight) {
        in_flight.disabled = true;
        self.end_authority(in_flight);
    }

    /// Returns the time until which no other session changes records without notice, the state of
    /// the cache, and the reason. `None` if a peer may change records without notice.
    pub(super) fn relied_on(&self) -> Option<(Moment, SeqlockRead, Basis)> {
        let seen = self.begin_read()?;
        let Authority { generation, until, basis } = self.authority();
        until.filter(|_| generation == seen.generation).map(|until| (until, seen, basis))
    }

    /// Returns true if other sessions may change records without notice. Then no entry is current.
    pub(super) fn has_unknown_changes(&self) -> bool {
        self.authority().until.is_none()
    }

    /// Returns the generation in which entries are current now because all peers give notice of
    /// their changes; `None` if the session is alone, or if a peer may change records without
    /// notice.
    pub(super) fn leased_generation(&self) -> Option<Generation> {
        let Authority { generation, until, basis } = self.authority();
        let is_leased = basis == Basis::Leases && until.is_some_and(|until| !until.has_passed());
        is_leased.then_some(generation)
    }

    /// Returns the reason for which the session is authoritative now; `None` if it is not.
    pub(super) fn basis(&self) -> Option<Basis> {
        let Authority { until, basis, .. } = self.authority();
        until.filter(|until| !until.has_passed()).map(|_| basis)
    }

    /// Returns the facts for the result of a read or batch that was sent at `sent_at`.
    pub(super) fn observation(&self, in_flight: &InFlight, sent_at: u64) -> Observation {
        let Authority { generation, until, .. } = self.authority();
        let teaches = until.is_some() && sent_at >= in_flight.facts_from;
        Observation { sent_at, generation: if teaches { generation } else { Generation::NONE } }
    }
}

impl Observation {
    /// Returns the generation in which its records are current, unless a batch raced;
    /// [`Generation::NONE`] if they are hints.
    pub(super) fn generation(&self) -> Generation {
        self.generation
    }
}

impl InFlight {
    /// Makes the results of all reads and batches in flight hints: entries that may differ from the
    /// store's records.
    fn demote_in_flight(&mut self) {
        self.batches_ended += 1;
        self.facts_from = self.batches_ended;
    }

    /// Registers a read that is sent. Returns the number of batches that have ended, for its
    /// result.
    pub(super) fn read_sent(&mut self) -> u64 {
        self.reads += 1;
        self.batches_ended
    }

    /// Removes a read that was answered or given up.
    pub(super) fn read_ended(&mut self) {
        self.reads -= 1;
        if self.reads == 0 {
            self.written_during_reads.clear();
        }
    }

    /// Registers a batch of plans that writes `keys` and is sent. Returns the number of batches
    /// that have ended, for its result.
    pub(super) fn batch_sent(&mut self, keys: &[Key]) -> u64 {
        for key in keys {
            match self.writes.get_mut(key) {
                Some(sent) => *sent = KeyInFlight { batches: sent.batches + 1, raced: true },
                None => {
                    self.writes.insert(key.clone(), KeyInFlight { batches: 1, raced: false });
                }
            }
        }
        self.batches_ended
    }

    /// Counts a batch that has ended.
    pub(super) fn batch_ended(&mut self) {
        self.batches_ended += 1;
    }

    /// Ends the write of a key by a batch. Returns true if another batch that writes it was in
    /// flight at the same time.
    pub(super) fn write_ended(&mut self, key: &Key) -> bool {
        let Some(sent) = self.writes.get_mut(key) else { return true };
        let raced = sent.raced;
        sent.batches -= 1;
        if sent.batches == 0 {
            self.writes.remove(key);
        }
        raced
    }

    /// Notes for the reads in flight that a record changed.
    pub(super) fn note_written(&mut self, key: Key) {
        if self.reads == 0 {
            return;
        }
        if self.written_during_reads.len() >= WRITTEN_KEYS_MAX {
            self.written_during_reads.clear();
            self.facts_from = self.facts_from.max(self.batches_ended);
        }
        self.written_during_reads.insert(key, self.batches_ended);
    }

    /// Notes that a record may change at any time, because the outcome of a batch that writes it is
    /// unknown. Returns false if the limit of such records is reached; then no entry may be current
    /// any more.
    pub(super) fn note_unknown_outcome(&mut self, key: Key) -> bool {
        let room = self.unknown.len() < UNKNOWN_KEYS_MAX;
        if room {
            *self.unknown.entry(key).or_default() += 1;
        }
        room
    }

    /// Ends the write of a key by a batch whose outcome was unknown. The caller has counted the end
    /// of the batch.
    pub(super) fn unknown_outcome_ended(&mut self, key: &Key) {
        let Some(batches) = self.unknown.get_mut(key) else { return };
        *batches -= 1;
        if *batches == 0 {
            self.unknown.remove(key);
        }
    }

    /// Returns the generation in which a record is current as a read has returned it.
    pub(super) fn generation_of_read(&self, observation: Observation, key: &Key) -> Generation {
        let unchanged = !self.writes.contains_key(key)
            && !self.unknown.contains_key(key)
            && self.written_during_reads.get(key).is_none_or(|ended| *ended <= observation.sent_at);
        if unchanged { observation.generation } else { Generation::NONE }
    }

    /// Returns the keys in `start..end` that batches write which are in flight or have an unknown
    /// outcome.
    pub(super) fn unsettled_keys<'k>(
        &'k self,
        start: &'k Key,
        end: &'k Key,
    ) -> impl Iterator<Item = &'k Key> {
        let keys = self.writes.keys().chain(self.unknown.keys());
        keys.filter(move |key| start <= *key && *key < end)
    }

    /// Returns the keys in `start..end` for which [`InFlight::generation_of_read`] returns
    /// [`Generation::NONE`], because a batch that writes them raced with the read.
    pub(super) fn raced_keys(&self, observation: Observation, start: &Key, end: &Key) -> Vec<Key> {
        let ended = self.written_during_reads.iter();
        let ended = ended
            .filter(|(key, ended)| **ended > observation.sent_at && start <= *key && *key < end);
        self.unsettled_keys(start, end).chain(ended.map(|(key, _)| key)).cloned().collect()
    }

    /// Returns the generation in which a record is current as a batch has written it. `raced` is
    /// the result of [`InFlight::write_ended`].
    pub(super) fn generation_of_verdict(
        &self,
        observation: Observation,
        key: &Key,
        raced: bool,
    ) -> Generation {
        let known = !raced && !self.unknown.contains_key(key);
        if known { observation.generation } else { Generation::NONE }
    }

    /// Returns the numbers of keys with an unknown outcome and of keys written during reads.
    #[cfg(test)]
    pub(super) fn held(&self) -> (usize, usize) {
        (self.unknown.len(), self.written_during_reads.len())
    }
}

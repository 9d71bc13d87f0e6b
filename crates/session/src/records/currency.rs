//! Which records certainly are what the store holds.
//!
//! A session that is the only one of its volume knows every change to a record: it made it. It is
//! then *authoritative*: what it has read or written once it need not read again, and an answer from
//! memory is as good as one from the store: it holds every commit acknowledged before it was asked
//! for, and all of it is true at one instant. Whether it is the only one, and until when it may rely
//! on that, [`crate::peers`] finds out.
//!
//! An entry is *current* only while it certainly is what the store holds. Any other is a hint:
//!
//! - From when a batch that writes a record is sent until its verdict is known, it is a hint.
//! - If two such batches are under way at once, nobody knows their order: it is a hint until it is
//!   read again.
//! - If the outcome of such a batch stays unknown, it may change at any time to come: it is a hint
//!   for ever.
//! - What a read brings is current only if no such batch ended since the read left.
//! - While the session has peers, or may have, every entry is a hint. An entry is current in one
//!   *generation*, and when peers come a new one begins: no entry has to be visited for that.
//!
//! All that changes an entry or the in_flight here does so under one mutex. Answers are found without
//! it: whoever looks up several entries compares a counter before and after, which moves whenever
//! an entry has stopped being current. If it stood still, all that were found were current when the
//! last one was.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use runtime::Moment;
use store::Key;

/// Keys of plans whose outcome stayed unknown. With more of them nothing is current any more.
pub(super) const UNKNOWN_KEYS_MAX: usize = 65_536;

/// Keys that were written while reads were under way. With more of them the reads that are under
/// way teach hints only.
pub(super) const WRITTEN_KEYS_MAX: usize = 16_384;

/// A time in which this session has no peers, or may have: counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Generation(u64);

impl Generation {
    /// Of what is current in none.
    pub(super) const NONE: Generation = Generation(0);
}

/// What this session may rely on.
#[derive(Clone, Copy, Debug)]
struct Authority {
    generation: Generation,
    /// Until when nobody else can have changed a record; `None` while somebody may have.
    until: Option<Moment>,
}

/// What was so when a lookup began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeqlockRead {
    /// What is current in this one was current then.
    pub(super) generation: Generation,
    demotions: u64,
}

impl SeqlockRead {
    /// A look at a certain moment.
    #[cfg(test)]
    pub(crate) fn at(moment: u64) -> SeqlockRead {
        SeqlockRead { generation: Generation(1), demotions: moment }
    }
}

/// Decides what is current.
#[derive(Debug)]
pub(super) struct Currency {
    /// Whether this session ever is authoritative.
    enabled: bool,
    authority: RwLock<Authority>,
    /// Counts how often entries stopped being current within a generation. It moves after they did.
    demotions: AtomicU64,
    in_flight: Mutex<InFlight>,
}

/// What is under way that changes records.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// Whether nothing is current ever again.
    disabled: bool,
    /// Keys that batches under way write.
    writes: HashMap<Key, KeyInFlight>,
    /// Keys that batches of unknown outcome write.
    unknown: HashSet<Key>,
    /// Counts the batches that ended.
    batches_ended: u64,
    /// Reads that are under way.
    reads: usize,
    /// What left before so many batches had ended teaches hints only.
    facts_from: u64,
    /// Keys that batches wrote that ended while reads were under way, and how many had ended then.
    written_during_reads: HashMap<Key, u64>,
}

/// Batches under way that write a key.
#[derive(Clone, Copy, Debug)]
struct KeyInFlight {
    batches: u32,
    /// Whether two of them were under way at once.
    raced: bool,
}

/// What came back, a read or a verdict, and what it may teach.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observation {
    /// How many batches had ended when it left.
    sent_at: u64,
    /// The generation in which what it tells is current, if nothing raced it.
    generation: Generation,
}

impl Currency {
    /// Decides for a session that is authoritative at times, if `on`.
    pub(super) fn new(enabled: bool) -> Currency {
        let authority = Authority { generation: Generation(1), until: None };
        Currency {
            enabled,
            authority: RwLock::new(authority),
            demotions: AtomicU64::new(0),
            in_flight: Mutex::default(),
        }
    }

    /// Whether this session ever is authoritative.
    pub(super) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// The in_flight, for one at a time. Entries are changed by their holder only.
    pub(super) fn in_flight(&self) -> MutexGuard<'_, InFlight> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn authority(&self) -> Authority {
        *self.authority.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_authority(&self, authority: Authority) {
        *self.authority.write().unwrap_or_else(PoisonError::into_inner) = authority;
    }

    /// The generation of entries that are current now, whether or not they may be relied on.
    pub(super) fn generation(&self) -> Generation {
        self.authority().generation
    }

    /// Begins to look entries up for an answer; `None` while there may be peers.
    pub(super) fn begin_read(&self) -> Option<SeqlockRead> {
        let demotions = self.demotions.load(Ordering::Acquire);
        let Authority { generation, until } = self.authority();
        until.map(|_| SeqlockRead { generation, demotions })
    }

    /// Whether all that was current since [`Currency::begin_read`] still is, and may be relied on.
    pub(super) fn is_valid(&self, seen: SeqlockRead) -> bool {
        let Authority { generation, until } = self.authority();
        let demotions = self.demotions.load(Ordering::Acquire);
        seen == SeqlockRead { generation, demotions }
            && until.is_some_and(|until| !until.has_come())
    }

    /// Some entries have stopped being current.
    pub(super) fn demoted(&self, _books: &mut InFlight) {
        self.demotions.fetch_add(1, Ordering::Release);
    }

    /// Nobody else changes records until `until`, nor has since this was said first after
    /// [`Currency::end_authority`].
    pub(super) fn extend_authority(&self, until: Moment) {
        let mut in_flight = self.in_flight();
        if !self.enabled || in_flight.disabled {
            return;
        }
        let Authority { generation, until: before } = self.authority();
        if before.is_none() {
            in_flight.demote_in_flight();
        }
        self.set_authority(Authority { generation, until: Some(until) });
    }

    /// Somebody else may change records from now on, or may have: all that is known is hints.
    pub(super) fn end_authority(&self, in_flight: &mut InFlight) {
        let Generation(number) = self.generation();
        self.set_authority(Authority { generation: Generation(number + 1), until: None });
        in_flight.demote_in_flight();
    }

    /// Nothing is current from now on, whoever is there.
    pub(super) fn disable(&self, in_flight: &mut InFlight) {
        in_flight.disabled = true;
        self.end_authority(in_flight);
    }

    /// Until when nobody else can have changed a record, if that is so now, and what is current.
    pub(super) fn authority_until(&self) -> Option<(Moment, SeqlockRead)> {
        let seen = self.begin_read()?;
        let Authority { generation, until } = self.authority();
        until.filter(|_| generation == seen.generation).map(|until| (until, seen))
    }

    /// Whether there may be peers. Nothing is current then, nor can be before this has changed.
    pub(super) fn has_peers(&self) -> bool {
        self.authority().until.is_none()
    }

    /// What something teaches that left when so many batches had ended.
    pub(super) fn observation(&self, in_flight: &InFlight, sent_at: u64) -> Observation {
        let Authority { generation, until } = self.authority();
        let teaches = until.is_some() && sent_at >= in_flight.facts_from;
        Observation { sent_at, generation: if teaches { generation } else { Generation::NONE } }
    }
}

impl InFlight {
    /// What is under way teaches hints only.
    fn demote_in_flight(&mut self) {
        self.batches_ended += 1;
        self.facts_from = self.batches_ended;
    }

    /// A read leaves. Answers how many batches have ended.
    pub(super) fn read_sent(&mut self) -> u64 {
        self.reads += 1;
        self.batches_ended
    }

    /// A read has come back, or never will.
    pub(super) fn read_ended(&mut self) {
        self.reads -= 1;
        if self.reads == 0 {
            self.written_during_reads.clear();
        }
    }

    /// A batch leaves that writes these keys. Answers how many batches have ended.
    pub(super) fn batch_sent(&mut self, keys: &HashSet<Key>) -> u64 {
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

    /// A batch has ended.
    pub(super) fn batch_ended(&mut self) {
        self.batches_ended += 1;
    }

    /// A batch that wrote this key has ended. Whether another one was under way meanwhile.
    pub(super) fn write_ended(&mut self, key: &Key) -> bool {
        let Some(sent) = self.writes.get_mut(key) else { return true };
        let raced = sent.raced;
        sent.batches -= 1;
        if sent.batches == 0 {
            self.writes.remove(key);
        }
        raced
    }

    /// Takes note that a record changed, for reads that are under way.
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

    /// Takes note that a record may change at any time to come. Whether there was room for that.
    pub(super) fn note_unknown_outcome(&mut self, key: Key) -> bool {
        let room = self.unknown.len() < UNKNOWN_KEYS_MAX;
        if room {
            self.unknown.insert(key);
        }
        room
    }

    /// The generation in which a record is current as a read told of it.
    pub(super) fn generation_of_read(&self, observation: Observation, key: &Key) -> Generation {
        let unchanged = !self.writes.contains_key(key)
            && !self.unknown.contains(key)
            && self.written_during_reads.get(key).is_none_or(|ended| *ended <= observation.sent_at);
        if unchanged { observation.generation } else { Generation::NONE }
    }

    /// The generation in which a record is current as a verdict told of it, if its batch was `raced`.
    pub(super) fn generation_of_verdict(
        &self,
        observation: Observation,
        key: &Key,
        raced: bool,
    ) -> Generation {
        let known = !raced && !self.unknown.contains(key);
        if known { observation.generation } else { Generation::NONE }
    }

    /// Keys of unknown outcome, and keys written while reads were under way: how many are held.
    #[cfg(test)]
    pub(super) fn held(&self) -> (usize, usize) {
        (self.unknown.len(), self.written_during_reads.len())
    }
}

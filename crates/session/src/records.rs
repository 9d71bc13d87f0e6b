//! The record cache: inodes, names, buckets, uploads and locks that this session has read or
//! written.
//!
//! Its size in bytes is bounded. Each entry is either *current*, which means that it certainly
//! equals the record in the store, or a *hint*, which may be old at any time because other gateways
//! write too. Only [`currency`] decides which.
//!
//! - Planners use both as hints: the guards of a commit check each record that a plan relied on.
//! - A read is answered from current entries, without a round trip. [`crate::cached_store`] has a
//!   `MetaStore` that does so. It passes the same conformance suite as the engines.
//! - Counters of directories are cached only while they are current. The cache computes the new
//!   value from the additions of each committed plan.
//! - The absence of a record is cached only while it is current. As a hint it would have no use,
//!   since planners guess absence anyway.
//! - A page of a directory is answered while all names of the directory are known, and while the
//!   entry of each name on the page and of its inode is current: see [`complete_directories`] and
//!   [`pages`]. The pages that S3 clients list are kept apart: see [`listings`].
//!
//! For example, a sole gateway gets a PUT of `a/b` and then a HEAD of `a/b`. The verdict of the PUT
//! makes the new dentry and inode current, so the HEAD costs no round trip. If a second gateway
//! starts, both entries become hints at once, and the next HEAD reads the store. When the first
//! gateway has a lease of the second one, the records that it reads are current again.

mod answers;
mod complete_directories;
mod currency;
mod demand;
mod entries;
mod listings;
mod pages;
mod peer_batches;
mod without_xattrs;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use namespace::Hints;
use record::key::{self, space};
use record::{Ino, is_sealed_inode};
use runtime::Moment;
use store::{
    CounterKey, Entry, Follow, Key, Plan, Read, ReadResult, Space, Target, Value, Verdict, Write,
    counter_changes,
};

use currency::{Currency, Generation, InFlight, Observation};
use without_xattrs::InodesWithoutXattrs;

use complete_directories::CompleteDirectories;
pub(crate) use currency::{Basis, SeqlockRead};
pub(crate) use demand::DEMAND_MIN;
use demand::Demand;
use entries::{Entries, NAMES, Remembered, complete_directories_bytes, listings_bytes};
use listings::Listings;
pub(crate) use pages::Pages;

pub use entries::{CURRENT_VALUE_BYTES_MAX, HINT_VALUE_BYTES_MAX};

/// Default bytes of the record cache, keys and overhead included.
pub const RECORD_CACHE_BYTES_DEFAULT: u64 = 128 << 20;

/// Spaces (kinds) of records that are cached: those that lookups and locks read.
const SPACES: [Space; 6] =
    [space::DENTRY, space::INODE, space::BUCKET, space::UPLOAD, space::LOCKS, space::LOCK_KEEPING];

/// Returns true if records of this space are cached.
pub(crate) fn is_cached_space(space: Space) -> bool {
    SPACES.contains(&space)
}

/// Returns true if the key is that under which the cache stores a counter. No record has such a
/// key.
fn is_counter(key: &Key) -> bool {
    key.space() == space::COUNTER
}

/// The record cache of a session.
#[derive(Debug)]
pub(crate) struct RecordCache {
    entries: Entries,
    complete_directories: CompleteDirectories,
    listings: Listings,
    without_xattrs: InodesWithoutXattrs,
    currency: Currency,
    demand: Demand,
}

impl RecordCache {
    /// Creates a cache of about `bytes`. If `authoritative`, reads are answered from the cache
    /// while the session is alone or has leases of all its peers.
    pub(crate) fn new(bytes: u64, authoritative: bool) -> Arc<RecordCache> {
        Arc::new(RecordCache {
            entries: Entries::new(bytes),
            complete_directories: CompleteDirectories::new(complete_directories_bytes(bytes)),
            listings: Listings::new(listings_bytes(bytes)),
            without_xattrs: InodesWithoutXattrs::default(),
            currency: Currency::new(authoritative && bytes > 0),
            demand: Demand::default(),
        })
    }

    /// Returns true if this cache ever answers reads. If false, its entries only save round trips
    /// of planners.
    pub(crate) fn is_authoritative(&self) -> bool {
        self.currency.is_enabled()
    }

    /// Sets the time until which no other session changes records without notice, so that entries
    /// may be current (certainly equal to the store's records). The caller guarantees that no other
    /// session has changed a record without notice since the first such call after
    /// [`RecordCache::end_authority`].
    pub(crate) fn extend_authority(&self, until: Moment, basis: Basis) {
        self.currency.extend_authority(until, basis);
    }

    /// Returns the time until which no other session changes records without notice, the state of
    /// the cache, for [`RecordCache::is_unchanged`], and the reason. `None` if a peer may change
    /// records without notice.
    pub(crate) fn relied_on(&self) -> Option<(Moment, SeqlockRead, Basis)> {
        self.currency.relied_on()
    }

    /// Returns the reason for which reads are answered from the cache now; `None` if each read asks
    /// the store.
    pub(crate) fn basis(&self) -> Option<Basis> {
        self.currency.basis()
    }

    /// Returns true if no entry has stopped being current (certainly equal to the store's record)
    /// since `seen`, and no other session may have changed records.
    pub(crate) fn is_unchanged(&self, seen: SeqlockRead) -> bool {
        self.currency.is_valid(seen)
    }

    /// Makes all entries hints, which may differ from the store's records, because other sessions
    /// may change records from now on.
    pub(crate) fn end_authority(&self) {
        self.currency.end_authority(&mut self.currency.in_flight());
    }

    /// Makes all entries hints, which may differ from the store's records, for the rest of the
    /// session's life.
    pub(crate) fn disable(&self) {
        self.currency.disable(&mut self.currency.in_flight());
    }

    /// Drops all entries of the cache, because any record may have changed.
    pub(crate) fn clear(&self) {
        let mut in_flight = self.currency.in_flight();
        self.currency.end_authority(&mut in_flight);
        self.entries.clear();
        self.complete_directories.clear();
        self.listings.clear();
        self.without_xattrs.clear();
    }

    /// Stores the record that a failed guard found, as a hint: an entry that may become old at any
    /// time. `None` if the guard found no record.
    pub(crate) fn note_refusal(&self, key: &Key, value: Option<&Value>) {
        let in_flight = self.currency.in_flight();
        self.hint(&in_flight, key, value);
    }

    /// Stores the writes of a plan as hints, that is, entries that may be old. The plan was found
    /// to be committed after its answer was lost.
    pub(crate) fn note_committed(&self, plan: &Plan) {
        let in_flight = self.currency.in_flight();
        for (key, value) in remembered_writes(plan) {
            self.hint(&in_flight, key, value);
        }
    }

    /// Begins to track inodes without extended attributes, for `has_no_xattrs`.
    pub(crate) fn track_xattrs(&self) {
        self.without_xattrs.begin();
    }

    /// Returns true if an inode certainly has no extended attributes. False means that it is not
    /// known.
    pub(crate) fn has_no_xattrs(&self, ino: Ino) -> bool {
        self.currency.begin_read().is_some_and(|seen| {
            self.without_xattrs.has_no_xattrs(ino, seen.generation) && self.currency.is_valid(seen)
        })
    }

    /// Registers a read that is about to be sent, so that batches which end before its answer are
    /// noticed.
    pub(crate) fn begin_read(self: &Arc<Self>) -> ReadInFlight {
        ReadInFlight { sent_at: self.currency.in_flight().read_sent(), cache: Arc::clone(self) }
    }

    /// Registers a batch of plans that is about to be sent. The entries of records that it writes
    /// become hints, which may be old, until its verdict.
    pub(crate) fn begin_batch(self: &Arc<Self>, plans: &[Plan]) -> BatchInFlight {
        let written = plans.iter().flat_map(|plan| remembered_writes(plan).map(|(key, _)| key));
        let counted: HashSet<&Key> = plans.iter().flat_map(changed_counters).collect();
        // Peers may hold counters as current, also if this session does not.
        let keys: HashSet<&Key> = written.chain(counted.iter().copied()).collect();
        let orphaned: HashSet<Key> = plans.iter().flat_map(orphaned_inodes).collect();
        let orphaned = orphaned.into_iter().filter(|key| !keys.contains(key));
        let orphaned: Vec<Key> = orphaned.collect();
        let keys: Arc<[Key]> = keys.into_iter().cloned().chain(orphaned).collect();
        let mut counters = HashMap::new();
        let mut in_flight = self.currency.in_flight();
        // Only an authoritative session uses counters and complete directories.
        if self.is_authoritative() {
            counters = self.known_counters(&counted);
            self.complete_directories.sending(plans, &in_flight);
        }
        let sent_at = in_flight.batch_sent(&keys);
        self.demote(&mut in_flight, &keys);
        BatchInFlight { cache: Arc::clone(self), keys, counters, sent_at }
    }

    /// Makes the entries of these records hints, which may differ from the store's records.
    fn demote(&self, in_flight: &mut InFlight, keys: &[Key]) {
        // Without the authority no entry is current.
        if self.currency.has_unknown_changes() || keys.is_empty() {
            return;
        }
        for key in keys {
            self.entries.demote(key);
            self.without_xattrs.forget(key);
        }
        self.listings.sending(keys);
        self.currency.demoted(in_flight);
    }

    /// Handles the news that a batch which writes these records has committed or never will. Its
    /// outcome was unknown before. Reads that are sent from now on make the records current.
    pub(crate) fn unknown_batch_settled(&self, keys: &[Key]) {
        let mut in_flight = self.currency.in_flight();
        in_flight.batch_ended();
        for key in keys {
            in_flight.unknown_outcome_ended(key);
            in_flight.note_written(key.clone());
        }
    }

    /// Returns the values of those counters whose entries are current, that is, certainly equal to
    /// the store's.
    fn known_counters(&self, counters: &HashSet<&Key>) -> HashMap<Key, i64> {
        let generation = self.currency.generation();
        let known = |key: &&Key| {
            let known = self.entries.get(key).filter(|known| known.current_in == generation)?;
            Some(((*key).clone(), counter_number(&known.value?)?))
        };
        counters.iter().filter_map(known).collect()
    }

    /// Stores the results of a read. `observation` decides which of them are current (certainly
    /// equal to the store's records) and which may be old.
    fn learn(
        &self,
        in_flight: &InFlight,
        observation: Observation,
        reads: &[Read],
        found: &[ReadResult],
    ) {
        for (read, found) in reads.iter().zip(found) {
            match (read, found) {
                (Read::Record { key, .. }, ReadResult::Record(None)) => {
                    self.learn_record(in_flight, observation, key, None);
                }
                (Read::Record { follow, .. }, ReadResult::Record(Some(entry))) => {
                    self.learn_entry(in_flight, observation, entry, follow.as_ref());
                }
                (Read::Range { follow, .. }, ReadResult::Range(entries)) => {
                    // A page of a listing would evict entries that writers need, so only the last
                    // few names are stored. They show if the directory has any name. Listings are
                    // in order, and a client that deletes one name after the other reaches the last
                    // ones latest.
                    let (others, last) = entries.split_at(entries.len().saturating_sub(NAMES));
                    for entry in last {
                        self.learn_entry(in_flight, observation, entry, follow.as_ref());
                        self.entries.add_name(&entry.key);
                    }
                    for entry in others {
                        self.learn_head(in_flight, observation, entry, follow.as_ref());
                    }
                }
                (Read::Counter(CounterKey(key)), ReadResult::Counter(number))
                    if is_counter(key) =>
                {
                    let value = counter_value(*number);
                    self.learn_record(in_flight, observation, key, Some(&value));
                }
                _ => {}
            }
        }
    }

    fn learn_entry(
        &self,
        in_flight: &InFlight,
        observation: Observation,
        entry: &Entry,
        follow: Option<&Follow>,
    ) {
        self.learn_record(in_flight, observation, &entry.key, Some(&entry.value));
        let Some(follow) = follow else { return };
        let Some(target) = follow.target(&entry.value) else { return };
        match &entry.target {
            Target::Whole(value) => self.learn_record(in_flight, observation, &target, Some(value)),
            Target::Absent => self.learn_record(in_flight, observation, &target, None),
            // A cut record is not a value. A complete one that is cached may still be right.
            Target::Cut(_) => self.learn_head(in_flight, observation, entry, Some(follow)),
        }
    }

    /// Learns from the head (the first bytes) of the inode's record to which a read entry of a
    /// range points if the inode has extended attributes. `follow` describes how the read continued
    /// from the entry to that record.
    fn learn_head(
        &self,
        in_flight: &InFlight,
        observation: Observation,
        entry: &Entry,
        follow: Option<&Follow>,
    ) {
        let begin = match &entry.target {
            Target::Whole(value) => &value[..],
            Target::Cut(beginning) => beginning.as_bytes(),
            Target::Absent => return,
        };
        let target = follow.and_then(|follow| follow.target(&entry.value));
        if let Some(target) = target.filter(|target| target.space() == space::INODE) {
            self.without_xattrs
                .learn(&target, begin, || in_flight.generation_of_read(observation, &target));
        }
    }

    fn learn_record(
        &self,
        in_flight: &InFlight,
        observation: Observation,
        key: &Key,
        value: Option<&Value>,
    ) {
        self.note(in_flight, key, value, in_flight.generation_of_read(observation, key));
    }

    /// Stores a record as a hint: it may have changed since it was read. `None` is an absent
    /// record.
    fn hint(&self, in_flight: &InFlight, key: &Key, value: Option<&Value>) {
        self.note(in_flight, key, value, Generation::NONE);
    }

    /// Stores a record as it was read, unless a current entry exists. `current_in` is the
    /// generation in which the entry certainly equals the store's record; `Generation::NONE` if it
    /// is a hint.
    fn note(
        &self,
        _in_flight: &InFlight,
        key: &Key,
        value: Option<&Value>,
        current_in: Generation,
    ) {
        if !is_cached_space(key.space()) && !is_counter(key) {
            return;
        }
        // It could not be decrypted now. A later read may succeed.
        if value.is_some_and(|value| key.space() == space::INODE && is_sealed_inode(value)) {
            return;
        }
        let known = self.entries.get(key);
        if known.as_ref().is_some_and(|known| known.current_in == self.currency.generation()) {
            return;
        }
        let record = Remembered { value: value.cloned(), current_in };
        // Most results equal the cached entry, and a lookup costs less than an insertion.
        if known.as_ref() == Some(&record) {
            return;
        }
        self.entries.set(key, record);
        match value {
            Some(_) => self.entries.add_name(key),
            None => self.entries.remove_name(key),
        }
    }
}

impl Hints for RecordCache {
    fn record(&self, key: &Key) -> Option<Option<Value>> {
        let Remembered { value, current_in } = self.entries.get(key)?;
        let is_hint = value.as_ref().is_some_and(|value| value.len() <= HINT_VALUE_BYTES_MAX);
        (is_hint || current_in == self.currency.generation()).then_some(value)
    }

    fn sibling(&self, directory: Ino, not: &[u8]) -> Option<Key> {
        self.entries.sibling(directory, not)
    }
}

/// Returns the writes of a plan to cached kinds of records: each key, with the value or `None` for
/// a deletion.
fn remembered_writes(plan: &Plan) -> impl Iterator<Item = (&Key, Option<&Value>)> {
    let writes = plan.writes.iter().filter_map(|write| match write {
        Write::Put(key, value) => Some((key, Some(value))),
        Write::Delete(key) => Some((key, None)),
        Write::Add(..) | Write::Max(..) | Write::Set(..) | Write::Clear(..) => None,
    });
    writes.filter(|(key, _)| is_cached_space(key.space()))
}

/// Returns the inode in the key of an orphan record, that is, of a file that loses its last name;
/// `None` for other keys.
pub(crate) fn orphaned(key: &Key) -> Option<Ino> {
    let number = (key.space() == space::ORPHAN).then(|| key.suffix().try_into().ok())??;
    Some(Ino(u64::from_be_bytes(number)))
}

/// Returns the keys of the inodes whose last name a plan removes. Their link count changes,
/// although the plan may not write their records.
fn orphaned_inodes(plan: &Plan) -> impl Iterator<Item = Key> {
    let orphans = plan.writes.iter().filter_map(|write| match write {
        Write::Put(key, _) => orphaned(key),
        Write::Delete(_) | Write::Add(..) | Write::Max(..) | Write::Set(..) | Write::Clear(..) => {
            None
        }
    });
    orphans.map(key::inode)
}

/// Returns the cache keys of the counters that a plan changes and that are cached.
fn changed_counters(plan: &Plan) -> impl Iterator<Item = &Key> {
    let counters = plan.writes.iter().filter_map(|write| match write {
        Write::Add(CounterKey(key), _)
        | Write::Max(CounterKey(key), _)
        | Write::Set(CounterKey(key), _)
        | Write::Clear(CounterKey(key)) => Some(key),
        Write::Put(..) | Write::Delete(_) => None,
    });
    counters.filter(|key| is_counter(key))
}

/// Encodes a counter as a cache value.
fn counter_value(number: i64) -> Value {
    Value::copy_from_slice(&number.to_be_bytes())
}

/// Decodes a counter from a cache value.
fn counter_number(value: &Value) -> Option<i64> {
    Some(i64::from_be_bytes(value.as_ref().try_into().ok()?))
}

/// A read in flight, registered so that batches which end before its answer are noticed.
#[derive(Debug)]
pub(crate) struct ReadInFlight {
    cache: Arc<RecordCache>,
    sent_at: u64,
}

impl ReadInFlight {
    /// Stores the results of the read. A record's entry is current (certainly equal to the store's)
    /// if no batch that wrote the record ended since the read was sent.
    pub(crate) fn found(self, reads: &[Read], found: &[ReadResult]) {
        let currency = &self.cache.currency;
        let in_flight = currency.in_flight();
        let observation = currency.observation(&in_flight, self.sent_at);
        self.cache.learn(&in_flight, observation, reads, found);
    }
}

impl Drop for ReadInFlight {
    fn drop(&mut self) {
        self.cache.currency.in_flight().read_ended();
    }
}

/// A batch of plans in flight. If it is dropped without a verdict, its outcome is unknown, and the
/// entries of records that it writes are not current until
/// [`RecordCache::unknown_batch_settled`].
#[derive(Debug)]
pub(crate) struct BatchInFlight {
    cache: Arc<RecordCache>,
    /// The cached records and counters that the batch writes; none after it has ended.
    keys: Arc<[Key]>,
    /// The current values of the counters that the batch changes, as of when it was sent.
    counters: HashMap<Key, i64>,
    sent_at: u64,
}

impl BatchInFlight {
    /// Stores the writes of the plans that were committed, by the store's verdicts.
    pub(crate) fn decided(mut self, plans: &[Plan], verdicts: &[Verdict]) {
        if self.keys.is_empty() {
            return;
        }
        let committed = || {
            let decided = plans.iter().zip(verdicts);
            decided.filter(|(_, verdict)| **verdict == Verdict::Committed).map(|(plan, _)| plan)
        };
        let counters = self.counters_after(committed());
        // A later plan of the batch may write a record of an earlier one again: the last write
        // counts.
        let mut last: HashMap<&Key, Option<&Value>> = HashMap::with_capacity(self.keys.len());
        last.extend(committed().flat_map(remembered_writes));
        last.extend(counters.iter().map(|(key, number)| (key, Some(number))));
        let keys = self.take_keys();
        let RecordCache { currency, .. } = &*self.cache;
        let mut in_flight = currency.in_flight();
        let observation = currency.observation(&in_flight, self.sent_at);
        in_flight.batch_ended();
        for key in &*keys {
            let raced = in_flight.write_ended(key);
            let mut known_in = Generation::NONE;
            if let Some(value) = last.get(key) {
                known_in = in_flight.generation_of_verdict(observation, key, raced);
                self.cache.note(&in_flight, key, *value, known_in);
                if value.is_none() && known_in != Generation::NONE {
                    self.cache.complete_directories.removed(key);
                    self.cache.listings.removed(key);
                }
            }
            self.cache.complete_directories.decided(key, known_in);
            in_flight.note_written(key.clone());
        }
    }

    /// Returns the cached records and counters that the batch writes.
    pub(crate) fn keys(&self) -> &Arc<[Key]> {
        &self.keys
    }

    /// Returns the keys of the batch, and leaves none, so that the batch counts as ended.
    fn take_keys(&mut self) -> Arc<[Key]> {
        std::mem::replace(&mut self.keys, Arc::new([]))
    }

    /// Returns the values of the counters that were known when the batch was sent, after the
    /// changes of the committed plans.
    fn counters_after<'p>(&self, committed: impl Iterator<Item = &'p Plan>) -> HashMap<Key, Value> {
        if self.counters.is_empty() {
            return HashMap::new();
        }
        let changes = counter_changes(committed);
        let after = |(key, before): (&Key, &i64)| {
            let change = changes.get(&CounterKey(key.clone()));
            let number = change.map_or(*before, |change| change.apply_to(*before));
            (key.clone(), counter_value(number))
        };
        self.counters.iter().map(after).collect()
    }

    /// Ends a batch that certainly did not commit and never will, so that its records may be cached
    /// as before.
    pub(crate) fn not_committed(mut self) {
        let keys = self.take_keys();
        let mut in_flight = self.cache.currency.in_flight();
        for key in &*keys {
            self.cache.complete_directories.decided(key, Generation::NONE);
            in_flight.write_ended(key);
        }
    }
}

impl Drop for BatchInFlight {
    fn drop(&mut self) {
        let keys = self.take_keys();
        if keys.is_empty() {
            return;
        }
        let currency = &self.cache.currency;
        let mut in_flight = currency.in_flight();
        for key in &*keys {
            self.cache.complete_directories.decided(key, Generation::NONE);
            in_flight.write_ended(key);
            if !in_flight.note_unknown_outcome(key.clone()) {
                currency.disable(&mut in_flight);
            }
        }
    }
}

#[cfg(test)]
mod tests;

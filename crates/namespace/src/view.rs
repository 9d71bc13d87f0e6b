//! The records that a planner knows: facts of one snapshot, and hints.
//!
//! A *fact* was read by this operation, and all facts of a view come from one snapshot. A *hint* is
//! a record cached from an earlier operation, or a guess. A plan may rely on hints, because its
//! guards check them. An answer may not: before an operation answers, [`crate::Run`] reads all
//! requested records once more in one round trip, which turns every hint into a fact.
//!
//! For example, a DELETE of a cached key is planned from hints alone. If another gateway has
//! replaced the object, the guard of the dentry refuses the plan. The refusal returns the new
//! dentry, and the next pass uses it. A wrong hint costs a round trip, and never a wrong result.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;

use bytes::Bytes;
use record::{DecodeError, Ino};
use store::{CounterKey, Entry, Follow, Key, Read, ReadResult, Target, Value};

use crate::Halt;

/// The source of hints: records cached from earlier operations. A hint may be wrong; then it costs
/// a round trip, and never a wrong result.
pub trait Hints: Debug {
    /// The record as last seen: `Some(None)` if it was absent, and `None` if nothing is cached.
    fn record(&self, key: &Key) -> Option<Option<Value>>;

    /// The key of a dentry in `directory`, as last seen, whose name is not `not`; `None` if none is
    /// cached. A plan uses it to guard that a directory does not become empty.
    fn sibling(&self, directory: Ino, not: &[u8]) -> Option<Key>;
}

/// A record, and the record to which it points, such as a dentry and the inode that it binds. The
/// second is `None` if it is absent, or if the first points to none.
pub type Followed = (Value, Option<Value>);

/// Hints without any record: the operation reads everything from the store.
#[derive(Clone, Copy, Debug)]
pub struct NoHints;

impl Hints for NoHints {
    fn record(&self, _key: &Key) -> Option<Option<Value>> {
        None
    }

    fn sibling(&self, _directory: Ino, _not: &[u8]) -> Option<Key> {
        None
    }
}

/// If a pass requests at most this number of reads and one record is missing, all of them are sent
/// again, so that all records are from one snapshot. Beyond this number, only missing records are
/// read, because rereading everything at each level of a path would cost work that grows with the
/// square of its depth. Then the operation reads everything once more before it answers, which
/// costs one round trip.
const REREAD_MAX: usize = 128;

/// The records that an operation knows, from its first pass to its last.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// The facts: records of the last snapshot that this operation has read. `None` is an absent
    /// record.
    records: HashMap<Key, Option<Value>>,
    ranges: HashMap<Read, Vec<Entry>>,
    counters: HashMap<CounterKey, i64>,
    /// Records of earlier snapshots of this operation: newer than hints (records cached by earlier
    /// operations), but not facts any more.
    stale: HashMap<Key, Option<Value>>,
    /// The hints that this pass has used. The cache changes meanwhile, and a plan must guard the
    /// record that it used.
    recalled: HashMap<Key, Option<Option<Value>>>,
    /// The siblings that this pass has used: for a directory and a name in it, the key of another
    /// dentry of the directory, or `None` if none is cached.
    siblings: HashMap<(Ino, Vec<u8>), Option<Key>>,
    /// The keys of all records and ranges that this operation has read, or by which it was refused.
    met: HashSet<Key>,
    /// True if a guard of this operation was refused.
    refused: bool,
    /// Counters whose upper limit, for example a quota, refused a plan of this operation. The next
    /// pass reads them.
    full: HashSet<CounterKey>,
    /// The reads that this pass has requested, in order, each once.
    requested: Vec<Read>,
    /// The same reads as a set, so that each is requested once.
    requested_once: HashSet<Read>,
    /// True if this pass used a record that is not a fact of the last snapshot: a hint, a guess or
    /// a record of an earlier snapshot.
    unverified: bool,
}

/// The records that one planning pass may read. It notes each request.
#[derive(Debug)]
pub struct View<'p> {
    hints: &'p dyn Hints,
    known: &'p mut Known,
}

impl<'p> View<'p> {
    /// The view of one pass: the facts of the operation, and the hints (records cached from earlier
    /// operations) of the caller.
    pub(crate) fn new(hints: &'p dyn Hints, known: &'p mut Known) -> View<'p> {
        View { hints, known }
    }

    fn ask(&mut self, read: Read) {
        if self.known.requested_once.insert(read.clone()) {
            self.known.requested.push(read);
        }
    }

    /// Returns the record if a fact or hint is known, and notes the use of a hint.
    fn known(&mut self, key: &Key) -> Option<Option<Value>> {
        let known = &mut *self.known;
        if let Some(fact) = known.records.get(key) {
            return Some(fact.clone());
        }
        let hint = match (known.stale.get(key), known.recalled.get(key)) {
            (Some(stale), _) => Some(stale.clone()),
            (None, Some(recalled)) => recalled.clone(),
            (None, None) => {
                let hint = self.hints.record(key);
                known.recalled.insert(key.clone(), hint.clone());
                hint
            }
        }?;
        known.unverified = true;
        Some(hint)
    }

    /// Returns the records of these keys. If some are unknown, fails with [`Halt::Need`]; all of
    /// them are then read in one round trip.
    pub fn records<const N: usize>(&mut self, keys: [&Key; N]) -> Result<[Option<Value>; N], Halt> {
        keys.iter().for_each(|key| self.ask(Read::Record { key: (*key).clone(), follow: None }));
        let found = keys.map(|key| self.known(key));
        if found.iter().any(Option::is_none) {
            return Err(Halt::Need);
        }
        Ok(found.map(Option::flatten))
    }

    /// Returns the record of this key; `None` if it is absent.
    pub fn record(&mut self, key: &Key) -> Result<Option<Value>, Halt> {
        self.records([key]).map(|[record]| record)
    }

    /// As [`View::record`] for any number of keys, in one round trip.
    pub fn many(&mut self, keys: &[Key]) -> Result<Vec<Option<Value>>, Halt> {
        keys.iter().for_each(|key| self.ask(Read::Record { key: key.clone(), follow: None }));
        keys.iter().map(|key| self.known(key)).collect::<Option<_>>().ok_or(Halt::Need)
    }

    /// Returns the record of each key, and the complete record to which it points, in one round
    /// trip. `follow` describes how the value of the first record gives the key of the second, for
    /// example from a dentry to its inode. The result is `None` for a key without a record.
    ///
    /// # Panics
    /// If `follow` limits the bytes of the second record: the first bytes of a record are not a
    /// fact about the record.
    pub fn followed(
        &mut self,
        keys: &[Key],
        follow: &Follow,
    ) -> Result<Vec<Option<Followed>>, Halt> {
        assert!(follow.bytes_max.is_none(), "a followed record is read completely");
        for key in keys {
            self.ask(Read::Record { key: key.clone(), follow: Some(follow.clone()) });
        }
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            let Some(record) = self.known(key) else { return Err(Halt::Need) };
            let Some(record) = record else {
                found.push(None);
                continue;
            };
            let target = match follow.target(&record) {
                Some(target) => self.known(&target).ok_or(Halt::Need)?,
                None => None,
            };
            found.push(Some((record, target)));
        }
        Ok(found)
    }

    /// Returns the record if it is known, else `guess`, where `None` is the guess that the record
    /// is absent. Never stops the pass. If the guess is wrong, a guard of the plan refuses it, and
    /// the refusal returns the real record. If the guess is a record, the rest of the pass uses it.
    pub fn guess(&mut self, key: &Key, guess: Option<&Value>) -> Option<Value> {
        self.ask(Read::Record { key: key.clone(), follow: None });
        if let Some(known) = self.known(key) {
            return known;
        }
        self.known.unverified = true;
        if let Some(guess) = guess {
            self.known.recalled.insert(key.clone(), Some(Some(guess.clone())));
        }
        guess.cloned()
    }

    /// Returns true if the store refused a plan of this operation because this record exists. Only
    /// for records that no planner reads, since a record of an earlier snapshot has the same
    /// effect.
    pub(crate) fn contradicted(&self, key: &Key) -> bool {
        matches!(self.known.stale.get(key), Some(Some(_)))
    }

    /// Returns the first `limit` records of the range from `start` up to `end`, without `end`. A
    /// range is never a hint: it is read in a snapshot of this operation.
    pub fn range(&mut self, start: Key, end: Key, limit: u32) -> Result<Vec<Entry>, Halt> {
        let range = Read::Range { start, end, limit, follow: None };
        self.ranges(&[range]).map(|ranges| ranges.into_iter().flatten().collect())
    }

    /// Returns the records of several ranges, in the order of `reads`, in one round trip.
    ///
    /// # Panics
    /// If a read is not a range.
    pub fn ranges(&mut self, reads: &[Read]) -> Result<Vec<Vec<Entry>>, Halt> {
        for read in reads {
            assert!(matches!(read, Read::Range { .. }), "only ranges are read here");
            self.ask(read.clone());
        }
        reads.iter().map(|read| self.known.ranges.get(read).cloned().ok_or(Halt::Need)).collect()
    }

    /// Returns the value of a counter.
    pub fn counter(&mut self, key: &CounterKey) -> Result<i64, Halt> {
        self.ask(Read::Counter(key.clone()));
        self.known.counters.get(key).copied().ok_or(Halt::Need)
    }

    /// Returns true if a counter stays within `most` after a plan adds `added` to it. If no plan of
    /// this operation was refused by this limit, returns true without reading the counter: the
    /// guard of the plan is the check.
    pub(crate) fn has_capacity(
        &mut self,
        key: &CounterKey,
        added: i64,
        most: i64,
    ) -> Result<bool, Halt> {
        if !self.known.full.contains(key) {
            return Ok(true);
        }
        Ok(self.counter(key)?.saturating_add(added) <= most)
    }

    /// Requests a record that may be needed next. It is read if the pass stops for another record.
    /// The result need not be known.
    pub(crate) fn prefetch(&mut self, key: Key) {
        self.ask(Read::Record { key, follow: None });
    }

    /// Returns true if a guard refused a plan of this operation before, because some hint or guess
    /// was wrong or a record has changed.
    pub(crate) fn was_refused(&self) -> bool {
        self.known.refused
    }

    /// Returns the key of a dentry in `directory`, as last seen, whose name is not `not`; `None` if
    /// none is known. It is only a hint, so it may be used for guards and never for answers.
    pub fn sibling(&mut self, directory: Ino, not: &[u8]) -> Option<Key> {
        let known = &mut *self.known;
        let requested = known.siblings.entry((directory, not.to_vec()));
        let sibling = requested.or_insert_with(|| self.hints.sibling(directory, not)).clone()?;
        // A record that this operation has read itself is newer than any hint.
        let gone = known.records.get(&sibling).or_else(|| known.stale.get(&sibling));
        if matches!(gone, Some(None)) {
            return None;
        }
        known.unverified = true;
        Some(sibling)
    }
}

impl Known {
    /// Starts a pass (a call of the planner): forgets the requests and the hints of the pass
    /// before.
    pub(crate) fn begin(&mut self) {
        self.recalled.clear();
        self.siblings.clear();
        self.begin_again();
    }

    /// Starts the same pass (call of the planner) again, with the same hints.
    pub(crate) fn begin_again(&mut self) {
        self.requested.clear();
        self.requested_once.clear();
        self.unverified = false;
    }

    /// Returns the reads for the next round trip: all that the pass requested, so that they are
    /// from one snapshot, or only the unknown ones if there are very many.
    pub(crate) fn needed(&self) -> Vec<Read> {
        if self.requested.len() <= REREAD_MAX {
            return self.requested();
        }
        self.requested.iter().filter(|read| !self.answers(read)).cloned().collect()
    }

    /// Returns true if the record of a read is known from any source, also as a hint, and the
    /// record to which it points, too. False for ranges and counters.
    fn answers(&self, read: &Read) -> bool {
        let Read::Record { key, follow } = read else { return false };
        match (self.record(key), follow) {
            (Some(Some(value)), Some(follow)) => {
                follow.target(value).is_none_or(|target| self.record(&target).is_some())
            }
            (record, _) => record.is_some(),
        }
    }

    fn record(&self, key: &Key) -> Option<&Option<Value>> {
        let learnt = self.records.get(key).or_else(|| self.stale.get(key));
        learnt.or_else(|| self.recalled.get(key)?.as_ref())
    }

    /// Returns all reads that the pass requested.
    pub(crate) fn requested(&self) -> Vec<Read> {
        self.requested.clone()
    }

    /// The number of different records and ranges that this operation has read, or by which a plan
    /// of it was refused. It grows if the operation learns something new.
    pub(crate) fn met(&self) -> usize {
        self.met.len()
    }

    /// Returns true if this operation has read the record or the range that begins at this key, or
    /// if a guard on it refused a plan.
    pub(crate) fn has_met(&self, key: &Key) -> bool {
        self.met.contains(key)
    }

    /// Returns true if the pass used a hint, a guess or a record of an earlier snapshot. Then its
    /// answer must be checked against one snapshot first.
    pub(crate) fn used_unverified(&self) -> bool {
        self.unverified
    }

    /// Takes the results of a round trip, which become the facts. The facts of earlier snapshots
    /// remain known as hints only.
    pub(crate) fn learn(&mut self, reads: Vec<Read>, found: Vec<ReadResult>) {
        // Facts must be from one snapshot, so those of the last one are only hints from now on. A
        // range cannot be a hint, because no guard covers all of it.
        self.stale.extend(self.records.drain());
        self.ranges.clear();
        self.counters.clear();
        for (read, found) in reads.into_iter().zip(found) {
            let (Read::Record { key, .. }
            | Read::Range { start: key, .. }
            | Read::Counter(CounterKey(key))) = &read;
            self.met.insert(key.clone());
            match (read, found) {
                (Read::Record { key, follow }, ReadResult::Record(entry)) => {
                    let target = entry.as_ref().zip(follow.as_ref());
                    if let Some((entry, follow)) = target
                        && let Some(target) = follow.target(&entry.value)
                    {
                        let record = match &entry.target {
                            Target::Whole(value) => Some(Some(value.clone())),
                            Target::Absent => Some(None),
                            // The first bytes of a record are not a fact about the record.
                            Target::Cut(_) => None,
                        };
                        self.records.extend(record.map(|record| (target, record)));
                    }
                    self.records.insert(key, entry.map(|entry| entry.value));
                }
                (Read::Counter(key), ReadResult::Counter(counter)) => {
                    self.counters.insert(key, counter);
                }
                (read @ Read::Range { .. }, ReadResult::Range(entries)) => {
                    for entry in &entries {
                        self.records.insert(entry.key.clone(), Some(entry.value.clone()));
                    }
                    self.ranges.insert(read, entries);
                }
                (read, found) => unreachable!("{found:?} does not answer {read:?}"),
            }
        }
    }

    /// Notes that a guard on this key refused a plan. `found` is the record that exists instead:
    /// `Some(None)` if the record is absent, and `None` if the guard was on a range, whose records
    /// are unknown.
    pub(crate) fn contradict(&mut self, key: Key, found: Option<Option<Value>>) {
        self.stale.extend(self.records.drain());
        self.ranges.clear();
        self.counters.clear();
        self.stale.remove(&key);
        self.met.insert(key.clone());
        self.refused = true;
        if let Some(found) = found {
            self.stale.insert(key, found);
        }
    }

    /// Notes that the limit of a counter refused a plan. The next pass reads the counter.
    pub(crate) fn note_full(&mut self, counter: CounterKey) {
        self.stale.extend(self.records.drain());
        self.ranges.clear();
        self.counters.clear();
        self.met.insert(counter.0.clone());
        self.refused = true;
        self.full.insert(counter);
    }

    /// Forgets all records, ranges and counters of the operation, so that it reads only facts from
    /// now on.
    pub(crate) fn discard(&mut self) {
        self.met.clear();
        self.stale.clear();
        self.records.clear();
        self.ranges.clear();
        self.counters.clear();
    }
}

/// The first key that sorts after this one.
pub(crate) fn after(key: &Key) -> Key {
    Key::from_bytes(Bytes::from([key.as_bytes(), &[0]].concat()))
}

/// Decodes a record. If that fails, stops the pass with its key.
pub(crate) fn decode<T, B: ?Sized>(
    key: &Key,
    value: &B,
    decode: impl FnOnce(&Key, &B) -> Result<T, DecodeError>,
) -> Result<T, Halt> {
    decode(key, value).map_err(|error| Halt::Corrupt(key.clone(), error))
}

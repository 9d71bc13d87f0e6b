//! What a planner knows: the facts of one snapshot, and hints.
//!
//! A *fact* was read by this operation; all facts of a view come from one snapshot. A *hint* is
//! remembered from before or guessed. A commit may rely on hints, because its guards check them. An
//! answer may not: before it answers, [`crate::Run`] reads all that the pass asked for once more,
//! in one round trip, and so turns every hint into a fact.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;

use bytes::Bytes;
use record::{DecodeError, Ino};
use store::{CounterKey, Entry, Follow, Key, Read, ReadResult, Target, Value};

use crate::Halt;

/// What is remembered from earlier operations. A hint may be wrong; then it costs a round trip.
pub trait Hints: Debug {
    /// The record as last seen: `Some(None)` when it was last seen to be absent.
    fn record(&self, key: &Key) -> Option<Option<Value>>;

    /// Some name in a directory besides `not`, as last seen.
    fn sibling(&self, directory: Ino, not: &[u8]) -> Option<Key>;
}

/// A record, and the one that it points to.
pub type Followed = (Value, Option<Value>);

/// Remembers nothing.
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

/// If an operation asks more questions than this, each read asks only for what is not known yet.
/// The rest is asked for once more before it answers, so that it answers from one snapshot. That is
/// one round trip more. Asking for everything each time would be work that grows with the square of
/// a path's depth.
const QUESTIONS_WHOLE_MAX: usize = 128;

/// What an operation has learnt so far, pass by pass.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// The last snapshot.
    records: HashMap<Key, Option<Value>>,
    ranges: HashMap<Read, Vec<Entry>>,
    counters: HashMap<CounterKey, i64>,
    /// What this operation learnt before the last snapshot: newer than the hints, but not verified
    /// any more.
    stale: HashMap<Key, Option<Value>>,
    /// What hints said in this pass. Hints change meanwhile, and a plan that used one must guard
    /// what it used, not what the hint says a moment later.
    recalled: HashMap<Key, Option<Option<Value>>>,
    /// The same of names besides others.
    siblings: HashMap<(Ino, Vec<u8>), Option<Key>>,
    /// Every record and range that was ever learnt of.
    met: HashSet<Key>,
    /// Whether a guard of this operation was refused.
    refused: bool,
    /// Counters that had no room for what this operation would have added.
    full: HashSet<CounterKey>,
    /// Everything this pass asked for, in order, each once.
    asked: Vec<Read>,
    /// The same, to tell what was asked for already.
    asked_once: HashSet<Read>,
    /// Whether this pass used anything unverified: a hint, a guess, or what an earlier snapshot
    /// said.
    unverified: bool,
}

/// What one planning pass may see, and what it asked for.
#[derive(Debug)]
pub struct View<'p> {
    hints: &'p dyn Hints,
    known: &'p mut Known,
}

impl<'p> View<'p> {
    /// What is known, and hints.
    pub(crate) fn new(hints: &'p dyn Hints, known: &'p mut Known) -> View<'p> {
        View { hints, known }
    }

    fn ask(&mut self, read: Read) {
        if self.known.asked_once.insert(read.clone()) {
            self.known.asked.push(read);
        }
    }

    /// The record if anything is known of it, and a note if that is unverified.
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

    /// The records under these keys. Those unknown are asked for all at once.
    pub fn records<const N: usize>(&mut self, keys: [&Key; N]) -> Result<[Option<Value>; N], Halt> {
        keys.iter().for_each(|key| self.ask(Read::Record { key: (*key).clone(), follow: None }));
        let found = keys.map(|key| self.known(key));
        if found.iter().any(Option::is_none) {
            return Err(Halt::Need);
        }
        Ok(found.map(Option::flatten))
    }

    /// The record under this key.
    pub fn record(&mut self, key: &Key) -> Result<Option<Value>, Halt> {
        self.records([key]).map(|[record]| record)
    }

    /// As [`View::record`] for any number of keys, in one round trip.
    pub fn many(&mut self, keys: &[Key]) -> Result<Vec<Option<Value>>, Halt> {
        keys.iter().for_each(|key| self.ask(Read::Record { key: key.clone(), follow: None }));
        keys.iter().map(|key| self.known(key)).collect::<Option<_>>().ok_or(Halt::Need)
    }

    /// The record under each key and the whole one that it points to, in one round trip.
    ///
    /// # Panics
    /// If the follow has a bound: the beginning of a record is no fact about the record.
    pub fn followed(
        &mut self,
        keys: &[Key],
        follow: &Follow,
    ) -> Result<Vec<Option<Followed>>, Halt> {
        assert!(follow.most.is_none(), "what is followed is asked for whole");
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

    /// The record as known, and `guess` when nothing is known. Never stops the pass: a wrong guess
    /// is refused by a guard, which then also tells what is there. The pass goes on believing that
    /// the record is there if it guessed so.
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

    /// Whether the store has refused a plan of this operation because the record is there.
    pub(crate) fn contradicted(&self, key: &Key) -> bool {
        matches!(self.known.stale.get(key), Some(Some(_)))
    }

    /// The first `limit` records of a range.
    pub fn range(&mut self, start: Key, end: Key, limit: u32) -> Result<Vec<Entry>, Halt> {
        let range = Read::Range { start, end, limit, follow: None };
        self.ranges(&[range]).map(|ranges| ranges.into_iter().flatten().collect())
    }

    /// The records of several ranges, in one round trip.
    ///
    /// # Panics
    /// If a read is not a range.
    pub fn ranges(&mut self, reads: &[Read]) -> Result<Vec<Vec<Entry>>, Halt> {
        for read in reads {
            assert!(matches!(read, Read::Range { .. }), "only ranges are asked for here");
            self.ask(read.clone());
        }
        reads.iter().map(|read| self.known.ranges.get(read).cloned().ok_or(Halt::Need)).collect()
    }

    /// A counter.
    pub fn counter(&mut self, key: &CounterKey) -> Result<i64, Halt> {
        self.ask(Read::Counter(key.clone()));
        self.known.counters.get(key).copied().ok_or(Halt::Need)
    }

    /// Whether a counter has room for what a plan adds to it, as far as that must be known: a plan that
    /// was never refused for want of room leaves it to its guard.
    pub(crate) fn has_room(
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

    /// Asks for a record that may be wanted next, if there is a read anyway. Nothing depends on it.
    pub(crate) fn suggest(&mut self, key: Key) {
        self.ask(Read::Record { key, follow: None });
    }

    /// Whether a guard of this operation was refused: what hints and guesses say is not as it was
    /// thought to be.
    pub(crate) fn was_refused(&self) -> bool {
        self.known.refused
    }

    /// Some name in a directory besides `not`, as last seen: for a guard, never for an answer.
    pub fn sibling(&mut self, directory: Ino, not: &[u8]) -> Option<Key> {
        let known = &mut *self.known;
        let asked = known.siblings.entry((directory, not.to_vec()));
        let sibling = asked.or_insert_with(|| self.hints.sibling(directory, not)).clone()?;
        // What this operation has seen itself is newer than any hint.
        let gone = known.records.get(&sibling).or_else(|| known.stale.get(&sibling));
        if matches!(gone, Some(None)) {
            return None;
        }
        known.unverified = true;
        Some(sibling)
    }
}

impl Known {
    /// Begins a pass.
    pub(crate) fn begin(&mut self) {
        self.recalled.clear();
        self.siblings.clear();
        self.begin_again();
    }

    /// Begins the same pass again, with the same hints.
    pub(crate) fn begin_again(&mut self) {
        self.asked.clear();
        self.asked_once.clear();
        self.unverified = false;
    }

    /// What the pass asked for and needs: all of it, so that it is of one snapshot, unless that is
    /// very much.
    pub(crate) fn needed(&self) -> Vec<Read> {
        if self.asked.len() <= QUESTIONS_WHOLE_MAX {
            return self.asked();
        }
        self.asked.iter().filter(|read| !self.answers(read)).cloned().collect()
    }

    /// Whether anything is known that answers a question.
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

    /// What the pass asked for.
    pub(crate) fn asked(&self) -> Vec<Read> {
        self.asked.clone()
    }

    /// How many records and ranges this operation has met.
    pub(crate) fn met(&self) -> usize {
        self.met.len()
    }

    /// Returns true if this operation has learnt of the record or range.
    pub(crate) fn has_met(&self, key: &Key) -> bool {
        self.met.contains(key)
    }

    /// Whether the pass used anything that is not a fact.
    pub(crate) fn used_unverified(&self) -> bool {
        self.unverified
    }

    /// Takes a snapshot's answers. What was known before is unverified from now on.
    pub(crate) fn learn(&mut self, reads: Vec<Read>, found: Vec<ReadResult>) {
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
                            // The beginning of a record is no fact about the record.
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

    /// Takes note that a guard did not hold, and of what was there instead.
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

    /// Takes note that a counter had no room. What it is now is to be read.
    pub(crate) fn filled(&mut self, counter: CounterKey) {
        self.stale.extend(self.records.drain());
        self.ranges.clear();
        self.counters.clear();
        self.met.insert(counter.0.clone());
        self.refused = true;
        self.full.insert(counter);
    }

    /// Forgets everything but what a hint-free read would tell.
    pub(crate) fn distrust(&mut self) {
        self.met.clear();
        self.stale.clear();
        self.records.clear();
        self.ranges.clear();
        self.counters.clear();
    }
}

/// The first key behind this one.
pub(crate) fn after(key: &Key) -> Key {
    Key::from_bytes(Bytes::from([key.as_bytes(), &[0]].concat()))
}

/// Decodes a record, or halts with its key.
pub(crate) fn decode<T, B: ?Sized>(
    key: &Key,
    value: &B,
    decode: impl FnOnce(&Key, &B) -> Result<T, DecodeError>,
) -> Result<T, Halt> {
    decode(key, value).map_err(|error| Halt::Corrupt(key.clone(), error))
}

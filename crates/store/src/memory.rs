//! The reference engine: two ordered maps behind one mutex.
//!
//! Its simplicity defines the contract, and the conformance suite compares the other engines with
//! it. Each call holds the mutex from beginning to end. So a read is one snapshot, and no other
//! commit runs during a batch. The records are lost at the end of the process. For example, the
//! tests of planners use this engine.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;

use crate::feed::{self, FEED_BATCHES};
use crate::{
    Changes, CounterKey, CounterPage, Durability, Entry, Follow, Guard, Key, Limits, MetaStore,
    Page, Plan, Position, Read, ReadResult, Snapshot, Space, StoreError, StoreErrorKind, Target,
    Value, Verdict, Write,
};

const LIMITS: Limits = Limits {
    key_bytes: 1_100 + Key::PREFIX_BYTES,
    value_bytes: 1 << 20,
    plan_items: 8_192,
    plan_bytes: 4 << 20,
    batch_plans: 256,
    batch_items: 16_384,
    batch_bytes: 16 << 20,
    reads: 4_096,
    range_records: 10_000,
    commits_in_flight: 1,
    // A read does not wait for anything, so reads that wait for it would save nothing.
    reads_in_flight: usize::MAX,
    // No other process can reach the memory of this one.
    serves_one: true,
};

/// A store in the memory of this process.
#[derive(Debug, Default)]
pub struct MemoryStore {
    maps: Mutex<Maps>,
}

#[derive(Debug, Default)]
struct Maps {
    records: BTreeMap<Key, Value>,
    counters: BTreeMap<CounterKey, i64>,
    feed: Feed,
    closed: bool,
}

/// The change feed: the keys of the records that each of the latest batches changed.
#[derive(Debug, Default)]
struct Feed {
    entries: VecDeque<Bytes>,
    /// Number of batches whose entries were dropped. This is also the position of the oldest entry.
    dropped_count: u64,
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    fn open(&self, doing: &str) -> Result<MutexGuard<'_, Maps>, StoreError> {
        // A panic cannot leave a plan half done: no code under the mutex panics between two writes
        // of one plan. So a poisoned mutex is still usable.
        let maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        if maps.closed {
            return Err(StoreError::new(
                StoreErrorKind::Unavailable,
                format!("{doing}: the store is closed"),
            ));
        }
        Ok(maps)
    }
}

#[async_trait]
impl MetaStore for MemoryStore {
    fn limits(&self) -> Limits {
        LIMITS
    }

    fn durability(&self) -> Durability {
        Durability::None
    }

    fn shortage(&self) -> Option<String> {
        None
    }

    async fn read(&self, reads: &[Read]) -> Result<Vec<ReadResult>, StoreError> {
        LIMITS.check_read(reads)?;
        let maps = self.open("reading")?;
        Ok(reads.iter().map(|read| maps.answer(read)).collect())
    }

    async fn commit(&self, plans: &[Plan]) -> Result<Vec<Verdict>, StoreError> {
        LIMITS.check_commit(plans)?;
        let mut maps = self.open("committing")?;
        let verdicts: Vec<_> = plans.iter().map(|plan| maps.decide(plan)).collect();
        let pieces = feed::pieces(plans);
        let committed = pieces.iter().zip(&verdicts);
        let committed = committed.filter(|(_, verdict)| **verdict == Verdict::Committed);
        let entry: Vec<u8> = committed.flat_map(|(piece, _)| piece).copied().collect();
        maps.feed.push(entry.into());
        Ok(verdicts)
    }

    async fn walk(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        let maps = self.open("walking over records")?;
        let mut records: Vec<(Key, Value)> = maps
            .records
            .range(walk_start(space, resume)?..)
            .take_while(|(key, _)| key.space() == space)
            .take(LIMITS.page(limit) + 1)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let more = records.len() > LIMITS.page(limit);
        let next = if more { records.pop() } else { None };
        Ok(Page { records, resume: next.map(|(key, _)| key.to_bytes()) })
    }

    async fn walk_counters(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<CounterPage, StoreError> {
        let maps = self.open("walking over counters")?;
        let mut counters: Vec<(CounterKey, i64)> = maps
            .counters
            .range(CounterKey(walk_start(space, resume)?)..)
            .take_while(|(CounterKey(key), _)| key.space() == space)
            .take(LIMITS.page(limit) + 1)
            .map(|(key, value)| (key.clone(), *value))
            .collect();
        let more = counters.len() > LIMITS.page(limit);
        let next = if more { counters.pop() } else { None };
        Ok(CounterPage { counters, resume: next.map(|(CounterKey(key), _)| key.to_bytes()) })
    }

    async fn changes(&self, since: Option<&Position>) -> Result<Changes, StoreError> {
        self.open("reading the change feed")?.feed.since(since)
    }

    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError> {
        let maps = self.open("taking a snapshot")?;
        let counters = maps.counters.iter().filter(|(_, number)| **number != 0);
        Ok(Box::new(MemorySnapshot {
            records: maps.records.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
            counters: counters.map(|(key, number)| (key.clone(), *number)).collect(),
        }))
    }

    async fn close(&self) {
        self.maps.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
    }
}

/// A copy of both maps of a store, which uses the same memory for the records' bytes. Pages are
/// taken from its front.
#[derive(Debug)]
struct MemorySnapshot {
    records: VecDeque<(Key, Value)>,
    counters: VecDeque<(CounterKey, i64)>,
}

#[async_trait]
impl Snapshot for MemorySnapshot {
    async fn records(&mut self, limit: u32) -> Result<Vec<(Key, Value)>, StoreError> {
        let page = LIMITS.page(limit).min(self.records.len());
        Ok(self.records.drain(..page).collect())
    }

    async fn counters(&mut self, limit: u32) -> Result<Vec<(CounterKey, i64)>, StoreError> {
        let page = LIMITS.page(limit).min(self.counters.len());
        Ok(self.counters.drain(..page).collect())
    }
}

impl Feed {
    fn push(&mut self, entry: Bytes) {
        if entry.is_empty() {
            return;
        }
        if self.entries.len() == FEED_BATCHES {
            self.entries.pop_front();
            self.dropped_count += 1;
        }
        self.entries.push_back(entry);
    }

    /// Returns the changes since a position, which is the number of batches before it.
    fn since(&self, since: Option<&Position>) -> Result<Changes, StoreError> {
        let now = self.dropped_count + self.entries.len() as u64;
        let next = Position(Bytes::copy_from_slice(&now.to_be_bytes()));
        let Some(since) = since else { return Ok(Changes::Notified { keys: Vec::new(), next }) };
        let malformed = |_| StoreError::new(StoreErrorKind::Malformed, "reading a position");
        let since = u64::from_be_bytes(since.0[..].try_into().map_err(malformed)?);
        let seen =
            since.checked_sub(self.dropped_count).and_then(|seen| usize::try_from(seen).ok());
        match seen {
            Some(seen) if seen <= self.entries.len() => {
                feed::decode(self.entries.iter().skip(seen).cloned(), next)
            }
            _ => Ok(Changes::Gap { next }),
        }
    }
}

fn walk_start(space: Space, resume: Option<Bytes>) -> Result<Key, StoreError> {
    match resume {
        None => Ok(Key::new(space, 0, b"")),
        Some(bytes) if bytes.len() >= Key::PREFIX_BYTES => Ok(Key::from_bytes(bytes)),
        Some(_) => Err(StoreError::new(StoreErrorKind::Malformed, "resuming a walk")),
    }
}

impl Maps {
    fn answer(&self, read: &Read) -> ReadResult {
        match read {
            Read::Record { key, follow } => ReadResult::Record(
                self.records.get_key_value(key).map(|found| self.entry(found, follow.as_ref())),
            ),
            Read::Range { start, end, limit, follow } => ReadResult::Range(
                self.records
                    .range(start..end)
                    .take(usize::try_from(*limit).unwrap_or(usize::MAX))
                    .map(|found| self.entry(found, follow.as_ref()))
                    .collect(),
            ),
            Read::Counter(key) => ReadResult::Counter(self.counters.get(key).copied().unwrap_or(0)),
        }
    }

    fn entry(&self, (key, value): (&Key, &Value), follow: Option<&Follow>) -> Entry {
        let target = follow.map_or(Target::Absent, |follow| {
            let record = follow.target(value).and_then(|target| self.records.get(&target));
            follow.to_target(record.cloned())
        });
        Entry { key: key.clone(), value: value.clone(), target }
    }

    fn decide(&mut self, plan: &Plan) -> Verdict {
        for (index, guard) in plan.guards.iter().enumerate() {
            if let Err(found) = self.holds(plan, guard) {
                return Verdict::Refused { guard: index, found };
            }
        }
        for write in &plan.writes {
            self.apply(write);
        }
        Verdict::Committed
    }

    /// Checks a guard. Fails if it does not hold, with the record that a guard `Equals` or `Absent`
    /// found, if there is one.
    fn holds(&self, plan: &Plan, guard: &Guard) -> Result<(), Option<Value>> {
        let (holds, found) = match guard {
            Guard::Equals(key, value) => {
                let found = self.records.get(key);
                (found == Some(value), found)
            }
            Guard::Absent(key) => {
                let found = self.records.get(key);
                (found.is_none(), found)
            }
            Guard::Present(key) => (self.records.contains_key(key), None),
            Guard::Empty(start, end) => (self.records.range(start..end).next().is_none(), None),
            Guard::AtMost(counter, most) => {
                let now = self.counters.get(counter).copied().unwrap_or(0);
                (now <= plan.limit_before(counter, *most), None)
            }
        };
        if holds { Ok(()) } else { Err(found.cloned()) }
    }

    fn apply(&mut self, write: &Write) {
        match write {
            Write::Put(key, value) => {
                self.records.insert(key.clone(), value.clone());
            }
            Write::Delete(key) => {
                self.records.remove(key);
            }
            Write::Add(key, by) => {
                let counter = self.counters.entry(key.clone()).or_default();
                *counter = counter.saturating_add(*by);
            }
            Write::Max(key, least) => {
                let counter = self.counters.entry(key.clone()).or_default();
                *counter = (*counter).max(*least);
            }
            Write::Set(key, value) => {
                self.counters.insert(key.clone(), *value);
            }
            Write::Clear(key) => {
                self.counters.remove(key);
            }
        }
    }
}

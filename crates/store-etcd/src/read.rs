//! Reads: one transaction of gets, and a second one for targets.
//!
//! A transaction of gets is linearizable, and all of its answers are of one revision. The targets
//! of follows are asked for at that revision, from the same member, which need not ask the leader
//! again. This process remembers the last target of each record that it followed, and asks for that
//! target in the first transaction too. So a repeated lookup takes one round trip.
//!
//! For example, the lookup of a directory entry and its inode takes two round trips the first time,
//! and one the next time, also if the inode has changed.

use std::collections::HashMap;

use bytes::Bytes;
use futures::future::try_join_all;
use store::{
    CounterChange, CounterKey, Entry, Follow, Key, Read, ReadResult, StoreError, Target, Value,
};

use crate::counters::{CELLS_MAX, Cells, CounterWrites, change_known};
use crate::error::{Effect, garbled, is_compacted, of, unavailable};
use crate::rpc::{KeyValue, Range, Step, TXN, Txn, TxnAnswer};
use crate::shared::Shared;

/// Number of targets in one request. More targets go in several requests at the same time.
const TARGETS: usize = 512;

/// Limit of the tries of a read whose revision is compacted before its second request.
const TRIES: u32 = 4;

const DOING: &str = "reading from etcd";

/// The answers of one transaction of gets.
struct Answers {
    revision: i64,
    ranges: std::vec::IntoIter<Vec<KeyValue>>,
}

impl Answers {
    fn of(answer: TxnAnswer) -> Result<Answers, StoreError> {
        let revision = answer.revision();
        let kvs = |step: crate::rpc::StepAnswer| Ok(step.range.ok_or_else(|| garbled(DOING))?.kvs);
        let ranges: Result<Vec<_>, StoreError> = answer.answers.into_iter().map(kvs).collect();
        Ok(Answers { revision, ranges: ranges?.into_iter() })
    }

    fn next(&mut self) -> Result<Vec<KeyValue>, StoreError> {
        self.ranges.next().ok_or_else(|| garbled(DOING))
    }

    fn record(&mut self) -> Result<Option<Value>, StoreError> {
        Ok(self.next()?.into_iter().next().map(|kv| kv.value))
    }
}

/// The targets that are known at the revision of a read.
type Targets = HashMap<Key, Option<Value>>;

/// A record that a read found, and the key of its target.
struct Found {
    key: Key,
    value: Value,
    target: Option<Key>,
}

/// The answer to one question before its targets are known.
enum Half {
    Record(Option<Found>),
    Range(Vec<Found>),
    Counter(i64),
}

/// Answers all questions from one revision.
pub(crate) async fn read(shared: &Shared, reads: &[Read]) -> Result<Vec<ReadResult>, StoreError> {
    if reads.is_empty() {
        return Ok(Vec::new());
    }
    for _ in 0..TRIES {
        if let Some(results) = try_read(shared, reads).await? {
            return Ok(results);
        }
    }
    Err(unavailable("reading from etcd: its history was compacted between two requests each time"))
}

/// Answers all questions from one revision. Returns `None` if that revision was compacted before
/// the targets were read.
async fn try_read(shared: &Shared, reads: &[Read]) -> Result<Option<Vec<ReadResult>>, StoreError> {
    let guesses: Vec<Option<Key>> = reads.iter().map(|read| guess(shared, read)).collect();
    let mut steps: Vec<Step> = reads.iter().map(|read| question(shared, read)).collect();
    let targets = guesses.iter().flatten().map(|key| Range::one(shared.keys.record(key)));
    steps.extend(targets.map(Step::range));
    let mut answers = ask(shared, steps).await?;
    let mut halves = Vec::with_capacity(reads.len());
    for read in reads {
        halves.push(half(shared, read, &mut answers)?);
    }
    let mut targets = Targets::new();
    for key in guesses.into_iter().flatten() {
        targets.insert(key, answers.record()?);
    }
    let missing = missing(&halves, &targets);
    if !fetch(shared, missing, answers.revision, &mut targets).await? {
        return Ok(None);
    }
    let both = reads.iter().zip(halves);
    Ok(Some(both.map(|(read, half)| whole(shared, read, half, &targets)).collect()))
}

async fn ask(shared: &Shared, steps: Vec<Step>) -> Result<Answers, StoreError> {
    let txn = Txn { compare: Vec::new(), success: steps, failure: Vec::new() };
    Answers::of(shared.members.ask(TXN, &txn, DOING).await?)
}

/// Returns the last target of the record of a question.
fn guess(shared: &Shared, read: &Read) -> Option<Key> {
    match read {
        Read::Record { key, follow: Some(_) } => shared.guesses.get(key),
        Read::Record { follow: None, .. } | Read::Range { .. } | Read::Counter(_) => None,
    }
}

fn question(shared: &Shared, read: &Read) -> Step {
    let keys = &shared.keys;
    Step::range(match read {
        Read::Record { key, .. } => Range::one(keys.record(key)),
        Read::Range { limit: 0, start, .. } => Range {
            // A range of no records: etcd takes a limit of 0 for no limit.
            ..Range::between((keys.record(start), keys.record(start)), 1)
        },
        Read::Range { start, end, limit, .. } => {
            Range::between(keys.records(start, end), i64::from(*limit))
        }
        Read::Counter(counter) => Range::between(keys.cells(counter), 0),
    })
}

fn half(shared: &Shared, read: &Read, answers: &mut Answers) -> Result<Half, StoreError> {
    let target =
        |follow: &Option<Follow>, value: &Value| follow.as_ref().and_then(|it| it.target(value));
    Ok(match read {
        Read::Record { key, follow } => Half::Record(answers.record()?.map(|value| Found {
            key: key.clone(),
            target: target(follow, &value),
            value,
        })),
        Read::Range { follow, .. } => {
            let found = |kv: KeyValue| {
                let key = shared.keys.to_record(&kv.key).ok_or_else(|| garbled(DOING))?;
                Ok(Found { key, target: target(follow, &kv.value), value: kv.value })
            };
            let found: Result<Vec<Found>, StoreError> =
                answers.next()?.into_iter().map(found).collect();
            Half::Range(found?)
        }
        Read::Counter(counter) => {
            let cells = Cells::parse(&shared.keys, answers.next()?)?;
            if cells.len() > CELLS_MAX {
                shared.fold_later(vec![(counter.clone(), cells.clone())], answers.revision);
            }
            Half::Counter(cells.total())
        }
    })
}

fn missing(halves: &[Half], targets: &Targets) -> Vec<Key> {
    let found = halves.iter().flat_map(|half| match half {
        Half::Record(Some(found)) => std::slice::from_ref(found),
        Half::Range(found) => found,
        Half::Record(None) | Half::Counter(_) => &[],
    });
    let mut keys: Vec<Key> =
        found.filter_map(|it| it.target.clone()).filter(|key| !targets.contains_key(key)).collect();
    keys.sort();
    keys.dedup();
    keys
}

/// Asks for targets at a revision. Returns false if it was compacted.
async fn fetch(
    shared: &Shared,
    missing: Vec<Key>,
    revision: i64,
    targets: &mut Targets,
) -> Result<bool, StoreError> {
    let ask_some = async |keys: &[Key]| {
        let get = |key: &Key| {
            let range = Range::one(shared.keys.record(key));
            Step::range(Range { revision, serializable: true, ..range })
        };
        let success = keys.iter().map(get).collect();
        let txn = Txn { compare: Vec::new(), success, failure: Vec::new() };
        let asked: Result<TxnAnswer, _> = shared.members.try_ask(TXN, &txn).await;
        let mut answers = match asked {
            Ok(answer) => Answers::of(answer)?,
            Err(status) if is_compacted(&status) => return Ok(None),
            Err(status) => return Err(of(&status, DOING, Effect::None)),
        };
        let pair = |key: &Key| Ok((key.clone(), answers.record()?));
        keys.iter().map(pair).collect::<Result<Vec<_>, StoreError>>().map(Some)
    };
    let found = try_join_all(missing.chunks(TARGETS).map(ask_some)).await?;
    let Some(found) = found.into_iter().collect::<Option<Vec<_>>>() else { return Ok(false) };
    targets.extend(found.into_iter().flatten());
    Ok(true)
}

fn whole(shared: &Shared, read: &Read, half: Half, targets: &Targets) -> ReadResult {
    let follow = match read {
        Read::Record { follow, .. } | Read::Range { follow, .. } => follow.as_ref(),
        Read::Counter(_) => None,
    };
    let entry = |found: Found| {
        let target = match (follow, &found.target) {
            (Some(follow), Some(key)) => {
                follow.to_target(targets.get(key).and_then(Option::as_ref).map(unshared))
            }
            (Some(_) | None, _) => Target::Absent,
        };
        Entry { key: found.key, value: unshared(&found.value), target }
    };
    match half {
        Half::Record(found) => {
            if let Some(Found { key, target: Some(target), .. }) = &found {
                shared.guesses.learn(key, target);
            }
            ReadResult::Record(found.map(entry))
        }
        Half::Range(found) => ReadResult::Range(found.into_iter().map(entry).collect()),
        Half::Counter(number) => ReadResult::Counter(number),
    }
}

/// Copies a value out of the answer that contains it. Otherwise a small value that a cache keeps
/// would keep the whole answer in memory.
fn unshared(value: &Bytes) -> Bytes {
    Bytes::copy_from_slice(value)
}

impl Shared {
    /// Folds counters that have many cells, unless others are being folded. A counter whose cells
    /// have changed since the revision is left alone.
    pub(crate) fn fold_later(&self, counters: Vec<(CounterKey, Cells)>, revision: i64) {
        let Some(shared) = self.this.upgrade().filter(|_| !counters.is_empty()) else { return };
        self.tasks.spawn(async move {
            let Ok(_folding) = shared.folding.try_lock() else { return };
            for (counter, cells) in counters {
                if shared.closed.is_cancelled() {
                    return;
                }
                shared.fold(&counter, &cells, revision).await;
            }
        });
    }

    async fn fold(&self, counter: &CounterKey, cells: &Cells, revision: i64) {
        let mut writes = CounterWrites::default();
        let none = CounterChange::By { add: 0, floor: None };
        change_known(&self.keys, counter, none, (cells, revision), &mut writes);
        let (compare, success) =
            (std::mem::take(&mut writes.compare), std::mem::take(&mut writes.steps));
        let txn = Txn { compare, success, failure: Vec::new() };
        let answer = self.members.commit(&txn, "folding a counter").await;
        match answer {
            Ok(answer) if answer.succeeded => self.cells.committed(writes, answer.revision()),
            // Another process has changed or folded it.
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "folding a counter"),
        }
    }
}

//! Random concurrent reads and batches over a slow store: a read sees the commits that were
//! acknowledged before it, no value that was never written, and one instant.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use record::key::CounterKind;
use record::{Ino, key};
use runtime::Tasks;
use store::{CounterKey, Key, MetaStore, Plan, Read, ReadResult, Verdict, Write};

use super::super::{Basis, RecordCache};
use super::behind;
use super::complete_directories::{self as names, adds, makes};
use super::currency::for_long;
use crate::cached_store::CachedStore;
use crate::slow_store::Slow;
use crate::state::value;

/// Pairs of records that are always written together.
const PAIRS: u64 = 3;

/// The script of each task.
const STEPS: u64 = 400;

const TASKS: u64 = 6;

/// How often a pair is written while it is looked up.
const WRITES: u64 = 20_000;

/// A pair, its counters, and the greatest number that its writes were acknowledged with.
struct Pair {
    keys: [Key; 2],
    /// One is raised to each number, one is added up to it.
    counters: [CounterKey; 2],
    acknowledged: AtomicU64,
    drawn: AtomicU64,
}

impl Pair {
    fn new(n: u64) -> Pair {
        let kinds = [CounterKind::Modified, CounterKind::Entries];
        Pair {
            keys: [key::inode(Ino(n)), key::dentry(Ino(n), b"name")],
            counters: kinds.map(|kind| key::counter(Ino(n), kind)),
            acknowledged: AtomicU64::new(0),
            drawn: AtomicU64::new(0),
        }
    }

    fn reads(&self) -> Vec<Read> {
        let records = self.keys.iter().map(|key| Read::Record { key: key.clone(), follow: None });
        records.chain(self.counters.iter().cloned().map(Read::Counter)).collect()
    }

    /// Returns the number after the one that was found.
    fn writes(&self, was: u64, next: u64) -> Vec<Write> {
        let [raised, added] = self.counters.clone();
        let value = Bytes::copy_from_slice(&next.to_be_bytes());
        let [was, next] = [was, next].map(u64::cast_signed);
        let put = |key: &Key| Write::Put(key.clone(), value.clone());
        let counted = [Write::Max(raised, next), Write::Add(added, next - was)];
        self.keys.iter().map(put).chain(counted).collect()
    }

    /// The number that all records and counters say.
    fn number(found: &[ReadResult]) -> u64 {
        let all: Vec<u64> = found.iter().map(|found| number(Some(found))).collect();
        assert!(all.iter().all(|number| *number == all[0]), "{all:?} were never different");
        all[0]
    }
}

fn number(found: Option<&ReadResult>) -> u64 {
    if let Some(ReadResult::Counter(number)) = found {
        return number.cast_unsigned();
    }
    let Some(value) = value(found) else { return 0 };
    u64::from_be_bytes(value[..].try_into().expect("eight bytes"))
}

/// Reads records and counters; answers how many times the memory did.
async fn read(pair: &Pair, cached: &CachedStore, cache: &RecordCache) -> u64 {
    let reads = pair.reads();
    let least = pair.acknowledged.load(Ordering::SeqCst);
    let known = u64::from(cache.answer(&reads).is_some());
    let found = cached.read(&reads).await.expect("reads do not fail");
    let one = Pair::number(&found);
    assert!(one >= least, "{one} is older than {least}, which was acknowledged");
    known
}

/// Writes the next number to both, if they have a smaller one.
async fn write(pair: &Pair, cached: &CachedStore) {
    let next = pair.drawn.fetch_add(1, Ordering::SeqCst) + 1;
    let reads = pair.keys.clone().map(|key| Read::Record { key, follow: None });
    let found = cached.read(&reads).await.expect("reads do not fail");
    let was = value(found.first());
    if number(found.first()) >= next {
        return;
    }
    let guard = |key: &Key| match &was {
        Some(value) => store::Guard::Equals(key.clone(), value.clone()),
        None => store::Guard::Absent(key.clone()),
    };
    let plan = Plan {
        guards: pair.keys.iter().map(guard).collect(),
        writes: pair.writes(number(found.first()), next),
    };
    if let Ok(verdicts) = cached.commit(&[plan]).await
        && verdicts[..] == [Verdict::Committed]
    {
        pair.acknowledged.fetch_max(next, Ordering::SeqCst);
    }
}

/// Answers how many reads were answered from memory.
async fn play(seed: u64) -> u64 {
    let spawner = Tasks::new();
    let store = Arc::new(Slow::new(seed, spawner.clone()));
    // Room for some of the records only, in some of the games.
    let cache = RecordCache::new(if seed.is_multiple_of(3) { 1_200 } else { 1 << 20 }, true);
    cache.extend_authority(for_long(), Basis::Alone);
    let cached = Arc::new(behind(&cache, store));
    let pairs: Arc<Vec<Pair>> = Arc::new((0..PAIRS).map(Pair::new).collect());
    let tasks = (0..TASKS).map(|task| {
        let (pairs, cached, cache) = (pairs.clone(), cached.clone(), cache.clone());
        let mut random = SmallRng::seed_from_u64(seed * TASKS + task);
        spawner.spawn("player", async move {
            let mut known = 0;
            for _ in 0..STEPS {
                let pair = &pairs[random.random_range(0..pairs.len())];
                match random.random_range(0..10) {
                    0 | 1 => write(pair, &cached).await,
                    2 => cache.forget(&pair.keys[0]),
                    3 if random.random_bool(0.1) => {
                        cache.end_authority();
                        cache.extend_authority(for_long(), Basis::Alone);
                    }
                    _ => known += read(pair, &cached, &cache).await,
                }
                tokio::task::yield_now().await;
            }
            known
        })
    });
    let mut known = 0;
    for task in tasks.collect::<Vec<_>>() {
        known += task.await.expect("no task panics");
    }
    known
}

#[tokio::test]
async fn reads_see_acknowledged_commits_at_one_instant() {
    let mut known = 0;
    for seed in 0..60 {
        known += play(seed).await;
    }
    assert!(known > 10_000, "the memory answered {known} reads only");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_on_two_threads_see_acknowledged_commits() {
    for seed in 100..130 {
        play(seed).await;
    }
}

/// Two threads look both records of a pair up while a third one writes them again and again.
#[test]
fn answers_of_several_records_are_of_one_instant() {
    let cache = RecordCache::new(1 << 20, true);
    cache.extend_authority(for_long(), Basis::Alone);
    let pair = Pair::new(1);
    let over = AtomicBool::new(false);
    for counter in &pair.counters {
        let reads = [Read::Counter(counter.clone())];
        cache.begin_read().found(&reads, &[ReadResult::Counter(0)]);
    }
    let look = || {
        let reads = pair.reads();
        let (mut known, mut last) = (0_u64, 0);
        while !over.load(Ordering::Relaxed) {
            let Some(found) = cache.answer(&reads) else { continue };
            let one = Pair::number(&found);
            assert!(one >= last, "{one} is older than {last}");
            (known, last) = (known + 1, one);
        }
        known
    };
    let known = std::thread::scope(|scope| {
        let looking = [scope.spawn(look), scope.spawn(look)];
        for next in 1..=WRITES {
            let plans = [Plan { guards: Vec::new(), writes: pair.writes(next - 1, next) }];
            cache.begin_batch(&plans).decided(&plans, &[Verdict::Committed]);
            std::thread::yield_now();
        }
        over.store(true, Ordering::Relaxed);
        looking.map(|look| look.join().expect("nothing torn was seen"))
    });
    assert!(known.iter().sum::<u64>() > WRITES / 10, "{known:?} answers only");
}

/// Directories that are created during the test, and names that some of them get.
const DIRECTORIES: u64 = 8;
const NAMES: usize = 12;

/// Answers how often the memory said that a name is not there.
async fn play_with_names(seed: u64) -> u64 {
    let spawner = Tasks::new();
    let store = Arc::new(Slow::new(seed, spawner.clone()));
    let cache = RecordCache::new(if seed.is_multiple_of(3) { 12_000 } else { 1 << 20 }, true);
    cache.extend_authority(for_long(), Basis::Alone);
    let cached = Arc::new(behind(&cache, store));
    let acknowledged: Arc<Vec<[AtomicBool; NAMES]>> =
        Arc::new((0..DIRECTORIES).map(|_| [const { AtomicBool::new(false) }; NAMES]).collect());
    let tasks = (0..TASKS).map(|task| {
        let (acknowledged, cached, cache) = (acknowledged.clone(), cached.clone(), cache.clone());
        let mut random = SmallRng::seed_from_u64(seed * TASKS + task);
        spawner.spawn("player", async move {
            let mut known = 0;
            for step in 0..STEPS {
                // They come into being one after the other.
                let newest = (step * DIRECTORIES / STEPS) + 1;
                let at = random.random_range(0..newest);
                let (directory, name) = (Ino(10 + at), random.random_range(0..NAMES));
                let said = name.to_string();
                let is_there = &acknowledged[usize::try_from(at).expect("few")][name];
                match random.random_range(0..10) {
                    0 | 1 => {
                        let plans = [makes(directory, &[]), adds(directory, &said)];
                        let add = random.random_range(0..2);
                        if let Ok(verdicts) = cached.commit(&plans[add..]).await
                            && verdicts.last() == Some(&Verdict::Committed)
                        {
                            is_there.store(true, Ordering::SeqCst);
                        }
                    }
                    2 if random.random_bool(0.02) => {
                        cache.end_authority();
                        cache.extend_authority(for_long(), Basis::Alone);
                    }
                    _ => {
                        let was_there = is_there.load(Ordering::SeqCst);
                        let found = names::known(&cache, directory, &said);
                        known += u64::from(found == Some(false));
                        assert!(!was_there || found != Some(false), "{said} was acknowledged");
                        let was_there = is_there.load(Ordering::SeqCst);
                        let asked = key::dentry(directory, said.as_bytes());
                        let asked = [Read::Record { key: asked, follow: None }];
                        let found = cached.read(&asked).await.expect("reads do not fail");
                        assert!(!was_there || value(found.first()).is_some(), "{said} is lost");
                    }
                }
                tokio::task::yield_now().await;
            }
            known
        })
    });
    let mut known = 0;
    for task in tasks.collect::<Vec<_>>() {
        known += task.await.expect("no task panics");
    }
    known
}

#[tokio::test]
async fn no_acknowledged_name_is_answered_as_absent() {
    let mut known = 0;
    for seed in 0..20 {
        known += play_with_names(seed).await;
    }
    assert!(known > 1_000, "the memory said {known} times only that a name is not there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_name_is_absent_on_two_threads() {
    for seed in 100..110 {
        play_with_names(seed).await;
    }
}

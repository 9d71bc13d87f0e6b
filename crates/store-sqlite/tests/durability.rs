//! After `kill -9`, all acknowledged commits exist, and no commit exists in part.
//!
//! This program runs itself again as the victim. The victim commits in several tasks concurrently
//! and prints the number of each commit when it is acknowledged. The parent kills it in the middle,
//! reopens the file, and checks the records and their entries in the change feed.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use store::{
    Changes, CounterKey, Guard, Key, MetaStore, Plan, Position, Read, ReadResult, Space, Value,
    Verdict, Write,
};
use store_sqlite::{SqliteOptions, SqliteStore};

const ROUNDS: u64 = 5;
const TASKS: u64 = 4;
/// Number of acknowledged commits after which the parent kills the victim, which commits until
/// then.
const ACKNOWLEDGED: usize = 150;
const VICTIM: &str = "--victim";

fn key(partition: u64, number: u64) -> Key {
    Key::new(Space(b'd'), partition, &number.to_be_bytes())
}

fn counter() -> CounterKey {
    CounterKey(key(3, 0))
}

/// Writes two records and a counter, all or none of which must exist later.
fn plan(number: u64) -> Plan {
    let half = |partition| {
        let value = Value::from(vec![number.to_le_bytes()[0]; 3_000]);
        Write::Put(key(partition, number), value)
    };
    Plan {
        guards: vec![Guard::Absent(key(1, number))],
        writes: vec![half(1), half(2), Write::Add(counter(), 1)],
    }
}

async fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, SqliteOptions { exclusive: true, spared: &[] }).await.expect("a store")
}

async fn commit_until_killed(path: &Path, round: u64) {
    let store = Arc::new(open(path).await);
    let tasks = (0..TASKS).map(|task| {
        let store = Arc::clone(&store);
        async move {
            for turn in 0..u64::from(u32::MAX) {
                let number = (round << 48) | (task << 40) | turn;
                let verdicts = store.commit(&[plan(number)]).await.expect("committed");
                assert_eq!(verdicts, [Verdict::Committed]);
                let mut out = std::io::stdout().lock();
                writeln!(out, "{number}").and_then(|()| out.flush()).expect("the parent reads");
            }
        }
    });
    futures::future::join_all(tasks).await;
}

/// Returns the numbers that a victim had acknowledged before it died.
fn kill_in_the_middle(path: &Path, round: u64) -> Vec<u64> {
    let mut victim = Command::new(std::env::current_exe().expect("this program"))
        .args([VICTIM.as_ref(), path.as_os_str(), round.to_string().as_ref()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the victim starts");
    let mut acknowledged = Vec::new();
    let lines = BufReader::new(victim.stdout.take().expect("piped")).lines();
    for line in lines {
        let Ok(number) = line.expect("a line").parse() else { continue };
        acknowledged.push(number);
        if acknowledged.len() == ACKNOWLEDGED {
            victim.kill().expect("it still runs");
        }
    }
    assert!(!victim.wait().expect("it ended").success(), "it was killed");
    assert!(acknowledged.len() >= ACKNOWLEDGED, "it was killed in the middle of its work");
    acknowledged
}

async fn numbers(store: &SqliteStore, partition: u64) -> BTreeSet<u64> {
    let mut numbers = BTreeSet::new();
    let mut start = key(partition, 0);
    loop {
        let end = Key::new(Space(b'd'), partition + 1, b"");
        let read = Read::Range { start, end, limit: 1_000, follow: None };
        let found = store.read(&[read]).await.expect("read");
        let [ReadResult::Range(entries)] = &found[..] else { panic!("no range: {found:?}") };
        for entry in entries {
            let number = u64::from_be_bytes(entry.key.suffix().try_into().expect("a number"));
            assert_eq!(entry.value, vec![number.to_le_bytes()[0]; 3_000], "torn bytes");
            numbers.insert(number);
        }
        match entries.last() {
            Some(last) if entries.len() == 1_000 => {
                start = Key::from_bytes([last.key.as_bytes(), b"\0"].concat());
            }
            _ => return numbers,
        }
    }
}

/// Checks that the feed has exactly the records that were written since a position was taken.
async fn check_feed(
    store: &SqliteStore,
    since: Option<&Position>,
    fresh: &BTreeSet<u64>,
) -> Position {
    match (since, store.changes(since).await.expect("changes")) {
        (None, Changes::Notified { next, .. }) => next,
        (Some(_), Changes::Notified { keys, next }) => {
            let told: BTreeSet<_> = keys.into_iter().collect();
            let expected = [1, 2].into_iter().flat_map(|p| fresh.iter().map(move |n| key(p, *n)));
            assert_eq!(told, expected.collect());
            next
        }
        (_, Changes::Gap { .. }) => panic!("so few commits cannot be a gap"),
    }
}

/// Checks the records. Returns their numbers and the position of the feed.
async fn check(
    path: &Path,
    acknowledged: &[u64],
    earlier: Option<(BTreeSet<u64>, Position)>,
) -> (BTreeSet<u64>, Position) {
    let store = open(path).await;
    let (left, right) = (numbers(&store, 1).await, numbers(&store, 2).await);
    assert_eq!(left, right, "half a plan");
    let lost: Vec<_> = acknowledged.iter().filter(|number| !left.contains(number)).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    let counted = store.read(&[Read::Counter(counter())]).await.expect("read");
    assert_eq!(counted, [ReadResult::Counter(i64::try_from(left.len()).expect("few"))]);
    println!("{} acknowledged, {} there, none torn", acknowledged.len(), left.len());
    let (before, since) = earlier.unzip();
    let fresh = left.difference(&before.unwrap_or_default()).copied().collect();
    let position = check_feed(&store, since.as_ref(), &fresh).await;
    store.close().await;
    (left, position)
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let arguments: Vec<_> = std::env::args_os().collect();
    if let [_, victim, path, round] = &arguments[..]
        && victim == VICTIM
    {
        let round = round.to_str().and_then(|round| round.parse().ok()).expect("a round");
        return runtime.block_on(commit_until_killed(path.as_ref(), round));
    }
    let folder = tempfile::TempDir::new().expect("a folder");
    let path = folder.path().join("meta.db");
    let mut acknowledged = Vec::new();
    let mut earlier = None;
    for round in 0..ROUNDS {
        acknowledged.extend(kill_in_the_middle(&path, round));
        earlier = Some(runtime.block_on(check(&path, &acknowledged, earlier)));
    }
}

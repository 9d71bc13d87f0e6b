//! Measures the latency of replacing one object repeatedly, with one client and without a gateway.
//! The plans have the shape of those for bodies stored in records.
//!
//! `overwrites URL COMMITS VALUE_BYTES` creates its records in the database that the URL names,
//! which should be empty, and prints the times of commits in microseconds. Replaced files are
//! deleted a hundred at a time, as the reaper does; this time is not counted.

#![expect(clippy::disallowed_methods, reason = "what measures draws its own values")]

use std::time::Instant;

use bytes::Bytes;
use rand::RngExt as _;
use store::{CounterKey, Guard, Key, MetaStore, Plan, Space, Verdict, Write};
use store_postgres::{PostgresOptions, PostgresStore};

/// Number of replaced files that are deleted together.
const REAPED: u64 = 100;

const BUCKET: u64 = 1_000;
const DIRECTORY: u64 = 1_001;
const FIRST: u64 = 3_000_000;

fn session() -> Key {
    Key::new(Space(b's'), 0, b"session of")
}

fn of_ino(space: u8, ino: u64) -> Key {
    Key::new(Space(space), 0, &ino.to_be_bytes())
}

fn inode(ino: u64) -> Key {
    Key::new(Space(b'~'), ino, &[])
}

fn bound(parent: u64, name: &[u8], ino: u64) -> (Key, Bytes) {
    let value = [&[1, 2][..], &ino.to_be_bytes(), &[7; 4]].concat();
    (Key::new(Space(b'd'), parent, name), value.into())
}

fn slot(step: u64) -> (Key, Bytes) {
    let value = [&[1, 2][..], &step.to_be_bytes()[5..], &[9; 4]].concat();
    (Key::new(Space(b'K'), 7, b"session of the slot"), value.into())
}

fn chain() -> [(Key, Bytes); 2] {
    [bound(1, b"bucket/", BUCKET), bound(BUCKET, b"frames/", DIRECTORY)]
}

fn file(ino: u64) -> (Key, Bytes) {
    bound(DIRECTORY, b"frame.parquet", ino)
}

/// The records that exist before the first step.
fn setup() -> Plan {
    let mut records = vec![(session(), Bytes::from_static(b"session")), slot(0), file(FIRST)];
    records.extend(chain());
    records.push((inode(FIRST), Bytes::from_static(b"inode")));
    records.push((of_ino(b'w', FIRST), Bytes::from_static(b"mark..")));
    let writes = records.into_iter().map(|(key, value)| Write::Put(key, value)).collect();
    Plan { guards: Vec::new(), writes }
}

/// The step that replaces the file by another one.
fn overwrite(step: u64, value: Bytes) -> Plan {
    let (old, new) = (FIRST + step - 1, FIRST + step);
    let equals = |(key, value): (Key, Bytes)| Guard::Equals(key, value);
    let mut guards = vec![equals(slot(step - 1)), Guard::Present(session())];
    guards.extend(chain().map(equals));
    guards.push(equals(file(old)));
    let counter = |ino: u64, which: u8| CounterKey(Key::new(Space(b'n'), ino, &[which]));
    let put = |(key, value): (Key, Bytes)| Write::Put(key, value);
    let writes = vec![
        Write::Put(inode(new), value),
        put(file(new)),
        Write::Max(counter(DIRECTORY, 1), i64::try_from(new).expect("small")),
        Write::Put(of_ino(b'o', old), Bytes::from_static(b"orphan of a bucket")),
        Write::Add(counter(BUCKET, 3), 1),
        Write::Put(of_ino(b'w', new), Bytes::from_static(b"mark..")),
        put(slot(step)),
    ];
    Plan { guards, writes }
}

/// The deletes of the reaper after step `last`.
fn reap(last: u64) -> Vec<Plan> {
    let plan = |ino: u64| Plan {
        guards: vec![Guard::Present(of_ino(b'o', ino))],
        writes: [inode(ino), of_ino(b'o', ino), of_ino(b'w', ino)].map(Write::Delete).into(),
    };
    (last - REAPED..last).map(|step| plan(FIRST + step)).collect()
}

async fn commit(store: &PostgresStore, plans: &[Plan]) {
    let verdicts = store.commit(plans).await.expect("verdicts");
    assert!(verdicts.iter().all(|it| *it == Verdict::Committed), "{verdicts:?}");
}

#[tokio::main(worker_threads = 2)]
async fn main() {
    let mut words = std::env::args().skip(1);
    let mut word = || words.next().expect("URL COMMITS VALUE_BYTES");
    let url = word();
    let [commits, bytes]: [u64; 2] = std::array::from_fn(|_| word().parse().expect("a number"));
    let store = PostgresStore::open(&url, PostgresOptions::default()).await.expect("a store");
    commit(&store, &[setup()]).await;
    let mut value = vec![0; usize::try_from(bytes).expect("small")];
    rand::rng().fill(&mut value[..]);
    let value = Bytes::from(value);
    let mut took = Vec::new();
    for step in 1..=commits {
        let plan = [overwrite(step, value.clone())];
        let began = Instant::now();
        commit(&store, &plan).await;
        took.push(began.elapsed().as_micros());
        if step.is_multiple_of(REAPED) {
            commit(&store, &reap(step)).await;
        }
    }
    took.sort_unstable();
    let at = |percent: usize| took[(took.len() - 1) * percent / 100];
    println!("commits {commits} p10 {} median {} p90 {}", at(10), at(50), at(90));
    store.close().await;
}

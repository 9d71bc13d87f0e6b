//! Measures the plans and reads per second of one store: `cargo run --release --example commit_rate
//! [FOLDER]`. Each plan has the shape of the PUT of a small object.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use store::{CounterKey, Follow, Guard, Key, MetaStore, Plan, Read, Space, Value, Verdict, Write};
use store_sqlite::{SqliteOptions, SqliteStore};

const EACH: Duration = Duration::from_secs(2);
const OBJECT_BYTES: usize = 600;

fn key(space: u8, partition: u64, suffix: &[u8]) -> Key {
    Key::new(Space(space), partition, suffix)
}

/// Six guards and six writes, as a PUT has.
fn put_plan(number: u64) -> Plan {
    let (name, directory) = (format!("object-{number:012}"), 1 + number % 16);
    let dentry = key(b'd', directory, name.as_bytes());
    let inode = key(b'~', number, b"");
    let slot = key(b't', 1, &number.to_be_bytes());
    let counter = |suffix: &[u8]| CounterKey(key(b'n', directory, suffix));
    Plan {
        guards: vec![
            Guard::Present(key(b's', 1, b"session")),
            Guard::Equals(key(b'~', u64::MAX, b""), Value::from_static(b"root")),
            Guard::Equals(key(b'~', u64::MAX - 1, b""), Value::from_static(b"bucket")),
            Guard::Absent(slot.clone()),
            Guard::Absent(dentry.clone()),
            Guard::Absent(inode.clone()),
        ],
        writes: vec![
            Write::Put(slot, Value::new()),
            Write::Put(dentry, Value::copy_from_slice(&number.to_be_bytes())),
            Write::Put(inode, vec![7; OBJECT_BYTES].into()),
            Write::Add(counter(b"entries"), 1),
            Write::Add(counter(b"bytes"), i64::try_from(OBJECT_BYTES).expect("small")),
            Write::Max(counter(b"mtime"), i64::try_from(number).expect("small")),
        ],
    }
}

async fn commit_for(store: &SqliteStore, task: u64, per_call: u64, until: Instant) -> u64 {
    let mut next = task << 32;
    while Instant::now() < until {
        let plans: Vec<Plan> = (next..next + per_call).map(put_plan).collect();
        let verdicts = store.commit(&plans).await.expect("committed");
        assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Committed));
        next += per_call;
    }
    next - (task << 32)
}

/// Reads the records of a GET: a bucket, a dentry and the inode to which it points.
async fn read_for(store: &SqliteStore, until: Instant) -> u64 {
    let follow =
        Some(Follow { prefix: Value::from_static(b"~"), offset: 0, length: 8, bytes_max: None });
    let mut done = 0;
    while Instant::now() < until {
        let number = done % 64;
        let name = format!("object-{number:012}");
        let dentry = key(b'd', 1 + number % 16, name.as_bytes());
        let reads = [
            Read::Record { key: key(b'~', u64::MAX, b""), follow: follow.clone() },
            Read::Record { key: dentry, follow: follow.clone() },
        ];
        let found = store.read(&reads).await.expect("read");
        assert!(
            matches!(&found[1], store::ReadResult::Record(Some(entry)) if entry.target.whole().is_some())
        );
        done += 1;
    }
    done
}

#[expect(clippy::disallowed_methods, reason = "the bench joins its tasks")]
async fn measure<F>(what: &str, tasks: u64, work: impl Fn(u64, Instant) -> F)
where
    F: Future<Output = u64> + Send + 'static,
{
    let began = Instant::now();
    let until = began + EACH;
    let running: Vec<_> = (0..tasks).map(|task| tokio::spawn(work(task, until))).collect();
    let mut done = 0;
    for task in running {
        done += task.await.expect("the task ran");
    }
    let rate = u128::from(done) * 1_000_000 / began.elapsed().as_micros();
    let each = began.elapsed().as_micros() * u128::from(tasks) / u128::from(done.max(1));
    println!("{what:<34} {tasks:>3} tasks {rate:>8}/s {each:>8} us each");
}

#[tokio::main]
async fn main() {
    let folder = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::TempDir::new_in(folder).expect("a folder");
    let path = folder.path().join("meta.db");
    let store = SqliteStore::open(&path, SqliteOptions { exclusive: true, spared: &[] })
        .await
        .expect("a store");
    let store = Arc::new(store);
    let setup = Plan {
        guards: Vec::new(),
        writes: vec![
            Write::Put(key(b's', 1, b"session"), Value::new()),
            Write::Put(key(b'~', u64::MAX, b""), Value::from_static(b"root")),
            Write::Put(key(b'~', u64::MAX - 1, b""), Value::from_static(b"bucket")),
        ],
    };
    store.commit(&[setup]).await.expect("set up");
    for (run, (per_call, tasks)) in
        [(1, 1), (1, 16), (1, 64), (8, 1), (8, 16), (32, 1), (32, 16)].into_iter().enumerate()
    {
        let base = (run as u64) << 10;
        measure(&format!("plans, {per_call} per commit"), tasks, |task, until| {
            let store = Arc::clone(&store);
            async move { commit_for(&store, base + task, per_call, until).await }
        })
        .await;
    }
    for tasks in [1, 4, 16] {
        measure("reads of two followed records", tasks, |_, until| {
            let store = Arc::clone(&store);
            async move { read_for(&store, until).await }
        })
        .await;
    }
    store.close().await;
}

//! The file: its owner, its format, the size of its log, and concurrent writers.

#![expect(clippy::unwrap_used, reason = "the helpers of tests may fail as tests do")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};
use store::{
    CounterKey, Guard, Key, MetaStore, Plan, Read, ReadResult, Space, StoreError, StoreErrorKind,
    Value, Verdict, Write,
};
use store_sqlite::{SqliteOptions, SqliteStore};
use tempfile::TempDir;

const EXCLUSIVE: SqliteOptions = SqliteOptions { exclusive: true, spared: &[] };
const SHARED: SqliteOptions = SqliteOptions { exclusive: false, spared: &[] };

fn key(number: u64) -> Key {
    Key::new(Space(b'd'), 1, &number.to_be_bytes())
}

fn put(number: u64, bytes: &[u8]) -> Plan {
    let value = Value::copy_from_slice(bytes);
    Plan { guards: Vec::new(), writes: vec![Write::Put(key(number), value)] }
}

async fn get(store: &SqliteStore, number: u64) -> Option<Value> {
    let found = store.read(&[Read::Record { key: key(number), follow: None }]).await.unwrap();
    match found.into_iter().next() {
        Some(ReadResult::Record(found)) => found.map(|entry| entry.value),
        other => panic!("a record was asked for, not {other:?}"),
    }
}

async fn foreign(path: &Path, statements: &'static str) {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
    let mut connection = options.connect().await.unwrap();
    sqlx::raw_sql(statements).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

#[track_caller]
fn check_refused(opened: Result<SqliteStore, StoreError>, kind: StoreErrorKind, sentence: &str) {
    let error = opened.expect_err("refused");
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(sentence), "{error}");
}

#[tokio::test]
async fn a_reopened_file_has_all_records() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("meta.db");
    let counter = CounterKey(key(9));
    for round in 0..3_u64 {
        let store = SqliteStore::open(&path, EXCLUSIVE).await.unwrap();
        for earlier in 0..round {
            assert_eq!(get(&store, earlier).await.as_deref(), Some(&b"kept"[..]));
        }
        let add = Plan { guards: vec![], writes: vec![Write::Add(counter.clone(), 5)] };
        store.commit(&[put(round, b"kept"), add]).await.unwrap();
        let found = store.read(&[Read::Counter(counter.clone())]).await.unwrap();
        assert_eq!(found, [ReadResult::Counter(5 * (1 + round.cast_signed()))]);
        // The last round ends without `close`.
        if round < 2 {
            store.close().await;
        }
        drop(store);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let store = SqliteStore::open(&path, SHARED).await.unwrap();
    assert_eq!(get(&store, 2).await.as_deref(), Some(&b"kept"[..]));
    store.close().await;
}

#[tokio::test]
async fn a_newer_format_is_refused_and_unchanged() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("meta.db");
    SqliteStore::open(&path, EXCLUSIVE).await.unwrap().close().await;
    foreign(&path, "UPDATE ashlar_store SET format = 2").await;
    let before = std::fs::read(&path).unwrap();
    let opened = SqliteStore::open(&path, EXCLUSIVE).await;
    let sentence = "it has format 2, and this version reads 1 only";
    check_refused(opened, StoreErrorKind::Corrupt, sentence);
    assert!(std::fs::read(&path).unwrap() == before, "the file was changed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_file_can_be_opened_concurrently() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("meta.db");
    let opened = (0..6).map(|_| SqliteStore::open(&path, SHARED));
    for (number, store) in (10..).zip(futures::future::join_all(opened).await) {
        let store = store.unwrap();
        store.commit(&[put(number, b"mine")]).await.unwrap();
        store.close().await;
    }
    let store = SqliteStore::open(&path, EXCLUSIVE).await.expect("the file is not locked");
    assert!(get(&store, 10).await.is_some() && get(&store, 15).await.is_some());
    store.close().await;
}

#[tokio::test]
async fn foreign_files_are_refused_and_unchanged() {
    let folder = TempDir::new().unwrap();
    let database = folder.path().join("other.db");
    foreign(&database, "CREATE TABLE record (something TEXT)").await;
    let text = folder.path().join("text.db");
    std::fs::write(&text, "certainly no database, but long enough to have a header".repeat(99))
        .unwrap();
    for (path, sentence) in
        [(&database, "not a store of Ashlar"), (&text, "file is not a database")]
    {
        let before = std::fs::read(path).unwrap();
        let opened = SqliteStore::open(path, EXCLUSIVE).await;
        check_refused(opened, StoreErrorKind::Corrupt, sentence);
        assert!(std::fs::read(path).unwrap() == before, "{} was changed", path.display());
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_to_is_refused() {
    let folder = TempDir::new().unwrap();
    let sentence = "its folder must exist and be writable";
    // Even a privileged user cannot create files in the second folder.
    for path in [folder.path().join("missing/meta.db"), "/proc/meta.db".into()] {
        let opened = SqliteStore::open(&path, EXCLUSIVE).await;
        check_refused(opened, StoreErrorKind::Unavailable, sentence);
    }
}

#[tokio::test]
async fn a_second_exclusive_open_is_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("meta.db");
    let store = SqliteStore::open(&path, EXCLUSIVE).await.unwrap();
    assert!(store.limits().serves_one);
    let beside = SqliteStore::open(&path, SHARED).await.unwrap();
    assert!(!beside.limits().serves_one, "the lock belongs to the other store");
    beside.close().await;
    let opened = SqliteStore::open(&path, EXCLUSIVE).await;
    check_refused(opened, StoreErrorKind::Unavailable, "another process serves it already");
    store.commit(&[put(1, b"still works")]).await.unwrap();
    store.close().await;
    let store = SqliteStore::open(&path, EXCLUSIVE).await.expect("the lock is free again");
    assert!(get(&store, 1).await.is_some());
    store.close().await;
}

#[tokio::test]
async fn an_exclusive_open_waits_for_the_end_of_another_store() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("meta.db");
    let store = SqliteStore::open(&path, EXCLUSIVE).await.unwrap();
    let ending = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        store.close().await;
    };
    let (next, ()) = tokio::join!(SqliteStore::open(&path, EXCLUSIVE), ending);
    next.expect("the lock is free before the wait ends").close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_writers_of_one_file_lose_no_commit() {
    const EACH: u64 = 100;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("meta.db");
    let store = SqliteStore::open(&path, EXCLUSIVE).await.unwrap();
    let beside = SqliteStore::open(&path, SHARED).await.unwrap();
    store.commit(&[put(0, &0_u64.to_be_bytes())]).await.unwrap();
    let count = |store| async move {
        let mut done = 0;
        while done < EACH {
            let seen = get(store, 0).await.unwrap();
            let next = 1 + u64::from_be_bytes(seen[..].try_into().unwrap());
            let mut plan = put(0, &next.to_be_bytes());
            plan.guards.push(Guard::Equals(key(0), seen));
            let verdicts = store.commit(&[plan]).await.unwrap();
            done += u64::from(verdicts == [Verdict::Committed]);
        }
    };
    futures::join!(count(&store), count(&beside));
    for store in [&store, &beside] {
        assert_eq!(get(store, 0).await.as_deref(), Some(&(2 * EACH).to_be_bytes()[..]));
    }
    beside.close().await;
    store.close().await;
}

async fn lock_for_writing(path: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(path);
    let mut connection = options.connect().await.unwrap();
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut connection).await.unwrap();
    connection
}

#[tokio::test]
async fn a_lock_held_too_long_makes_a_commit_unavailable() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("meta.db");
    let store = SqliteStore::open(&path, EXCLUSIVE).await.unwrap();
    store.commit(&[put(1, b"before")]).await.unwrap();
    let connection = lock_for_writing(&path).await;
    let error = store.commit(&[put(1, b"lost")]).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    assert_eq!(get(&store, 1).await.as_deref(), Some(&b"before"[..]), "reads do not wait");
    connection.close().await.unwrap();
    assert_eq!(store.commit(&[put(1, b"after")]).await.unwrap(), [Verdict::Committed]);
    assert_eq!(get(&store, 1).await.as_deref(), Some(&b"after"[..]));
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_stays_bounded_while_readers_overlap() {
    // Twice the size that the writer tolerates, plus the size of one transaction, after which it
    // checks.
    const LOG_BYTES_MAX: u64 = (2 * 64 + 8) << 20;
    const COMMITS: u64 = 64;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("meta.db");
    let log = folder.path().join("meta.db-wal");
    let store = SqliteStore::open(&path, EXCLUSIVE).await.unwrap();
    let written = AtomicBool::new(false);
    let load = async {
        let (mut longest, mut total) = (0, 0);
        for turn in 0..COMMITS {
            let bytes = vec![u8::try_from(turn).unwrap(); 32 << 10];
            let plans: Vec<Plan> = (0..128).map(|number| put(number, &bytes)).collect();
            store.commit(&plans).await.unwrap();
            total += 128 * bytes.len() as u64;
            longest = longest.max(log.metadata().unwrap().len());
        }
        written.store(true, Ordering::Relaxed);
        assert!(total > LOG_BYTES_MAX, "too little was written to tell");
        longest
    };
    // One of two foreign readers is always in the middle of a read, so the log is never unused.
    let readers = async {
        let options = SqliteConnectOptions::new().filename(&path);
        let mut pair = [options.connect().await.unwrap(), options.connect().await.unwrap()];
        while !written.load(Ordering::Relaxed) {
            for reader in 0..2 {
                let [left, right] = &mut pair;
                let (comes, goes) = if reader == 0 { (left, right) } else { (right, left) };
                let begin = "BEGIN; SELECT count(*) FROM record";
                sqlx::raw_sql(begin).execute(comes).await.unwrap();
                tokio::time::sleep(Duration::from_millis(5)).await;
                // The very first round has no transaction to end.
                let _ = sqlx::raw_sql("COMMIT").execute(goes).await;
            }
        }
        for reader in pair {
            reader.close().await.unwrap();
        }
    };
    let (longest, ()) = futures::join!(load, readers);
    println!("the log was {longest} bytes long at most");
    assert!(longest <= LOG_BYTES_MAX, "the log grew to {longest} bytes");
    store.close().await;
    assert!(!log.exists(), "the last one out tidies up");
}

#[tokio::test]
async fn only_the_owner_has_access_to_the_files() {
    use std::fs::{Permissions, metadata, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("meta.db");
    let names = ["meta.db", "meta.db-wal", "meta.db-shm", "meta.db-reserve", "meta.db.lock"];
    let modes = || {
        let mode = |name: &&str| metadata(folder.path().join(name)).expect("there").permissions();
        names.iter().map(|name| mode(name).mode() & 0o777).collect::<Vec<_>>()
    };
    let store = SqliteStore::open(&path, SqliteOptions::default()).await.expect("it opens");
    assert_eq!(modes(), [0o600; 5]);
    for name in names {
        set_permissions(folder.path().join(name), Permissions::from_mode(0o644)).expect("changed");
    }
    store.close().await;
    set_permissions(&path, Permissions::from_mode(0o644)).expect("changed");
    let store = SqliteStore::open(&path, SqliteOptions::default()).await.expect("it opens");
    assert_eq!(modes(), [0o600; 5], "what was open is closed");
    store.close().await;
    let foreign = folder.path().join("foreign.db");
    std::fs::write(&foreign, "not a database").expect("written");
    set_permissions(&foreign, Permissions::from_mode(0o644)).expect("changed");
    SqliteStore::open(&foreign, SqliteOptions::default()).await.expect_err("it is no store");
    assert_eq!(metadata(&foreign).expect("there").permissions().mode() & 0o777, 0o644);
}

/// A small file system, unmounted when dropped.
struct Small(TempDir);

impl Small {
    /// Mounts a file system of 4 MiB. Returns `None` if this process may not mount.
    fn mount() -> Option<Small> {
        let folder = TempDir::new().unwrap();
        let mut mount = std::process::Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", "size=4m", "none"]).arg(folder.path());
        let mounted = mounted.stderr(std::process::Stdio::null()).status();
        mounted.is_ok_and(|status| status.success()).then_some(Small(folder))
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _gone = std::process::Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[tokio::test]
async fn a_full_disk_fails_commits_for_certain_until_it_has_space() {
    let Some(small) = Small::mount() else {
        eprintln!("not run: this process may not mount a file system");
        return;
    };
    let path = small.path("meta.db");
    let store = SqliteStore::open(&path, EXCLUSIVE).await.unwrap();
    store.commit(&[put(0, b"before")]).await.unwrap();
    std::fs::write(small.path("other"), vec![1; 1 << 20]).unwrap();
    let value = vec![7; 100_000];
    let mut refused = None;
    for number in 1..100 {
        if let Err(error) = store.commit(&[put(number, &value)]).await {
            refused = Some((number, error));
            break;
        }
    }
    let (number, error) = refused.expect("the disk fills up");
    assert_eq!(error.kind(), StoreErrorKind::Full, "{error}");
    assert_eq!(get(&store, number).await, None);
    assert_eq!(get(&store, 0).await.as_deref(), Some(&b"before"[..]));
    std::fs::remove_file(small.path("other")).unwrap();
    store.commit(&[put(1_000, &value)]).await.unwrap();
    store.close().await;
    let store = SqliteStore::open(&path, EXCLUSIVE).await.unwrap();
    assert_eq!(get(&store, number).await, None, "what was refused has not happened");
    assert!(get(&store, number - 1).await.is_some() && get(&store, 1_000).await.is_some());
    store.close().await;
}

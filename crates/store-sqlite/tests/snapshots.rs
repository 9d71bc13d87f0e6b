//! The resources that a snapshot holds, and when it releases them.

#![expect(clippy::unwrap_used, reason = "the helpers of tests may fail as tests do")]

use std::path::Path;
use std::time::Duration;

use futures::FutureExt;
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use store::{Key, MetaStore, Plan, Snapshot, Space, StoreErrorKind, Value, Write};
use store_sqlite::{SqliteOptions, SqliteStore};
use tempfile::TempDir;

/// Limit of the time in which a thread closes a connection.
const CLOSE_DEADLINE: Duration = Duration::from_secs(5);
const EXCLUSIVE: SqliteOptions = SqliteOptions { exclusive: true, spared: &[] };

fn key(number: u64) -> Key {
    Key::new(Space(b'd'), 1, &number.to_be_bytes())
}

async fn put(store: &SqliteStore, number: u64, value: &[u8]) {
    let value = Value::copy_from_slice(value);
    let plan = Plan { guards: Vec::new(), writes: vec![Write::Put(key(number), value)] };
    store.commit(&[plan]).await.unwrap();
}

/// Returns true if the whole log can be moved into the file and truncated.
async fn log_can_be_cut(path: &Path) -> bool {
    let options = SqliteConnectOptions::new().filename(path).busy_timeout(Duration::ZERO);
    let mut connection = options.connect().await.unwrap();
    let text = "PRAGMA wal_checkpoint(TRUNCATE)";
    let busy: i64 = sqlx::query_scalar(text).fetch_one(&mut connection).await.unwrap();
    busy == 0
}

async fn becomes_free(path: &Path) {
    let freed = async {
        while !log_can_be_cut(path).await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(CLOSE_DEADLINE, freed).await.expect("the log is free again");
}

async fn check_ended(snapshot: &mut dyn Snapshot) {
    for error in [
        snapshot.records(10).await.expect_err("ended"),
        snapshot.counters(10).await.expect_err("ended"),
    ] {
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("the snapshot has ended"), "{error}");
    }
}

#[tokio::test]
async fn a_snapshot_holds_the_log_from_the_beginning_until_it_is_dropped() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("meta.db");
    let store = SqliteStore::open(&path, EXCLUSIVE).await.unwrap();
    put(&store, 1, b"before").await;
    assert!(log_can_be_cut(&path).await);
    let mut snapshot = store.snapshot().await.unwrap();
    // No page of the snapshot was read before this commit.
    put(&store, 1, b"after").await;
    assert!(!log_can_be_cut(&path).await, "the snapshot is pinned");
    let found = snapshot.records(10).await.unwrap();
    assert_eq!(found, [(key(1), Value::from_static(b"before"))]);
    drop(snapshot);
    becomes_free(&path).await;
    store.close().await;
}

#[tokio::test]
async fn closing_the_store_ends_its_snapshots() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("meta.db");
    let store = SqliteStore::open(&path, EXCLUSIVE).await.unwrap();
    put(&store, 1, b"x").await;
    let mut snapshot = store.snapshot().await.unwrap();
    put(&store, 2, b"x").await;
    assert_eq!(snapshot.records(1).await.unwrap().len(), 1);
    store.close().await;
    check_ended(&mut *snapshot).await;
    assert!(!folder.path().join("meta.db-wal").exists(), "the last one out tidies up");
    let error = store.snapshot().await.expect_err("closed");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn a_dropped_page_ends_the_snapshot() {
    const RECORDS: u64 = 200;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("meta.db");
    let store = SqliteStore::open(&path, EXCLUSIVE).await.unwrap();
    for number in 0..RECORDS {
        put(&store, number, b"x").await;
    }
    let mut snapshot = store.snapshot().await.unwrap();
    put(&store, 0, b"y").await;
    // A page may be complete at the first poll. Unconstrained, because the runtime ends every 128th
    // poll before the page is under way.
    let mut pages =
        (0..RECORDS).map(|_| tokio::task::unconstrained(snapshot.records(1)).now_or_never());
    assert!(pages.any(|page| page.is_none()), "none was under way");
    drop(pages);
    check_ended(&mut *snapshot).await;
    becomes_free(&path).await;
    store.close().await;
}

#[tokio::test]
async fn the_number_of_snapshots_is_limited() {
    const SNAPSHOTS_MAX: usize = 8;
    let folder = TempDir::new().unwrap();
    let store = SqliteStore::open(&folder.path().join("meta.db"), EXCLUSIVE).await.unwrap();
    put(&store, 1, b"x").await;
    let mut snapshots = Vec::new();
    for _ in 0..SNAPSHOTS_MAX {
        snapshots.push(store.snapshot().await.unwrap());
    }
    let error = store.snapshot().await.expect_err("one too many");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("8 others are being read"), "{error}");
    snapshots.pop();
    let mut snapshot = store.snapshot().await.expect("a dropped snapshot makes room");
    assert_eq!(snapshot.records(10).await.unwrap().len(), 1);
    store.close().await;
}

//! Snapshots whose readers are slow or go away, and many snapshots.

use std::time::{Duration, Instant};

use redis::Connection;
use store::{Durability, Key, MetaStore, Snapshot, StoreErrorKind, Value, Write};
use store_redis::{RedisOptions, RedisStore};

use crate::server::{self, Volume};
use crate::{counter, key, number, point, put, record, write};

async fn patient(volume: &Volume, patience: Duration) -> RedisStore {
    let options = RedisOptions { snapshot_patience: patience, ..server::relaxed() };
    RedisStore::open(&volume.url, options).await.expect("a store")
}

/// Returns the keys of a volume that belong to snapshots.
fn left_over(connection: &mut Connection, volume: &Volume) -> Vec<String> {
    let mut keys = redis::cmd("KEYS");
    let keys: Vec<Vec<u8>> =
        keys.arg(format!("{}[cs]*", volume.prefix())).query(connection).expect("keys");
    keys.iter().map(|key| key.escape_ascii().to_string()).collect()
}

async fn rest(snapshot: &mut dyn Snapshot) -> Vec<(Key, Value)> {
    let mut records = Vec::new();
    loop {
        let page = snapshot.records(100).await.expect("a page");
        if page.is_empty() {
            return records;
        }
        records.extend(page);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_reader_gets_an_error_and_no_wrong_page() {
    let Some(server) = server::given() else { return };
    let volume = Volume::new(&server);
    let store = patient(&volume, Duration::from_millis(300)).await;
    let old = [put(key(1, "a"), "old"), put(key(1, "b"), "old"), Write::Add(counter(1), 1)];
    write(&store, old).await;
    let mut snapshot = store.snapshot().await.expect("a snapshot");
    assert_eq!(snapshot.records(1).await.expect("a page").len(), 1);
    write(&store, [put(key(1, "b"), "new")]).await;
    let mut connection = server::connection(&server);
    assert_eq!(left_over(&mut connection, &volume).len(), 2, "nothing was put aside");
    tokio::time::sleep(Duration::from_millis(500)).await;
    // The next commit ends the snapshot.
    write(&store, [put(key(1, "b"), "newer")]).await;
    for _ in 0..2 {
        let error = snapshot.records(1).await.expect_err("it has ended");
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("too long between pages"), "{error}");
    }
    assert!(snapshot.counters(1).await.is_err());
    assert_eq!(left_over(&mut connection, &volume), Vec::<String>::new());
    assert_eq!(record(&store, key(1, "b")).await.as_deref(), Some(&b"newer"[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_comes_back_in_time_keeps_it_open() {
    let Some(server) = server::given() else { return };
    let volume = Volume::new(&server);
    let store = patient(&volume, Duration::from_millis(700)).await;
    let all: Vec<Write> = (0..8).map(|number| put(point(number), "old")).collect();
    write(&store, all).await;
    let mut snapshot = store.snapshot().await.expect("a snapshot");
    let begun = Instant::now();
    let mut seen = Vec::new();
    for number in 0..8 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        write(&store, [put(point(7 - number), "new"), put(point(100 + number), "new")]).await;
        seen.extend(snapshot.records(1).await.expect("a page"));
    }
    assert!(begun.elapsed() > Duration::from_millis(1_400), "that was no test of patience");
    assert!(snapshot.records(1).await.expect("the end").is_empty());
    let old = |number| (point(number), Value::from_static(b"old"));
    assert_eq!(seen, (0..8).map(old).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_snapshot_leaves_no_key() {
    let Some(server) = server::given() else { return };
    let volume = Volume::new(&server);
    let store = volume.open().await;
    write(&store, [put(key(1, "a"), "old"), Write::Add(counter(1), 3)]).await;
    let snapshot = store.snapshot().await.expect("a snapshot");
    write(&store, [put(key(1, "a"), "new"), Write::Add(counter(1), 3)]).await;
    let mut connection = server::connection(&server);
    assert_eq!(left_over(&mut connection, &volume).len(), 3);
    drop(snapshot);
    // The snapshot is released by a task of the store, for which `close` waits.
    store.close().await;
    assert_eq!(left_over(&mut connection, &volume), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_open_snapshots_is_limited() {
    let Some(server) = server::given() else { return };
    let volume = Volume::new(&server);
    let store = volume.open().await;
    write(&store, [put(point(1), "old")]).await;
    let mut open = Vec::new();
    let refused = loop {
        match store.snapshot().await {
            Ok(snapshot) => open.push(snapshot),
            Err(error) => break error,
        }
        assert!(open.len() < 100, "there is no limit");
    };
    assert_eq!(refused.kind(), StoreErrorKind::Unavailable, "{refused}");
    write(&store, [put(point(1), "new"), put(point(2), "new")]).await;
    for snapshot in &mut open {
        let old = (point(1), Value::from_static(b"old"));
        assert_eq!(rest(&mut **snapshot).await, [old]);
    }
    assert_eq!(number(&store, counter(1)).await, 0);
    assert_ne!(store.durability(), Durability::None);
}

/// A page whose future was dropped is not skipped: the next call returns it.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_page_is_returned_again() {
    let Some(server) = server::given() else { return };
    let volume = Volume::new(&server);
    let store = volume.open().await;
    let all: Vec<Write> = (0..300).map(|number| put(point(number), "x")).collect();
    write(&store, all).await;
    let mut snapshot = store.snapshot().await.expect("a snapshot");
    let mut seen = Vec::new();
    let mut cut_short = 0;
    loop {
        for patience in [0, 50, 100, 200] {
            let page = tokio::time::timeout(Duration::from_micros(patience), snapshot.records(10));
            match page.await {
                Ok(page) => seen.extend(page.expect("a page")),
                Err(_) => cut_short += 1,
            }
        }
        let page = snapshot.records(10).await.expect("a page");
        if page.is_empty() {
            break;
        }
        seen.extend(page);
    }
    assert!(cut_short > 0, "nothing was cut short");
    let keys: Vec<Key> = seen.into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, (0..300).map(point).collect::<Vec<_>>());
}

/// A snapshot is kept at the server, so a broken connection costs one page and not the whole
/// snapshot.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_outlives_its_connection_and_its_server() {
    let Some(mut server) = server::own() else { return };
    let store = RedisStore::open(&server.url(), RedisOptions::default()).await.expect("a store");
    let all: Vec<Write> = (0..50).map(|number| put(point(number), "old")).collect();
    write(&store, all).await;
    let mut snapshot = store.snapshot().await.expect("a snapshot");
    let mut seen = snapshot.records(10).await.expect("a page");
    server.kill();
    let error = snapshot.records(10).await.expect_err("there is no server");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    server.restart();
    while store.read(&[]).await.is_err() {}
    let later: Vec<Write> = (0..60).map(|number| put(point(number), "new")).collect();
    write(&store, later).await;
    seen.extend(rest(&mut *snapshot).await);
    let old = |number| (point(number), Value::from_static(b"old"));
    assert_eq!(seen, (0..50).map(old).collect::<Vec<_>>());
}

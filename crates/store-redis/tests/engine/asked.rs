//! Each connection checks the server, and while connections exist the check is repeated.

use std::time::{Duration, Instant};

use databases::Database;
use proxy::Proxy;
use store::{Durability, MetaStore, Read, StoreErrorKind};
use store_redis::{RedisOptions, RedisStore};

use crate::server::{self, relaxed};
use crate::settings::{run, set};
use crate::{key, plan, put, record, write};

/// Longer than the interval of the checks.
const CHECK_DEADLINE: Duration = Duration::from_secs(20);

/// Waits until reads fail, or until they succeed.
async fn until(store: &RedisStore, answered: bool) {
    let begun = Instant::now();
    while store_record(store).await.is_ok() != answered {
        assert!(
            begun.elapsed() < CHECK_DEADLINE,
            "reads are {}",
            if answered { "refused" } else { "answered" }
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn read_refused(store: &RedisStore, words: &[&str]) {
    let asked = store.read(&[Read::Record { key: key(1, "a"), follow: None }]).await;
    assert_names(&asked.expect_err("it is not read"), words);
    let committed = store.commit(&[plan([], [put(key(1, "a"), "lost")])]).await;
    assert_names(&committed.expect_err("it is not written"), words);
}

fn assert_names(error: &store::StoreError, words: &[&str]) {
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "no word of {word}: {error}");
    }
}

/// A server that comes back with other settings on the same port.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_came_back_with_lax_settings_is_refused_or_reported() {
    let Some(mut server) = server::own() else { return };
    let strict = RedisStore::open(&server.url(), RedisOptions::default()).await.expect("strict");
    let accepting = RedisStore::open(&server.url(), relaxed()).await.expect("a store");
    write(&strict, [put(key(1, "a"), "kept")]).await;
    assert_eq!(accepting.durability(), Durability::Strict, "the settings are in force");
    assert_eq!(record(&accepting, key(1, "a")).await.as_deref(), Some(&b"kept"[..]));
    server.kill();
    server.set(&["--appendfsync", "no", "--maxmemory-policy", "allkeys-lru"]);
    server.restart();
    // The first call notices the broken connections.
    until(&strict, false).await;
    let words = ["appendfsync is no ", "maxmemory-policy is allkeys-lru", "relaxed"];
    for _ in 0..6 {
        read_refused(&strict, &words).await;
    }
    assert_eq!(strict.durability(), Durability::Strict, "nothing less is accepted");
    until(&accepting, true).await;
    assert_eq!(record(&accepting, key(1, "a")).await.as_deref(), Some(&b"kept"[..]));
    assert_eq!(accepting.durability(), Durability::Relaxed, "reported at the first connection");
    server.kill();
    server.set(&[]);
    server.restart();
    until(&strict, true).await;
    write(&strict, [put(key(1, "a"), "again")]).await;
    until(&accepting, true).await;
    assert_eq!(record(&accepting, key(1, "a")).await.as_deref(), Some(&b"again"[..]));
    assert_eq!(accepting.durability(), Durability::Strict);
}

/// `CONFIG SET` breaks no connection. The next new connection finds the change, and one is made
/// from time to time.
#[tokio::test(flavor = "multi_thread")]
async fn settings_that_change_during_connections_are_noticed() {
    let Some(server) = server::own() else { return };
    let strict = RedisStore::open(&server.url(), RedisOptions::default()).await.expect("strict");
    let accepting = RedisStore::open(&server.url(), relaxed()).await.expect("a store");
    write(&strict, [put(key(1, "a"), "kept")]).await;
    write(&accepting, [put(key(1, "a"), "kept")]).await;
    set(&mut server::connection(&server.url()), &[("appendfsync", "everysec")]);
    let begun = Instant::now();
    let refusal = loop {
        let asked = store_record(&strict).await;
        if let Err(error) = asked {
            break error;
        }
        assert!(begun.elapsed() < CHECK_DEADLINE, "no check of the server");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_names(&refusal, &["appendfsync is everysec", "relaxed"]);
    read_refused(&strict, &["appendfsync is everysec"]).await;
    while accepting.durability() == Durability::Strict {
        store_record(&accepting).await.expect("it is accepted");
        assert!(begun.elapsed() < CHECK_DEADLINE, "no check of the server");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // A snapshot has a new connection, which finds the change at once.
    set(&mut server::connection(&server.url()), &[("appendfsync", "always")]);
    drop(accepting.snapshot().await.expect("a snapshot"));
    assert_eq!(accepting.durability(), Durability::Strict);
    set(&mut server::connection(&server.url()), &[("appendfsync", "no")]);
    drop(accepting.snapshot().await.expect("a snapshot"));
    assert_eq!(accepting.durability(), Durability::Relaxed);
}

async fn store_record(store: &RedisStore) -> Result<Vec<store::ReadResult>, store::StoreError> {
    store.read(&[Read::Record { key: key(1, "a"), follow: None }]).await
}

/// The address moves to a replica.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_moves_to_a_replica_is_not_read() {
    let Some(server) = server::own() else { return };
    let proxy = Proxy::start(server.address()).expect("a proxy");
    let url = Database::through(&server.url(), server.address(), proxy.address());
    let stores = [
        RedisStore::open(&url, RedisOptions::default()).await.expect("a store"),
        RedisStore::open(&url, relaxed()).await.expect("a store"),
    ];
    write(&stores[0], [put(key(1, "a"), "old")]).await;
    let replica = Database::replica(&server);
    // The replica answers, soon with old records.
    let answer: u64 = redis::cmd("EXISTS")
        .arg("{ashlar}:m")
        .query(&mut server::connection(&replica.url()))
        .expect("a replica answers");
    assert_eq!(answer, 1);
    proxy.move_to(replica.address());
    for store in &stores {
        until(store, false).await;
        for _ in 0..6 {
            read_refused(store, &["replica"]).await;
        }
    }
    run(&mut server::connection(&replica.url()), &["REPLICAOF", "NO", "ONE"]);
    for store in &stores {
        assert_eq!(record(store, key(1, "a")).await.as_deref(), Some(&b"old"[..]));
    }
}

/// A master that becomes a replica keeps its connections and still answers.
#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_becomes_a_replica_is_noticed_without_a_commit() {
    let Some(server) = server::own() else { return };
    let store = RedisStore::open(&server.url(), relaxed()).await.expect("a store");
    write(&store, [put(key(1, "a"), "old")]).await;
    run(&mut server::connection(&server.url()), &["REPLICAOF", "127.0.0.1", "1"]);
    let begun = Instant::now();
    let refusal = loop {
        if let Err(error) = store_record(&store).await {
            break error;
        }
        assert!(begun.elapsed() < CHECK_DEADLINE, "no check of the server");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_names(&refusal, &["replica"]);
}

/// The address moves while connections exist, and the previous server still accepts writes.
#[tokio::test(flavor = "multi_thread")]
async fn old_connections_to_a_previous_server_are_not_used() {
    let Some(server) = server::own() else { return };
    let proxy = Proxy::start(server.address()).expect("a proxy");
    let url = Database::through(&server.url(), server.address(), proxy.address());
    let store = RedisStore::open(&url, relaxed()).await.expect("a store");
    write(&store, [put(key(1, "a"), "old")]).await;
    let promoted = Database::replica(&server);
    run(&mut server::connection(&promoted.url()), &["REPLICAOF", "NO", "ONE"]);
    let beside = RedisStore::open(&promoted.url(), relaxed()).await.expect("a store");
    write(&beside, [put(key(1, "a"), "new")]).await;
    proxy.move_new_to(promoted.address());
    let found = async || record(&store, key(1, "a")).await;
    assert_eq!(found().await.as_deref(), Some(&b"old"[..]), "it did not break");
    let begun = Instant::now();
    while found().await.as_deref() != Some(&b"new"[..]) {
        assert!(begun.elapsed() < CHECK_DEADLINE, "the old server is still read");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for _ in 0..20 {
        assert_eq!(found().await.as_deref(), Some(&b"new"[..]));
    }
}

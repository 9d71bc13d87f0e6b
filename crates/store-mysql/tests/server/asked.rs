//! Each connection checks the server, and while connections exist the check is repeated.

use std::time::{Duration, Instant};

use databases::Database;
use store::{Durability, MetaStore, Read, StoreError, StoreErrorKind};
use store_mysql::{MysqlOptions, MysqlStore};

use crate::bench;
use crate::service::{decide_one, execute, key, open, plan, put, record};

/// Longer than the interval of the checks.
const CHECK_DEADLINE: Duration = Duration::from_secs(40);

/// Opens a store with strict durability. The tests promote replicas that have all changes.
async fn strict(url: &str) -> MysqlStore {
    let url = format!("{url}?async_standbys=never_promoted");
    MysqlStore::open(&url, MysqlOptions::default()).await.expect("a store")
}

async fn read(store: &MysqlStore) -> Result<(), StoreError> {
    store.read(&[Read::Record { key: key(1, "a"), follow: None }]).await.map(drop)
}

/// Waits until reads fail, or until they succeed.
async fn until(store: &MysqlStore, answered: bool) {
    let begun = Instant::now();
    while read(store).await.is_ok() != answered {
        assert!(begun.elapsed() < CHECK_DEADLINE, "reads are not {answered} yet");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Checks that the store refuses reads and commits, with the word in the error.
async fn refused(store: &MysqlStore, word: &str) {
    let change = plan([], [put(key(1, "a"), "lost")]);
    let committed = store.commit(&[change]).await.map(drop);
    for error in [read(store).await, committed].map(|it| it.expect_err("it is refused")) {
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains(word), "no word of {word}: {error}");
    }
}

/// A server that comes back with other settings on the same port.
#[test]
fn a_server_that_came_back_with_lax_settings_is_refused_or_reported() {
    bench::run(async |mut bench| {
        let (careful, accepting) = (strict(&bench.direct).await, open(&bench.direct).await);
        decide_one(&careful, plan([], [put(key(1, "a"), "kept")])).await;
        assert_eq!(record(&accepting, &key(1, "a")).await.as_deref(), Some(&b"kept"[..]));
        assert_eq!(accepting.durability(), Durability::Strict);
        bench.server.kill();
        bench.server.set(&["--innodb-flush-log-at-trx-commit=2"]);
        bench.server.restart();
        for _ in 0..4 {
            refused(&careful, "innodb_flush_log_at_trx_commit is 2").await;
        }
        until(&accepting, true).await;
        assert_eq!(accepting.durability(), Durability::Relaxed, "reported at the first connection");
        bench.server.kill();
        bench.server.set(&[]);
        bench.server.restart();
        until(&careful, true).await;
        until(&accepting, true).await;
        assert_eq!(accepting.durability(), Durability::Strict);
    });
}

/// `SET GLOBAL` breaks no connection: the periodic check notices it.
#[test]
fn settings_that_change_during_connections_are_noticed() {
    bench::run(async |bench| {
        let (careful, accepting) = (strict(&bench.direct).await, open(&bench.direct).await);
        read(&careful).await.expect("it is read");
        execute(&bench.direct, "SET GLOBAL innodb_flush_log_at_trx_commit = 0").await;
        until(&careful, false).await;
        refused(&careful, "innodb_flush_log_at_trx_commit is 0").await;
        let begun = Instant::now();
        while accepting.durability() == Durability::Strict {
            read(&accepting).await.expect("it is accepted");
            assert!(begun.elapsed() < CHECK_DEADLINE, "no check of the server");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        execute(&bench.direct, "SET GLOBAL innodb_flush_log_at_trx_commit = 1").await;
        // A snapshot has a new connection, which finds the change at once.
        drop(accepting.snapshot().await.expect("a snapshot"));
        assert_eq!(accepting.durability(), Durability::Strict);
        execute(&bench.direct, "SET GLOBAL read_only = 1").await;
        until(&accepting, false).await;
        refused(&accepting, "read_only is on").await;
    });
}

/// The address moves to a replica, which has the old records.
#[test]
fn an_address_that_moves_to_a_replica_is_not_read() {
    bench::run(async |bench| {
        let stores = [strict(&bench.through).await, open(&bench.through).await];
        decide_one(&stores[0], plan([], [put(key(1, "a"), "old")])).await;
        let replica = Database::replica(&bench.server);
        let address = (bench.server.address(), replica.address());
        let there = Database::through(&bench.direct, address.0, address.1);
        let error =
            MysqlStore::open(&there, MysqlOptions { relaxed: true, ..MysqlOptions::default() });
        let error = error.await.expect_err("it is a replica");
        assert!(error.to_string().contains("read_only is on"), "{error}");
        bench.proxy.move_to(replica.address());
        for store in &stores {
            for _ in 0..4 {
                refused(store, "read_only is on").await;
            }
        }
        // A replica that accepts writes is still a replica.
        execute(&there, "SET GLOBAL read_only = 0").await;
        for store in &stores {
            refused(store, "STOP SLAVE").await;
        }
        execute(&there, "STOP SLAVE").await;
        for store in &stores {
            assert_eq!(record(store, &key(1, "a")).await.as_deref(), Some(&b"old"[..]));
            decide_one(store, plan([], [put(key(1, "b"), "new")])).await;
        }
    });
}

/// The address moves while connections exist, and the previous server still accepts writes.
#[test]
fn old_connections_to_a_previous_server_are_not_used() {
    bench::run(async |bench| {
        let store = strict(&bench.through).await;
        decide_one(&store, plan([], [put(key(1, "a"), "old")])).await;
        let promoted = Database::replica(&bench.server);
        let there = Database::through(&bench.direct, bench.server.address(), promoted.address());
        execute(&there, "STOP SLAVE").await;
        execute(&there, "SET GLOBAL read_only = 0").await;
        let beside = strict(&there).await;
        decide_one(&beside, plan([], [put(key(1, "a"), "new")])).await;
        let found = async || record(&store, &key(1, "a")).await;
        assert_eq!(found().await.as_deref(), Some(&b"old"[..]), "a connection that stands");
        bench.proxy.move_new_to(promoted.address());
        assert_eq!(found().await.as_deref(), Some(&b"old"[..]), "it did not break");
        let begun = Instant::now();
        while found().await.as_deref() != Some(&b"new"[..]) {
            assert!(begun.elapsed() < CHECK_DEADLINE, "the old server is still read");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        for _ in 0..20 {
            assert_eq!(found().await.as_deref(), Some(&b"new"[..]));
        }
    });
}

//! What a server must be is asked of every connection, and again while connections last.

use std::time::{Duration, Instant};

use databases::Database;
use store::{Durability, MetaStore, Read, StoreError, StoreErrorKind};
use store_mysql::{MysqlOptions, MysqlStore};

use crate::bench;
use crate::service::{decide_one, execute, key, open, plan, put, record};

/// Longer than the store goes on without asking again.
const PATIENCE: Duration = Duration::from_secs(40);

async fn strict(url: &str) -> MysqlStore {
    MysqlStore::open(url, MysqlOptions::default()).await.expect("a store")
}

async fn read(store: &MysqlStore) -> Result<(), StoreError> {
    store.read(&[Read::Record { key: key(1, "a"), follow: None }]).await.map(drop)
}

/// Waits for reads to fail, or to be answered.
async fn until(store: &MysqlStore, answered: bool) {
    let begun = Instant::now();
    while read(store).await.is_ok() != answered {
        assert!(begun.elapsed() < PATIENCE, "reads are not {answered} yet");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Neither reads nor commits, and says why.
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
fn a_server_that_came_back_with_lax_settings_is_refused_or_told() {
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
        assert_eq!(accepting.durability(), Durability::Relaxed, "told at the first connection");
        bench.server.kill();
        bench.server.set(&[]);
        bench.server.restart();
        until(&careful, true).await;
        until(&accepting, true).await;
        assert_eq!(accepting.durability(), Durability::Strict);
    });
}

/// `SET GLOBAL` breaks no connection: the server is asked now and then all the same.
#[test]
fn settings_that_change_while_connections_last_are_noticed() {
    bench::run(async |bench| {
        let (careful, accepting) = (strict(&bench.direct).await, open(&bench.direct).await);
        read(&careful).await.expect("it is read");
        execute(&bench.direct, "SET GLOBAL innodb_flush_log_at_trx_commit = 0").await;
        until(&careful, false).await;
        refused(&careful, "innodb_flush_log_at_trx_commit is 0").await;
        let begun = Instant::now();
        while accepting.durability() == Durability::Strict {
            read(&accepting).await.expect("it is accepted");
            assert!(begun.elapsed() < PATIENCE, "nobody asks");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        execute(&bench.direct, "SET GLOBAL innodb_flush_log_at_trx_commit = 1").await;
        // A snapshot has a connection of its own, which tells of it at once.
        drop(accepting.snapshot().await.expect("a snapshot"));
        assert_eq!(accepting.durability(), Durability::Strict);
        execute(&bench.direct, "SET GLOBAL read_only = 1").await;
        until(&accepting, false).await;
        refused(&accepting, "read_only is on").await;
    });
}

/// An address that moves to a replica, which has what there was and is not read.
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
        // One that takes writes is a replica all the same.
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

/// An address that moves while connections stand: the server of before goes on taking writes.
#[test]
fn a_server_that_the_address_has_left_is_not_used_over_old_connections() {
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
            assert!(begun.elapsed() < PATIENCE, "the old server is still read");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        for _ in 0..20 {
            assert_eq!(found().await.as_deref(), Some(&b"new"[..]));
        }
    });
}

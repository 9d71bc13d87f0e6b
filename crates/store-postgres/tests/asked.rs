//! What a server must be is asked of every connection, and again while connections last.

mod test_database;

use std::time::{Duration, Instant};

use databases::Database;
use proxy::Proxy;
use store::{Durability, MetaStore as _, Read, StoreError, StoreErrorKind, Value};
use store_postgres::{PostgresOptions, PostgresStore};
use url::Url;

use crate::test_database::{held, key, own_server, plan, put, run, run_at, write};

/// Longer than the store goes on without asking again.
const PATIENCE: Duration = Duration::from_secs(40);

async fn opened(url: &str, relaxed: bool) -> PostgresStore {
    let options = PostgresOptions { relaxed, ..PostgresOptions::default() };
    PostgresStore::open(url, options).await.expect("a store")
}

async fn read(store: &PostgresStore) -> Result<(), StoreError> {
    store.read(&[Read::Record { key: key("a"), follow: None }]).await.map(drop)
}

/// Waits for reads to fail, or to be answered.
async fn until(store: &PostgresStore, answered: bool) {
    let begun = Instant::now();
    while read(store).await.is_ok() != answered {
        assert!(begun.elapsed() < PATIENCE, "reads are not {answered} yet");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Neither reads nor commits, and says why.
async fn refused(store: &PostgresStore, word: &str) {
    let committed = store.commit(&[plan([], [put("a", "lost")])]).await.map(drop);
    for error in [read(store).await, committed].map(|it| it.expect_err("it is refused")) {
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains(word), "no word of {word}: {error}");
    }
}

/// A server that comes back with other settings on the same port.
#[test]
fn a_server_that_came_back_with_lax_settings_is_refused_or_told() {
    run(async {
        let Some(mut server) = own_server() else { return };
        let url = server.url();
        let (careful, accepting) = (opened(&url, false).await, opened(&url, true).await);
        write(&careful, [put("a", "kept")]).await;
        assert_eq!(held(&accepting, "a").await, Some(Value::from_static(b"kept")));
        assert_eq!(accepting.durability(), Durability::Strict);
        server.kill();
        server.set(&["-c", "synchronous_commit=off"]);
        server.restart();
        until(&careful, false).await;
        for _ in 0..4 {
            refused(&careful, "synchronous_commit is off").await;
        }
        until(&accepting, true).await;
        assert_eq!(accepting.durability(), Durability::Relaxed, "told at the first connection");
        server.kill();
        server.set(&[]);
        server.restart();
        until(&careful, true).await;
        until(&accepting, true).await;
        write(&accepting, [put("a", "again")]).await;
        assert_eq!(accepting.durability(), Durability::Strict);
    });
}

/// A session keeps what it began with, and a new one tells what there is now. No connection breaks.
#[test]
fn settings_that_change_while_connections_last_are_noticed() {
    run(async {
        let Some(server) = own_server() else { return };
        let url = server.url();
        let (careful, accepting) = (opened(&url, false).await, opened(&url, true).await);
        write(&careful, [put("a", "kept")]).await;
        let address = Url::parse(&url).expect("a URL");
        run_at(&address, "alter database postgres set synchronous_commit = off").await;
        until(&careful, false).await;
        refused(&careful, "synchronous_commit is off").await;
        let begun = Instant::now();
        while accepting.durability() == Durability::Strict {
            read(&accepting).await.expect("it is accepted");
            assert!(begun.elapsed() < PATIENCE, "nobody asks");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        run_at(&address, "alter database postgres reset synchronous_commit").await;
        // A snapshot has a connection of its own, which tells of it at once.
        drop(accepting.snapshot().await.expect("a snapshot"));
        assert_eq!(accepting.durability(), Durability::Strict);
        write(&accepting, [put("a", "again")]).await;
    });
}

/// An address that moves to a standby, which has what there was and is not read.
#[test]
fn an_address_that_moves_to_a_standby_is_not_read() {
    run(async {
        let Some(server) = own_server() else { return };
        let proxy = Proxy::start(server.address()).expect("a proxy");
        let through = Database::through(&server.url(), server.address(), proxy.address());
        let stores = [opened(&through, false).await, opened(&through, true).await];
        write(&stores[0], [put("a", "old")]).await;
        let standby = Database::replica(&server);
        let there = Url::parse(&standby.url()).expect("a URL");
        proxy.move_to(standby.address());
        for store in &stores {
            until(store, false).await;
            for _ in 0..4 {
                refused(store, "standby").await;
            }
        }
        run_at(&there, "select pg_promote()").await;
        for store in &stores {
            until(store, true).await;
            assert_eq!(held(store, "a").await, Some(Value::from_static(b"old")));
        }
    });
}

/// An address that moves while connections stand: the server of before goes on taking writes.
#[test]
fn a_server_that_the_address_has_left_is_not_used_over_old_connections() {
    run(async {
        let Some(server) = own_server() else { return };
        let proxy = Proxy::start(server.address()).expect("a proxy");
        let through = Database::through(&server.url(), server.address(), proxy.address());
        let store = opened(&through, false).await;
        write(&store, [put("a", "old")]).await;
        let promoted = Database::replica(&server);
        let there = Url::parse(&promoted.url()).expect("a URL");
        run_at(&there, "select pg_promote()").await;
        let beside = opened(&promoted.url(), false).await;
        write(&beside, [put("a", "new")]).await;
        assert_eq!(held(&store, "a").await, Some(Value::from_static(b"old")), "one that stands");
        proxy.move_new_to(promoted.address());
        assert_eq!(held(&store, "a").await, Some(Value::from_static(b"old")), "it did not break");
        let begun = Instant::now();
        while held(&store, "a").await != Some(Value::from_static(b"new")) {
            assert!(begun.elapsed() < PATIENCE, "the old server is still read");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        for _ in 0..20 {
            assert_eq!(held(&store, "a").await, Some(Value::from_static(b"new")));
        }
    });
}

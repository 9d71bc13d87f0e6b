//! Each connection checks the server, and while connections exist the check is repeated.

mod test_database;

use std::time::{Duration, Instant};

use databases::Database;
use proxy::Proxy;
use store::{Durability, MetaStore as _, Read, StoreError, StoreErrorKind, Value};
use store_postgres::{PostgresOptions, PostgresStore};
use url::Url;

use crate::test_database::{held, key, own_server, plan, put, run, run_at, write};

/// Longer than the interval of the checks.
const CHECK_DEADLINE: Duration = Duration::from_secs(40);

/// Accepts the asynchronous standbys of these tests.
const PROMISE: &str = "async_standbys=never_promoted";

async fn opened(url: &str, relaxed: bool) -> PostgresStore {
    let options = PostgresOptions { relaxed, ..PostgresOptions::default() };
    PostgresStore::open(url, options).await.expect("a store")
}

async fn read(store: &PostgresStore) -> Result<(), StoreError> {
    store.read(&[Read::Record { key: key("a"), follow: None }]).await.map(drop)
}

/// Waits until reads fail, or until they succeed.
async fn until(store: &PostgresStore, answered: bool) {
    let begun = Instant::now();
    while read(store).await.is_ok() != answered {
        assert!(begun.elapsed() < CHECK_DEADLINE, "reads are not {answered} yet");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Checks that the store refuses reads and commits, with the word in the error.
async fn refused(store: &PostgresStore, word: &str) {
    let committed = store.commit(&[plan([], [put("a", "lost")])]).await.map(drop);
    for error in [read(store).await, committed].map(|it| it.expect_err("it is refused")) {
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains(word), "no word of {word}: {error}");
    }
}

/// A server that comes back with other settings on the same port.
#[test]
fn a_server_that_came_back_with_lax_settings_is_refused_or_reported() {
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
        assert_eq!(accepting.durability(), Durability::Relaxed, "reported at the first connection");
        server.kill();
        server.set(&[]);
        server.restart();
        until(&careful, true).await;
        until(&accepting, true).await;
        write(&accepting, [put("a", "again")]).await;
        assert_eq!(accepting.durability(), Durability::Strict);
    });
}

/// A session keeps the settings with which it began; a new session has the present ones. No
/// connection breaks.
#[test]
fn settings_that_change_during_connections_are_noticed() {
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
            assert!(begun.elapsed() < CHECK_DEADLINE, "no check of the server");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        run_at(&address, "alter database postgres reset synchronous_commit").await;
        // A snapshot has a new connection, which finds the new setting at once.
        drop(accepting.snapshot().await.expect("a snapshot"));
        assert_eq!(accepting.durability(), Durability::Strict);
        write(&accepting, [put("a", "again")]).await;
    });
}

/// The address moves to a standby, which has the old records.
#[test]
fn an_address_that_moves_to_a_standby_is_not_read() {
    run(async {
        let Some(server) = own_server() else { return };
        let proxy = Proxy::start(server.address()).expect("a proxy");
        let through = Database::through(&server.url(), server.address(), proxy.address());
        let through = format!("{through}?{PROMISE}");
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

/// The address moves while connections exist, and the previous server still accepts writes.
#[test]
fn old_connections_to_a_previous_server_are_not_used() {
    run(async {
        let Some(server) = own_server() else { return };
        let proxy = Proxy::start(server.address()).expect("a proxy");
        let through = Database::through(&server.url(), server.address(), proxy.address());
        let through = format!("{through}?{PROMISE}");
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
            assert!(begun.elapsed() < CHECK_DEADLINE, "the old server is still read");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        for _ in 0..20 {
            assert_eq!(held(&store, "a").await, Some(Value::from_static(b"new")));
        }
    });
}

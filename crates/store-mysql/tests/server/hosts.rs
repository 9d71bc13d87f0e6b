//! URLs that name several hosts, of which one is the primary.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use databases::Database;
use store::{Durability, MetaStore, Read, ReadResult, StoreError};
use store_mysql::{MysqlOptions, MysqlStore};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::bench::{self, Bench};
use crate::service::{decide_one, execute, key, plan, put, record};

/// Longer than the interval of the checks.
const CHECK_DEADLINE: Duration = Duration::from_secs(40);

/// Limit of the time to open a store, with the creation of its tables.
const OPEN_DEADLINE: Duration = Duration::from_secs(10);

/// How long a connection waits for an answer before its address counts as a black hole.
const SILENCE: Duration = Duration::from_millis(500);

/// The promise with which asynchronous replicas are accepted.
const PROMISE: &str = "async_standbys=never_promoted";

async fn open(hosts: &[SocketAddr]) -> Result<MysqlStore, StoreError> {
    let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    let url = format!("mysql://root@{}/ashlar?{PROMISE}", hosts.join(","));
    MysqlStore::open(&url, MysqlOptions::default()).await
}

/// Returns the URL of the database at one server.
fn at(server: &Database) -> String {
    format!("mysql://root@{}/ashlar", server.address())
}

async fn promote(replica: &Database) {
    execute(&at(replica), "STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = 0").await;
}

async fn write(store: &MysqlStore, value: &str) {
    decide_one(store, plan([], [put(key(1, "a"), value)])).await;
}

/// Returns an address that refuses connections.
fn down() -> SocketAddr {
    ports::reserve()
}

/// An address that does not answer, because its queue of connections is full.
struct BlackHole {
    address: SocketAddr,
    _listener: TcpListener,
    _queued: Vec<TcpStream>,
}

async fn black_hole() -> BlackHole {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
    let listener = socket.listen(1).expect("it listens");
    let address = listener.local_addr().expect("its address");
    let mut queued = Vec::new();
    while let Ok(stream) = tokio::time::timeout(SILENCE, TcpStream::connect(address)).await {
        queued.push(stream.expect("the queue is not full"));
        assert!(queued.len() < 100, "the queue does not fill");
    }
    BlackHole { address, _listener: listener, _queued: queued }
}

async fn failure(store: &MysqlStore) -> Option<String> {
    let read = [Read::Record { key: key(1, "a"), follow: None }];
    store.read(&read).await.err().map(|error| error.to_string())
}

/// Waits until a record has a value, and checks that it keeps that value.
async fn until_held(store: &MysqlStore, value: &str) {
    let begun = Instant::now();
    let read = [Read::Record { key: key(1, "a"), follow: None }];
    loop {
        match store.read(&read).await.map(|mut found| found.remove(0)) {
            Ok(ReadResult::Record(Some(found))) if *found.value == *value.as_bytes() => break,
            other => assert!(begun.elapsed() < CHECK_DEADLINE, "no {value:?}: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for _ in 0..20 {
        assert_eq!(record(store, &key(1, "a")).await.as_deref(), Some(value.as_bytes()));
    }
}

/// Waits until reads fail with this text, and returns the error.
async fn until_refused(store: &MysqlStore, text: &str) -> String {
    let begun = Instant::now();
    loop {
        match failure(store).await {
            Some(error) if error.contains(text) => return error,
            found => assert!(begun.elapsed() < CHECK_DEADLINE, "no {text}: {found:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[test]
fn the_primary_is_found_behind_hosts_that_cannot_be_used() {
    bench::run(async |bench: Bench| {
        let replica = Database::replica(&bench.server);
        let hole = black_hole().await;
        for first in [down(), hole.address, replica.address()] {
            let begun = Instant::now();
            let store = open(&[first, bench.server.address()]).await.expect("the second host");
            assert!(begun.elapsed() < OPEN_DEADLINE, "{first} delays the others");
            write(&store, "kept").await;
            // The primary of the search is used at once: no host delays each new connection.
            let begun = Instant::now();
            drop(store.snapshot().await.expect("a snapshot"));
            assert!(begun.elapsed() < SILENCE, "{first} delays a connection");
            store.close().await;
        }
    });
}

#[test]
fn an_error_names_each_host_with_its_reason() {
    bench::run(async |mut bench: Bench| {
        let replica = Database::replica(&bench.server);
        bench.server.kill();
        let (hole, absent) = (black_hole().await, down());
        let begun = Instant::now();
        let hosts = [absent, hole.address, replica.address()];
        let error = open(&hosts).await.expect_err("no primary").to_string();
        assert!(begun.elapsed() < Duration::from_secs(3), "the hosts are asked side by side");
        let part = |host: SocketAddr| {
            let place = error.find(&format!("{host}: ")).expect("each host is named");
            error[place..].split("; ").next().unwrap_or_default().to_owned()
        };
        assert!(part(absent).contains("refused"), "{error}");
        assert!(part(hole.address).contains("no answer within"), "{error}");
        assert!(part(replica.address()).contains("read_only is on"), "{error}");
    });
}

#[test]
fn a_store_follows_a_failover_and_refuses_the_former_primary() {
    bench::run(async |mut bench: Bench| {
        let mut replica = Database::replica(&bench.server);
        let hosts = [bench.server.address(), replica.address()];
        let store = open(&hosts).await.expect("a store");
        write(&store, "old").await;
        // The replica is asynchronous, so wait until it has the change.
        wait_for_replica(&bench.server, &replica).await;
        bench.server.kill();
        promote(&replica).await;
        until_held(&store, "old").await;
        write(&store, "new").await;
        drop(store.snapshot().await.expect("a new connection, which shows the newest transaction"));
        // The former primary comes back, and still accepts writes.
        bench.server.restart();
        execute(&at(&bench.server), "CREATE TABLE proof (n INT)").await;
        until_held(&store, "new").await;
        // A store that starts now cannot know which of the two is the primary.
        let error = open(&hosts).await.expect_err("two primaries").to_string();
        assert!(error.contains("it and another server accept writes"), "{error}");
        // Without its successor the former primary is refused by a store that has seen it.
        replica.kill();
        let error = until_refused(&store, "former primary").await;
        assert!(error.contains(&replica.address().to_string()), "{error}");
        replica.restart();
        // Its setting of `read_only` was lost with the restart, so it accepts writes.
        until_held(&store, "new").await;
    });
}

/// Waits until a replica has all transactions of its primary.
async fn wait_for_replica(primary: &Database, replica: &Database) {
    use sqlx::Row;
    let mut connection = crate::service::connect(&at(primary)).await;
    let asked = sqlx::raw_sql("SELECT @@gtid_binlog_pos").fetch_one(&mut connection).await;
    let position: String = asked.and_then(|row| row.try_get(0)).expect("a position");
    let wait = format!("SELECT MASTER_GTID_WAIT('{position}', 30)");
    let mut connection = crate::service::connect(&at(replica)).await;
    let asked = sqlx::raw_sql(sqlx::AssertSqlSafe(wait)).fetch_one(&mut connection).await;
    let waited: i32 = asked.and_then(|row| row.try_get(0)).expect("an answer");
    assert_eq!(waited, 0, "the replica follows");
}

#[test]
fn a_primary_that_stood_still_during_a_failover_is_not_read() {
    bench::run(async |bench: Bench| {
        let replica = Database::replica(&bench.server);
        let hosts = [bench.server.address(), replica.address()];
        let store = open(&hosts).await.expect("a store");
        let idle = open(&hosts).await.expect("a store");
        write(&store, "old").await;
        until_held(&idle, "old").await;
        wait_for_replica(&bench.server, &replica).await;
        bench.server.freeze(true);
        promote(&replica).await;
        until_held(&store, "old").await;
        write(&store, "new").await;
        bench.server.freeze(false);
        execute(&at(&bench.server), "CREATE TABLE proof (n INT)").await;
        until_held(&store, "new").await;
        // This store has connections that survived the pause. Its next check uses the successor, if
        // the former primary does not answer yet. Otherwise it finds two servers that accept
        // writes, and uses none of them until the former primary is read-only.
        let read = [Read::Record { key: key(1, "a"), follow: None }];
        let begun = Instant::now();
        loop {
            match idle.read(&read).await.map(|mut found| found.remove(0)) {
                Ok(ReadResult::Record(Some(found))) if *found.value == *b"new" => break,
                Err(error) if error.to_string().contains("it and another server") => break,
                other => assert!(begun.elapsed() < CHECK_DEADLINE, "the old one: {other:?}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        execute(&at(&bench.server), "SET GLOBAL read_only = 1").await;
        until_held(&idle, "new").await;
    });
}

#[test]
fn asynchronous_replicas_need_relaxed_durability_or_a_promise() {
    bench::run(async |bench: Bench| {
        let _replica = Database::replica(&bench.server);
        let opened = async |url: &str, relaxed: bool| {
            MysqlStore::open(url, MysqlOptions { relaxed, ..MysqlOptions::default() }).await
        };
        let error = opened(&bench.direct, false).await.expect_err("it may take over").to_string();
        assert!(error.contains("Slaves_connected is 1"), "{error}");
        assert!(error.contains(PROMISE) && error.contains("durability=relaxed"), "{error}");
        let relaxed = opened(&bench.direct, true).await.expect("a store");
        assert_eq!(relaxed.durability(), Durability::Relaxed);
        let promised = opened(&format!("{}?{PROMISE}", bench.direct), false).await;
        assert_eq!(promised.expect("a store").durability(), Durability::Strict);
    });
}

#[test]
fn semi_synchronous_replicas_are_accepted_while_commits_wait_for_them() {
    bench::run(async |bench: Bench| {
        let replica = Database::replica(&bench.server);
        let there = at(&replica);
        execute(
            &bench.direct,
            "SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC; \
             SET GLOBAL rpl_semi_sync_master_timeout = 1000; \
             SET GLOBAL rpl_semi_sync_master_enabled = 1",
        )
        .await;
        execute(&there, "STOP SLAVE; SET GLOBAL rpl_semi_sync_slave_enabled = 1; START SLAVE")
            .await;
        let begun = Instant::now();
        let store = loop {
            match MysqlStore::open(&bench.direct, MysqlOptions::default()).await {
                Ok(store) => break store,
                Err(error) => assert!(begun.elapsed() < CHECK_DEADLINE, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        assert_eq!(store.durability(), Durability::Strict);
        write(&store, "on both").await;
        // The replica stands still, so after its timeout the primary does not wait any more.
        replica.freeze(true);
        write(&store, "on one").await;
        until_refused(&store, "Slaves_connected").await;
        replica.freeze(false);
    });
}

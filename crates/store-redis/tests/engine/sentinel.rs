//! Sentinels that name the master, and failovers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use store::{
    Changes, Durability, MetaStore, Position, Read, StoreError, StoreErrorKind, Verdict, Write,
};
use store_redis::{RedisOptions, RedisStore};
use tokio::time::timeout;

use crate::group::{GROUP, Group, PATIENCE, Sentinel, fact, is_installed, wait_until};
use crate::server::{self, own, relaxed};
use crate::settings::{certify, run, serve_tls};
use crate::{counter, key, number, plan, point, put, record, write};

/// The bar for a failover, from the fault to the first commit at the new master.
const FAILOVER_MAX: Duration = Duration::from_secs(30);

/// Number of times in which a store is opened: on a busy machine a Sentinel may answer too late.
const OPENINGS: u32 = 10;

async fn open(url: &str) -> RedisStore {
    for _ in 1..OPENINGS {
        match RedisStore::open(url, relaxed()).await {
            Err(error) if error.to_string().contains("timed out") => {}
            opened => return opened.unwrap_or_else(|error| panic!("{url}: {error}")),
        }
    }
    RedisStore::open(url, relaxed()).await.unwrap_or_else(|error| panic!("{url}: {error}"))
}

async fn refused(url: &str, parts: &[&str]) -> StoreError {
    let error = RedisStore::open(url, relaxed()).await.expect_err("no master");
    for part in parts {
        assert!(error.to_string().contains(part), "no word of {part}: {error}");
    }
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    error
}

async fn here(store: &dyn MetaStore) -> Position {
    match store.changes(None).await.expect("a position") {
        Changes::Notified { next, .. } => next,
        Changes::Gap { .. } => panic!("there cannot be a gap"),
    }
}

/// Commits until a commit succeeds. Gives up calls that a frozen server does not answer.
async fn commit_until_done(store: &RedisStore, write: Write) {
    let begun = Instant::now();
    let plans = [plan([], [write])];
    loop {
        match timeout(Duration::from_millis(500), store.commit(&plans)).await {
            Ok(Ok(verdicts)) => return assert_eq!(verdicts, [Verdict::Committed]),
            Ok(Err(error)) => {
                let kinds = [StoreErrorKind::Unavailable, StoreErrorKind::Unknown];
                assert!(kinds.contains(&error.kind()), "{error}");
                assert!(begun.elapsed() < FAILOVER_MAX, "no new master: {error}");
            }
            Err(_) => assert!(begun.elapsed() < FAILOVER_MAX, "no new master: no answer"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn await_role(url: &str, role: &str) {
    wait_until(role, || {
        let client = redis::Client::open(url).expect("an address");
        let mut connection = client
            .get_connection_with_timeout(Duration::from_secs(1))
            .map_err(|error| error.to_string())?;
        let found = fact(&mut connection, "role");
        if found == role { Ok(()) } else { Err(found) }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sentinels_name_the_master_or_the_error_names_them() {
    let Some(mut group) = Group::start() else { return };
    let url = group.url();
    let store = open(&url).await;
    write(&store, [put(key(1, "a"), "x")]).await;
    assert_eq!(store.durability(), Durability::Relaxed);
    let direct = open(&group.master.url()).await;
    assert_eq!(record(&direct, key(1, "a")).await.as_deref(), Some(&b"x"[..]));
    // A failover may lose commits although the settings of the server are strict.
    let strict = RedisStore::open(&url, RedisOptions::default()).await.expect_err("not strict");
    for part in ["replication does not wait", "--metadata-durability=relaxed", "min-replicas"] {
        assert!(strict.to_string().contains(part), "{strict}");
    }
    let names = group.sentinels.iter().map(|sentinel| sentinel.address.to_string());
    let names: Vec<String> = names.collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let error = refused(&url.replace(GROUP, "other"), &all).await;
    assert_eq!(error.to_string().matches("it knows no master named other").count(), 3, "{error}");
    let server = group.master.address().to_string();
    let with_server = url.replace(&names[0], &server).replace(&names[1], &server);
    let with_server = with_server.replacen(&format!("{server},"), "", 1);
    refused(&with_server, &["1 of 2", &server, "no Sentinel"]).await;
    group.sentinels[0].kill();
    let other = open(&url).await;
    assert_eq!(record(&other, key(1, "a")).await.as_deref(), Some(&b"x"[..]));
    group.sentinels[1].kill();
    let error = refused(&url, &all).await;
    assert!(error.to_string().contains("1 of 3 Sentinels name the master"), "{error}");
    // An open store is used for some time, and not for ever.
    write(&store, [put(key(1, "a"), "y")]).await;
    wait_for_distrust(&store).await;
    group.sentinels[2].kill();
    let error = refused(&url, &all).await;
    assert!(error.to_string().contains("0 of 3 Sentinels name the master"), "{error}");
}

/// Waits until the store makes no calls any more because most Sentinels are silent.
async fn wait_for_distrust(store: &RedisStore) {
    let begun = Instant::now();
    let reads = [Read::Counter(counter(1))];
    let error = loop {
        match store.read(&reads).await {
            Ok(_) => assert!(begun.elapsed() < Duration::from_secs(13), "it is still trusted"),
            Err(error) => break error,
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert!(begun.elapsed() > Duration::from_secs(5), "not trusted after {:?}", begun.elapsed());
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    let error = store.commit(&[plan([], [put(key(1, "a"), "z")])]).await.expect_err("no master");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_and_servers_have_passwords_of_their_own() {
    if !is_installed() {
        return;
    }
    let Some(master) = own() else { return };
    run(&mut server::connection(&master.url()), &["CONFIG", "SET", "requirepass", "word%41"]);
    let settings = format!("requirepass secret%42\nsentinel auth-pass {GROUP} word%41");
    let sentinel = Sentinel::start(master.address(), 1, &settings);
    sentinel.await_start();
    let url = |servers: &str, sentinels: &str| {
        format!("redis+sentinel://:{servers}@{}/{GROUP}?{sentinels}", sentinel.address)
    };
    let right = "sentinel_password=secret%2542";
    let errors = [
        refused(&url("word%2541", ""), &["sentinel_password"]).await,
        refused(&url("word%2541", "sentinel_password=hunter2"), &["correct sentinel_user"]).await,
        refused(&url("hunter2", right), &[]).await,
    ];
    for error in errors {
        let text = format!("{error} {error:?}");
        assert!(!text.contains("hunter2") && !text.contains("secret"), "{text}");
    }
    let store = open(&url("word%2541", right)).await;
    write(&store, [put(key(1, "a"), "x")]).await;
    let shown = format!("{store:?}");
    assert!(!shown.contains("secret") && !shown.contains("word"), "{shown}");
}

/// The Sentinel names the port with TLS of the server.
#[tokio::test(flavor = "multi_thread")]
async fn servers_and_sentinels_can_use_tls() {
    if !is_installed() {
        return;
    }
    let Some(server) = own() else { return };
    let (port, server_authority) = serve_tls(&server, &["127.0.0.1"]);
    let folder = tempfile::tempdir().expect("a folder");
    let (settings, sentinel_authority) = certify(folder.path(), &["localhost"]);
    let sentinel_port = ports::reserve().port();
    let settings = settings.map(|(name, value)| format!("{name} {value}")).join("\n");
    let settings = format!("{settings}\ntls-port {sentinel_port}");
    let master = SocketAddr::from(([127, 0, 0, 1], port));
    let sentinel = Sentinel::start(master, 1, &settings);
    sentinel.await_start();
    let both = folder.path().join("both.pem");
    let read = |path: &str| std::fs::read_to_string(path).expect("a certificate");
    let certificates = read(&server_authority) + &read(&sentinel_authority);
    std::fs::write(&both, certificates).expect("a file");
    let both = both.display();
    let secure = format!("rediss+sentinel://localhost:{sentinel_port}/{GROUP}?ca=");
    let store = open(&format!("{secure}{both}")).await;
    write(&store, [put(key(1, "a"), "secret")]).await;
    let plain = format!("rediss+sentinel://{}/{GROUP}?sentinel_tls=no&ca=", sentinel.address);
    let store = open(&format!("{plain}{server_authority}")).await;
    assert_eq!(record(&store, key(1, "a")).await.as_deref(), Some(&b"secret"[..]));
    // Neither trusts the other's certificate.
    refused(&format!("{secure}{server_authority}"), &["0 of 1", "ertificate"]).await;
    refused(&format!("{plain}{sentinel_authority}"), &["using the master", "ertificate"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_store_uses_the_new_master_after_a_kill() {
    let Some(mut group) = Group::start() else { return };
    let store = open(&group.url()).await;
    write(&store, [put(key(1, "a"), "before"), Write::Add(counter(1), 1)]).await;
    let before = here(&store).await;
    write(&store, [put(point(1), "before")]).await;
    let changes = store.changes(Some(&before)).await.expect("an answer");
    assert!(matches!(&changes, Changes::Notified { keys, .. } if keys.len() == 1), "{changes:?}");
    let mut replica = server::connection(&group.replica.url());
    let offset = fact(&mut server::connection(&group.master.url()), "master_repl_offset");
    wait_until("the replica has all commits", || {
        let found = fact(&mut replica, "slave_repl_offset");
        if found >= offset { Ok(()) } else { Err(format!("{found} of {offset}")) }
    });
    let begun = Instant::now();
    group.master.kill();
    commit_until_done(&store, put(key(2, "b"), "after")).await;
    println!("a commit at the new master {:?} after the kill", begun.elapsed());
    // A promotion ends the connections of clients.
    await_role(&group.replica.url(), "master");
    assert_eq!(record(&store, key(1, "a")).await.as_deref(), Some(&b"before"[..]));
    assert_eq!(number(&store, counter(1)).await, 1);
    // The position is one of another server, whose entries the new master need not have.
    let changes = store.changes(Some(&before)).await.expect("an answer");
    let Changes::Gap { next } = changes else { panic!("{changes:?}") };
    write(&store, [put(point(2), "after")]).await;
    let changes = store.changes(Some(&next)).await.expect("an answer");
    assert!(matches!(&changes, Changes::Notified { keys, .. } if keys.len() == 1), "{changes:?}");
    // The old master returns, and becomes a replica.
    group.master.restart();
    await_role(&group.master.url(), "slave");
    write(&store, [put(key(2, "b"), "later")]).await;
    assert_eq!(record(&store, key(2, "b")).await.as_deref(), Some(&b"later"[..]));
}

/// The old master acknowledges a commit after the failover. The store reports an unknown outcome,
/// and never returns to that server.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_master_that_thaws_is_not_used_again() {
    let Some(group) = Group::start() else { return };
    let store = Arc::new(open(&group.url()).await);
    write(&*store, [put(key(1, "a"), "before")]).await;
    group.master.freeze(true);
    let frozen = Instant::now();
    let late = Arc::clone(&store);
    #[expect(clippy::disallowed_methods, reason = "the test joins it")]
    let late =
        tokio::spawn(async move { late.commit(&[plan([], [put(key(1, "late"), "lost")])]).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    // The old master also has commits of this, which it had not answered.
    commit_until_done(&store, Write::Add(counter(2), 1)).await;
    println!("a commit at the new master {:?} after the freeze", frozen.elapsed());
    write(&*store, [put(key(1, "a"), "after")]).await;
    assert!(frozen.elapsed() < Duration::from_secs(9), "too late for an answer of the old master");
    group.master.freeze(false);
    let error = late.await.expect("a task").expect_err("the old master has acknowledged");
    assert_eq!(error.kind(), StoreErrorKind::Unknown, "{error}");
    assert!(error.to_string().contains("do not name this server"), "{error}");
    let old = open(&group.master.url()).await;
    assert_eq!(record(&old, key(1, "late")).await.as_deref(), Some(&b"lost"[..]), "no fault");
    assert_eq!(record(&old, key(1, "a")).await.as_deref(), Some(&b"before"[..]), "no fault");
    // It takes itself for the master until a Sentinel makes it a replica.
    let mut direct = server::connection(&group.master.url());
    let mut rounds = 0;
    while fact(&mut direct, "role") == "master" {
        assert_eq!(record(&*store, key(1, "a")).await.as_deref(), Some(&b"after"[..]));
        assert_eq!(record(&*store, key(1, "late")).await, None);
        write(&*store, [Write::Add(counter(1), 1)]).await;
        rounds += 1;
        assert!(frozen.elapsed() < PATIENCE, "it is still a master");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(rounds > 0, "it was a replica at once: that was no test");
    await_role(&group.master.url(), "slave");
    assert_eq!(number(&*store, counter(1)).await, rounds);
    assert_eq!(record(&*store, key(1, "late")).await, None);
    println!("{rounds} rounds beside the old master");
}

/// Replication does not wait, so the last commits are lost. A reader of the feed gets a gap.
#[tokio::test(flavor = "multi_thread")]
async fn commits_that_a_failover_loses_are_a_gap_in_the_feed() {
    let Some(mut group) = Group::start() else { return };
    let store = open(&group.url()).await;
    write(&store, [put(key(1, "a"), "kept")]).await;
    let mut replica = server::connection(&group.replica.url());
    // From now on the replica cannot follow.
    run(&mut replica, &["CONFIG", "SET", "masterauth", "wrong"]);
    run(&mut replica, &["CLIENT", "KILL", "TYPE", "master"]);
    wait_until("the replica has lost the master", || {
        let found = fact(&mut replica, "master_link_status");
        if found == "down" { Ok(()) } else { Err(found) }
    });
    write(&store, [put(key(1, "a"), "lost")]).await;
    let lost = here(&store).await;
    let unchanged = store.changes(Some(&lost)).await.expect("an answer");
    assert!(matches!(unchanged, Changes::Notified { keys, .. } if keys.is_empty()));
    group.master.kill();
    commit_until_done(&store, put(key(2, "b"), "after")).await;
    assert_eq!(record(&store, key(1, "a")).await.as_deref(), Some(&b"kept"[..]), "no fault");
    let changes = store.changes(Some(&lost)).await.expect("an answer");
    assert!(matches!(changes, Changes::Gap { .. }), "{changes:?}");
}

/// The recommended setting bounds what a failover can lose.
#[tokio::test(flavor = "multi_thread")]
async fn a_master_without_replicas_commits_nothing_if_it_must_have_one() {
    let Some(server) = own() else { return };
    let store = open(&server.url()).await;
    write(&store, [put(key(1, "a"), "before")]).await;
    let mut connection = server::connection(&server.url());
    run(&mut connection, &["CONFIG", "SET", "min-replicas-to-write", "1"]);
    for value in ["after", &"after".repeat(1_000)] {
        let plans = [plan([], [put(key(1, "a"), value), put(point(2), value)])];
        let error = store.commit(&plans).await.expect_err("there is no replica");
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        let several = [plans[0].clone(), plan([], [put(point(3), value)])];
        let error = store.commit(&several).await.expect_err("there is no replica");
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert_eq!(record(&store, key(1, "a")).await.as_deref(), Some(&b"before"[..]));
        assert_eq!(record(&store, point(2)).await, None);
    }
    run(&mut connection, &["CONFIG", "SET", "min-replicas-to-write", "0"]);
    write(&store, [put(key(1, "a"), "after")]).await;
}

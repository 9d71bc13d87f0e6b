//! URLs that name several hosts, of which one is the primary.

mod test_database;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use databases::Database;
use store::{Durability, MetaStore as _, Read, ReadResult, StoreError, Value};
use store_postgres::{PostgresOptions, PostgresStore};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use url::Url;

use crate::test_database::{held, key, own_server, put, run, run_at, variable, write};

/// Longer than the interval of the checks.
const CHECK_DEADLINE: Duration = Duration::from_secs(40);

/// Limit of the time to open a store, with the creation of its tables.
const OPEN_DEADLINE: Duration = Duration::from_secs(10);

/// How long a connection waits for an answer before its address counts as a black hole.
const SILENCE: Duration = Duration::from_millis(500);

/// The promise with which asynchronous standbys are accepted.
const PROMISE: &str = "async_standbys=never_promoted";

/// Returns the URL of the hosts.
fn url(hosts: &[SocketAddr]) -> String {
    let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    format!("postgres://postgres@{}/postgres?{PROMISE}", hosts.join(","))
}

async fn open(hosts: &[SocketAddr]) -> Result<PostgresStore, StoreError> {
    PostgresStore::open(&url(hosts), PostgresOptions::default()).await
}

fn at(server: &Database) -> Url {
    Url::parse(&server.url()).expect("a URL")
}

async fn promote(standby: &Database) {
    run_at(&at(standby), "select pg_promote()").await;
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

/// Waits until a record has a value, and checks that it keeps that value.
async fn until_held(store: &PostgresStore, name: &str, value: &'static [u8]) {
    let begun = Instant::now();
    let read = [Read::Record { key: key(name), follow: None }];
    let wanted = Some(Value::from_static(value));
    loop {
        match store.read(&read).await.map(|mut found| found.remove(0)) {
            Ok(ReadResult::Record(found))
                if found.as_ref().map(|entry| &entry.value) == wanted.as_ref() =>
            {
                break;
            }
            other => assert!(begun.elapsed() < CHECK_DEADLINE, "no {value:?}: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for _ in 0..20 {
        assert_eq!(held(store, name).await, wanted);
    }
}

#[test]
fn the_primary_is_found_behind_hosts_that_cannot_be_used() {
    run(async {
        let Some(primary) = own_server() else { return };
        let standby = Database::replica(&primary);
        let hole = black_hole().await;
        for first in [down(), hole.address, standby.address()] {
            let begun = Instant::now();
            let store = open(&[first, primary.address()]).await.expect("the second host");
            assert!(begun.elapsed() < OPEN_DEADLINE, "{first} delays the others");
            write(&store, [put("a", "kept")]).await;
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
    run(async {
        let Some(mut primary) = own_server() else { return };
        let standby = Database::replica(&primary);
        primary.kill();
        let (hole, absent) = (black_hole().await, down());
        let begun = Instant::now();
        let hosts = [absent, hole.address, standby.address()];
        let error = open(&hosts).await.expect_err("no primary").to_string();
        assert!(begun.elapsed() < Duration::from_secs(3), "the hosts are asked side by side");
        let part = |host: SocketAddr| {
            let place = error.find(&format!("{host}: ")).expect("each host is named");
            error[place..].split(';').next().unwrap_or_default().to_owned()
        };
        assert!(part(absent).contains("refused"), "{error}");
        assert!(part(hole.address).contains("no answer within"), "{error}");
        assert!(part(standby.address()).contains("it is a standby"), "{error}");
    });
}

#[test]
fn a_store_follows_a_failover_and_refuses_the_former_primary() {
    run(async {
        let Some(mut primary) = own_server() else { return };
        let mut standby = Database::replica(&primary);
        let hosts = [primary.address(), standby.address()];
        let store = open(&hosts).await.expect("a store");
        write(&store, [put("a", "old")]).await;
        primary.kill();
        promote(&standby).await;
        until_held(&store, "a", b"old").await;
        write(&store, [put("a", "new")]).await;
        // The former primary comes back, and still accepts writes.
        primary.restart();
        run_at(&at(&primary), "create table proof ()").await;
        until_held(&store, "a", b"new").await;
        let beside = open(&hosts).await.expect("the promoted server");
        until_held(&beside, "a", b"new").await;
        // Without its successor it is refused by a store that has seen the successor.
        standby.kill();
        let begun = Instant::now();
        let error = loop {
            let read = [Read::Record { key: key("a"), follow: None }];
            let error = store.read(&read).await.expect_err("no primary").to_string();
            if error.contains("former primary") {
                break error;
            }
            assert!(begun.elapsed() < CHECK_DEADLINE, "{error}");
        };
        assert!(error.contains(&standby.address().to_string()), "{error}");
        standby.restart();
        until_held(&store, "a", b"new").await;
    });
}

#[test]
fn a_primary_that_stood_still_during_a_failover_is_not_read() {
    run(async {
        let Some(primary) = own_server() else { return };
        let standby = Database::replica(&primary);
        let hosts = [primary.address(), standby.address()];
        let (store, idle) =
            (open(&hosts).await.expect("a store"), open(&hosts).await.expect("a store"));
        write(&store, [put("a", "old")]).await;
        until_held(&idle, "a", b"old").await;
        primary.freeze(true);
        promote(&standby).await;
        until_held(&store, "a", b"old").await;
        write(&store, [put("a", "new")]).await;
        primary.freeze(false);
        run_at(&at(&primary), "create table proof ()").await;
        until_held(&store, "a", b"new").await;
        // This store has connections that survived the pause. Its next check finds the successor.
        until_held(&idle, "a", b"new").await;
    });
}

#[test]
fn asynchronous_standbys_need_relaxed_durability_or_a_promise() {
    run(async {
        let Some(primary) = own_server() else { return };
        let standby = Database::replica(&primary);
        let plain = primary.url();
        let opened = async |url: &str, relaxed: bool| {
            PostgresStore::open(url, PostgresOptions { relaxed, ..PostgresOptions::default() })
                .await
        };
        // The standby connects a moment after it has started.
        let begun = Instant::now();
        let error = loop {
            match opened(&plain, false).await {
                Ok(_) => assert!(begun.elapsed() < CHECK_DEADLINE, "no standby connects"),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains("asynchronous standbys (1)"), "{error}");
        assert!(error.contains(PROMISE) && error.contains("durability=relaxed"), "{error}");
        let relaxed = opened(&plain, true).await.expect("a store");
        assert_eq!(relaxed.durability(), Durability::Relaxed);
        let promised = opened(&format!("{plain}?{PROMISE}"), false).await.expect("a store");
        assert_eq!(promised.durability(), Durability::Strict);
        // A role that may not see the standbys.
        run_at(&at(&primary), "create role blind login; grant create on schema public to blind")
            .await;
        let blind = plain.replace("postgres@", "blind@").replace("/postgres", "/blind");
        run_at(&at(&primary), "create database blind owner blind").await;
        let blind = opened(&blind, false).await.expect("it cannot be checked");
        assert_eq!(blind.durability(), Durability::Strict);
        run_at(&at(&primary), "alter system set synchronous_standby_names = '*'").await;
        run_at(&at(&primary), "select pg_reload_conf()").await;
        let begun = Instant::now();
        let strict = loop {
            match opened(&plain, false).await {
                Ok(store) => break store,
                Err(error) => assert!(begun.elapsed() < CHECK_DEADLINE, "{error}"),
            }
        };
        assert_eq!(strict.durability(), Durability::Strict);
        write(&strict, [put("a", "on both")]).await;
        drop(standby);
    });
}

/// A program of util-linux that runs a command with its own view of the file system.
const UNSHARE: &str = "unshare";

/// The variable with which the test of names calls itself: the port of both servers.
const PORT_OF_NAME: &str = "ASHLAR_TEST_PORT_OF_NAME";

/// Accepts connections at an address, and connects each of them with a server.
fn relay(from: SocketAddr, to: SocketAddr) {
    let listener = std::net::TcpListener::bind(from).expect("a free address");
    let copy = |mut from: std::net::TcpStream, mut to: std::net::TcpStream| {
        let copying = std::thread::Builder::new().spawn(move || {
            // Each side may end the connection.
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(std::net::Shutdown::Write);
        });
        copying.expect("a thread");
    };
    let accepting = std::thread::Builder::new().spawn(move || {
        while let Ok((client, _)) = listener.accept() {
            let Ok(server) = std::net::TcpStream::connect(to) else { continue };
            let twice = |stream: &std::net::TcpStream| stream.try_clone().expect("a handle");
            copy(twice(&client), twice(&server));
            copy(server, client);
        }
    });
    accepting.expect("a thread");
}

/// The name `two.test` leads to a standby and to the primary. A second process of this test, whose
/// file of names has both addresses, opens the store by the name.
#[test]
fn all_addresses_of_a_name_are_asked() {
    if let Some(port) = variable(PORT_OF_NAME) {
        return run(async {
            let found = tokio::net::lookup_host(("two.test", 1)).await.expect("two addresses");
            assert_eq!(found.map(|it| it.ip().to_string()).collect::<Vec<_>>(), TWO);
            let url = format!("postgres://postgres@two.test:{port}/postgres?{PROMISE}");
            let store = PostgresStore::open(&url, PostgresOptions::default()).await;
            write(&store.expect("the second address"), [put("a", "kept")]).await;
        });
    }
    run(async {
        let Some(primary) = own_server() else { return };
        let standby = Database::replica(&primary);
        let port = primary.address().port();
        for (address, server) in TWO.into_iter().zip([&standby, &primary]) {
            relay(SocketAddr::new(address.parse().expect("an address"), port), server.address());
        }
        let names = tempfile::NamedTempFile::new().expect("a file");
        let lines = TWO.map(|address| format!("{address} two.test\n")).concat();
        std::fs::write(names.path(), lines).expect("it is written");
        let script = "mount --bind \"$1\" /etc/hosts && exec \"$2\" --exact \"$3\" --nocapture";
        let mut command = std::process::Command::new(UNSHARE);
        command.args(["--mount", "--map-root-user", "sh", "-c", script, "sh"]).arg(names.path());
        command.arg(std::env::current_exe().expect("this program"));
        command.arg("all_addresses_of_a_name_are_asked");
        command.env(PORT_OF_NAME, port.to_string());
        let output = command.output().expect("unshare runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains("1 passed"), "{text}");
        assert_eq!(
            held(&open(&[primary.address()]).await.expect("a store"), "a").await.as_deref(),
            Some(&b"kept"[..])
        );
    });
}

/// The addresses of the name: of a standby, and of the primary.
const TWO: [&str; 2] = ["127.0.0.2", "127.0.0.3"];

//! The database is killed and restarted under load: no acknowledged change is lost, no object is
//! torn, and the gateways recover without help.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use databases::Database;

use crate::client::{Client, Request};
use crate::fleet::{BlockKind, Engine, Fleet, clients, on_each_server, on_servers_together};
use crate::load::{Load, Planted};
use crate::scale;
use crate::servers::wait_for;

on_each_server!(a_killed_database_loses_no_acknowledged_change);
on_servers_together!(a_long_outage_ends_no_session);

/// The least number of responses, however long they take.
const ENOUGH: u64 = 800;

/// The time limit of recovery after the database is back.
const RECOVERY: Duration = Duration::from_secs(5);

/// Returns the time until a PUT succeeds.
fn recovers(client: &Client, key: &str) -> Duration {
    let began = Instant::now();
    let put = Request::new("PUT", key).body("again");
    let works = || client.try_send(&put).is_ok_and(|answer| answer.status == 200);
    assert!(wait_for(RECOVERY * 4, works), "not even within {:?}", RECOVERY * 4);
    began.elapsed()
}

/// Kills and restarts the database under load. Returns the recovery time of the slower gateway.
fn kill_and_restart(database: &mut Database, clients: &[Client; 2], round: u64) -> Duration {
    database.kill();
    std::thread::sleep(Duration::from_millis(round * 97 % 700));
    database.restart();
    std::thread::scope(|scope| {
        let probes = [0, 1].map(|at: usize| {
            scope.spawn(move || recovers(&clients[at], &format!("/box/probe-{at}")))
        });
        let took = probes.map(|probe| probe.join().expect("it recovers"));
        took.into_iter().max().unwrap_or_default()
    })
}

fn a_killed_database_loses_no_acknowledged_change(engine: Engine) {
    let Some(mut fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let gateways = fleet.start();
    let clients = clients(&gateways);
    let mut load = Load::new("hot", Planted::None);
    let database = fleet.database.as_mut().expect("a server");
    let slowest = load.run(&clients, |progress| {
        let mut slowest = Duration::ZERO;
        for round in 0..scale::kills() {
            progress.wait_for_more(150);
            slowest = slowest.max(kill_and_restart(database, &clients, round));
        }
        progress.wait_for_at_least(ENOUGH);
        slowest
    });
    load.read_all(&clients);
    let figures = load.is_linearizable();
    let disturbed = figures.of("unknown") + figures.of("later");
    assert!(disturbed >= scale::kills(), "no client noticed the kills: {figures}");
    assert_eq!(figures.of("cut"), 0, "every request has an answer: {figures}");
    eprintln!(
        "{}: {} kills, served again within {slowest:?}: {figures}",
        engine.name(),
        scale::kills()
    );
    assert!(slowest < RECOVERY, "it took {slowest:?} until a gateway served again");
    fleet.stop_and_check(gateways);
}

/// Longer than the limit for a silent session. No gateway could send a heartbeat, and none could
/// look.
const LONG: Duration = Duration::from_secs(33);

fn a_long_outage_ends_no_session(engine: Engine) {
    let Some(mut fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let gateways = fleet.start();
    let clients = clients(&gateways);
    clients[0].put("/box/object", b"content").expect(200);
    let database = fleet.database.as_mut().expect("a server");
    database.kill();
    std::thread::sleep(LONG);
    assert_eq!(clients[1].put("/box/during", b"").status, 503);
    database.restart();
    let took = [0, 1].map(|at: usize| recovers(&clients[at], &format!("/box/probe-{at}")));
    // By then each gateway has checked the session of the other.
    std::thread::sleep(Duration::from_secs(5));
    for (client, other) in [(&clients[0], &clients[1]), (&clients[1], &clients[0])] {
        client.put("/box/object", client.address.as_bytes()).expect(200);
        assert_eq!(other.get("/box/object").expect(200).text(), client.address);
    }
    let ended = gateways.iter().any(|gateway| gateway.log().contains("session was ended"));
    assert!(!ended, "{}\n{}", gateways[0].log(), gateways[1].log());
    eprintln!("{}: {LONG:?} without a database, served again within {took:?}", engine.name());
    assert!(took.iter().all(|took| *took < RECOVERY), "it took {took:?}");
    fleet.stop_and_check(gateways);
}

/// Sends a command to Redis.
pub(crate) fn redis(database: &Database, command: &str) {
    let mut stream = TcpStream::connect(database.address()).expect("Redis listens");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    stream.write_all(format!("{command}\r\n").as_bytes()).expect("a command is taken");
    let mut answer = [0; 64];
    let length = stream.read(&mut answer).expect("an answer");
    let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
    assert_eq!(answer, "+OK\r\n", "{command}");
}

#[test]
fn a_redis_without_durability_requires_the_relaxed_option() {
    let Some(fleet) = Fleet::new(Engine::Redis, BlockKind::Folder) else { return };
    let database = fleet.database.as_ref().expect("a server");
    redis(database, "CONFIG SET appendfsync everysec");
    let (ended, said) =
        fleet.first.try_start().expect_err("the store may lose acknowledged commits");
    assert!(ended.is_some_and(|status| !status.success()), "{ended:?}\n{said}");
    for word in ["appendfsync", "--metadata-durability=relaxed"] {
        assert!(said.contains(word), "the refusal says nothing of {word}:\n{said}");
    }
    let relaxed = fleet.first.clone().options(&["--metadata-durability=relaxed"]);
    let gateway = relaxed.start();
    gateway.client.put("/box", b"").expect(200);
    gateway.client.put("/box/object", b"content").expect(200);
    let status = gateway.admin_page("/status");
    assert!(status.contains(r#""durability": "relaxed""#), "{status}");
    let log = gateway.log_of_this_run();
    let warned = log.lines().any(|line| line.contains("WARN") && line.contains("appendfsync"));
    assert!(warned, "the log has no warning:\n{log}");
    gateway.stop();
    redis(database, "CONFIG SET appendfsync always");
    let gateway = fleet.first.start();
    let status = gateway.admin_page("/status");
    assert!(status.contains(r#""durability": "strict""#), "{status}");
    fleet.stop_and_check(vec![gateway]);
}

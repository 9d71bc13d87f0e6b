//! A gateway without peers answers from its cache, and stops doing so when another gateway changes
//! something.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::client::{Client, Request};
use crate::fleet::{BlockKind, Engine, Fleet, on_each_engine, on_each_server};
use crate::load::{Load, Planted};
use crate::servers::{Gateway, wait_for};

on_each_engine!(a_gateway_without_peers_reads_from_its_cache);
on_each_server!(
    a_paused_gateway_serves_no_stale_reads_after_a_peer_joined,
    histories_are_linearizable_while_a_gateway_comes_and_goes,
);

/// The time limit until a gateway knows that it has no peer, on a busy machine.
const KNOWN: Duration = Duration::from_secs(20);

/// Number of keys that are read before and after.
const KEYS: u64 = 50;

/// Returns the number of reads that a gateway has answered from its cache.
fn remembered(gateway: &Gateway) -> u64 {
    gateway.counter("ashlar_metadata_cached_reads_total ")
}

/// Waits until a gateway answers a GET of this key from its cache.
#[track_caller]
pub(crate) fn is_sole(gateway: &Gateway, key: &str) {
    let answers = || {
        let before = remembered(gateway);
        gateway.client.get(key).expect(200);
        remembered(gateway) > before
    };
    assert!(
        wait_for(KNOWN, answers),
        "it does not know that it is the only one:\n{}",
        gateway.log()
    );
}

fn a_gateway_without_peers_reads_from_its_cache(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let gateway = fleet.first.start();
    let client = &gateway.client;
    client.put("/box", b"").expect(200);
    client.put("/box/a/key", b"first").expect(200);
    client.put("/box/a/other", b"so that the directory stays").expect(200);
    is_sole(&gateway, "/box/a/key");
    let trips = || gateway.counter("ashlar_metadata_round_trips_total{operation=\"read\"}");
    let (before, known) = (trips(), remembered(&gateway));
    for turn in 0..KEYS {
        let content = turn.to_string();
        client.put("/box/a/key", content.as_bytes()).expect(200);
        assert_eq!(client.get("/box/a/key").expect(200).text(), content);
        client.send(&Request::new("HEAD", "/box/a/key")).expect(200);
        client.delete("/box/a/key").expect(204);
        client.get("/box/a/key").expect(404);
    }
    let (trips, known) = (trips() - before, remembered(&gateway) - known);
    // Background work reads sometimes, and on a busy machine the gateway may have to establish
    // again that it has no peer.
    assert!(
        known > 2 * KEYS && trips < KEYS,
        "{known} were known, {trips} reads went to the store"
    );
    fleet.stop_and_check(vec![gateway]);
}

/// Fails unless each key has this content, as read through this gateway.
#[track_caller]
fn all_are(client: &Client, content: &str) {
    for key in 0..KEYS {
        let found = client.get(&format!("/box/{key}")).expect(200).text();
        assert_eq!(found, content, "key {key}");
    }
}

fn a_paused_gateway_serves_no_stale_reads_after_a_peer_joined(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let sleeper = fleet.first.start();
    sleeper.client.put("/box", b"").expect(200);
    for key in 0..KEYS {
        sleeper.client.put(&format!("/box/{key}"), b"old").expect(200);
    }
    // A gateway that has just started may begin a new generation, and then reads each key once.
    let remembers = || {
        let before = remembered(&sleeper);
        all_are(&sleeper.client, "old");
        remembered(&sleeper) > before + KEYS / 2
    };
    assert!(wait_for(KNOWN, remembers), "it does not remember most of them");
    sleeper.child.signal(Signal::STOP);
    let other = fleet.second().start();
    for key in 0..KEYS {
        other.client.put(&format!("/box/{key}"), b"new").expect(200);
    }
    let known = Instant::now();
    sleeper.child.signal(Signal::CONT);
    all_are(&sleeper.client, "new");
    eprintln!("{}: read {:?} after it woke", engine.name(), known.elapsed());
    fleet.stop_and_check(vec![sleeper, other]);
}

fn histories_are_linearizable_while_a_gateway_comes_and_goes(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let first = fleet.first.start();
    let second = fleet.second().start();
    first.client.put("/box", b"").expect(200);
    first.client.put("/box/known", b"").expect(200);
    let clients = [first.client.clone(), second.client.clone()];
    let address = second.client.address.clone();
    second.stop();
    let mut load = Load::new("hot", Planted::None);
    let answered = load.run(&clients, |progress| {
        let mut answered = 0;
        for round in 0..3 {
            is_sole(&first, "/box/known");
            let before = remembered(&first);
            progress.wait_for_more(200);
            answered += remembered(&first) - before;
            if round == 1 {
                first.child.signal(Signal::STOP);
            }
            let second = fleet.second().at(&address).start();
            progress.wait_for_more(50);
            first.child.signal(Signal::CONT);
            progress.wait_for_more(200);
            second.stop();
        }
        answered
    });
    assert!(answered > 100, "the first gateway remembered {answered} answers only");
    load.read_all(&clients[..1]);
    let figures = load.is_linearizable();
    eprintln!("{}: linearizable with {answered} remembered answers: {figures}", engine.name());
    fleet.stop_and_check(vec![first]);
}

//! Races between clients of several gateways, which conditional writes decide.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::client::{Line, Request};
use crate::fleet::{BlockKind, Engine, Fleet, clients, on_each_engine};
use crate::scale;
use crate::servers::Gateway;

on_each_engine!(
    exactly_one_creation_through_two_gateways_succeeds,
    a_counter_through_two_gateways_loses_no_increment,
    writers_without_conditions_are_never_refused,
);

/// Number of clients that create the same key at the same moment.
const RACERS: usize = 16;

/// Number of clients that increment one counter.
const COUNTERS: usize = 8;

/// Number of clients that write the same keys without conditions.
const WRITERS: usize = 16;

/// Number of keys that they write in addition to the common one.
const JOBS: usize = 20;

/// The least number of increments, however long they take, and the greatest.
const INCREMENTS_MIN: u64 = 60;
const INCREMENTS_MAX: u64 = 100_000;

/// The statuses of one client, one for each round.
type Statuses = Vec<u16>;

fn exactly_one_creation_through_two_gateways_succeeds(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let gateways = fleet.start();
    let clients = &clients(&gateways);
    let (rounds, start, began) = (scale::rounds(), &Barrier::new(RACERS), Instant::now());
    let told: Vec<Statuses> = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..RACERS)
            .map(|racer| {
                scope.spawn(move || {
                    let mut line = Line::new(&clients[racer % 2]);
                    let mut race = |round: u64| {
                        let request = Request::new("PUT", &format!("/box/{}/{round}", round % 50))
                            .header("if-none-match", "*")
                            .body(format!("racer {racer}"));
                        start.wait();
                        // A client that panicked here would leave the others waiting.
                        line.send(&request).map_or(0, |answer| answer.status)
                    };
                    (0..rounds).map(&mut race).collect()
                })
            })
            .collect();
        racers.into_iter().map(|racer| racer.join().expect("no racer panics")).collect()
    });
    let (mut lost, mut conflicts) = (0, 0);
    let mut lines = clients.clone().map(|client| Line::new(&client));
    for (round, name) in (0..rounds).zip(0_usize..) {
        let winners: Vec<usize> = (0..RACERS).filter(|&racer| told[racer][name] == 200).collect();
        assert_eq!(winners.len(), 1, "round {round}: {winners:?}");
        for status in told.iter().map(|statuses| statuses[name]) {
            match status {
                200 => {}
                412 => lost += 1,
                // S3's response for a race that could not be decided in time.
                409 => conflicts += 1,
                _ => panic!("round {round}: {status}"),
            }
        }
        for line in &mut lines {
            let path = format!("/box/{}/{round}", round % 50);
            let stored = line.send(&Request::new("GET", &path)).expect("an answer").expect(200);
            assert_eq!(stored.text(), format!("racer {}", winners[0]), "round {round}");
        }
    }
    assert_eq!(lost + conflicts, rounds * (RACERS as u64 - 1));
    eprintln!(
        "{}: {rounds} rounds of {RACERS} racers, one winner each, {lost} lost, {conflicts} told \
         to try again, in {:?}",
        engine.name(),
        began.elapsed()
    );
    gateways.iter().for_each(Gateway::check_log);
    fleet.stop_and_check(gateways);
}

fn a_counter_through_two_gateways_loses_no_increment(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let gateways = fleet.start();
    let clients = &clients(&gateways);
    clients[0].put("/box/counter", b"0").expect(200);
    let (added, again) = (&AtomicU64::new(0), &AtomicU64::new(0));
    let limit = Instant::now() + scale::load();
    let goes_on = || {
        let added = added.load(Ordering::Relaxed);
        added < INCREMENTS_MIN || (Instant::now() < limit && added < INCREMENTS_MAX)
    };
    std::thread::scope(|scope| {
        for counter in 0..COUNTERS {
            let goes_on = &goes_on;
            scope.spawn(move || {
                let mut line = Line::new(&clients[counter % 2]);
                while goes_on() {
                    let get = Request::new("GET", "/box/counter");
                    let seen = line.send(&get).expect("an answer").expect(200);
                    let count: u64 = seen.text().parse().expect("a number");
                    let put = Request::new("PUT", "/box/counter")
                        .header("if-match", seen.header("etag"))
                        .body((count + 1).to_string());
                    match line.send(&put).expect("an answer").status {
                        200 => added.fetch_add(1, Ordering::Relaxed),
                        409 | 412 => again.fetch_add(1, Ordering::Relaxed),
                        status => panic!("{status}"),
                    };
                }
            });
        }
    });
    let (added, again) = (added.load(Ordering::Relaxed), again.load(Ordering::Relaxed));
    for client in clients {
        let counted = client.get("/box/counter").expect(200).text();
        assert_eq!(counted, added.to_string(), "an increment was lost");
    }
    assert!(again > 10, "too little was tried: {added} added, {again} refused");
    eprintln!("{}: counted to {added}, {again} conflicts", engine.name());
    gateways.iter().for_each(Gateway::check_log);
    fleet.stop_and_check(gateways);
}

/// Returns the request of a writer in a round, and its status, which is the same for every order of
/// the concurrent writes.
fn unconditional(bucket: &str, writer: usize, round: usize) -> (Request, u16) {
    let hot = format!("/{bucket}/hot");
    let job = format!("/{bucket}/job/{}/part", (writer + round) % JOBS);
    match (writer % 8, round % 2) {
        (0, _) => (Request::new("DELETE", &hot), 204),
        (1, _) => {
            let key = |n| format!("<Object><Key>job/{n}/part</Key></Object>");
            let keys: String = (0..JOBS).map(key).collect();
            let request = Request::new("POST", &format!("/{bucket}?delete"));
            (request.body(format!("<Delete>{keys}</Delete>")), 200)
        }
        // A copy of an object that others overwrite, onto itself or elsewhere.
        (3 | 4, 1) => {
            let to = if writer % 8 == 3 { "source" } else { "copied" };
            let copy = Request::new("PUT", &format!("/{bucket}/{to}"))
                .header("x-amz-copy-source", &format!("/{bucket}/source"))
                .header("x-amz-metadata-directive", "REPLACE");
            (copy, 200)
        }
        (3..6, _) => {
            let put = Request::new("PUT", &format!("/{bucket}/source"));
            (put.body(format!("{writer} {round}")), 200)
        }
        (2, _) | (_, 0) => (Request::new("PUT", &hot).body(format!("{writer} {round}")), 200),
        _ => (Request::new("PUT", &job).body("job"), 200),
    }
}

fn writers_without_conditions_are_never_refused(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let gateways = fleet.start();
    let clients = &clients(&gateways);
    clients[0].put("/kept", b"").expect(200);
    let enabled = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    clients[0].put("/kept?versioning", enabled.as_bytes()).expect(200);
    for bucket in ["box", "kept"] {
        clients[0].put(&format!("/{bucket}/source"), b"first").expect(200);
        let limit = Instant::now() + scale::load();
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                scope.spawn(move || {
                    let mut line = Line::new(&clients[writer % 2]);
                    let mut round = 0;
                    while Instant::now() < limit {
                        let (request, status) = unconditional(bucket, writer, round);
                        let answer = line.send(&request).expect("an answer").expect(status);
                        assert!(!answer.text().contains("<Error>"), "{}", answer.text());
                        round += 1;
                    }
                });
            }
        });
    }
    gateways.iter().for_each(Gateway::check_log);
    fleet.stop_and_check(gateways);
}

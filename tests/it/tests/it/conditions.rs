//! Conditional writes decide races, also if each request has its own connection. `races` has the
//! longer tests, on each engine.

use std::sync::Barrier;

use crate::client::Request;
use crate::servers::{Blocks, Setup};

const RACERS: usize = 16;
const ROUNDS: usize = 20;

#[test]
fn exactly_one_of_concurrent_creations_succeeds() {
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Setup::new(folder.path(), Blocks::Folder).start();
    let client = &gateway.client;
    client.put("/box", b"").expect(200);
    let start = &Barrier::new(RACERS);
    let won: Vec<Vec<u16>> = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..RACERS)
            .map(|racer| {
                scope.spawn(move || {
                    let race = |round: usize| {
                        let request = Request::new("PUT", &format!("/box/{round}"))
                            .header("if-none-match", "*")
                            .body(format!("racer {racer}"));
                        start.wait();
                        client.send(&request).status
                    };
                    (0..ROUNDS).map(race).collect()
                })
            })
            .collect();
        racers.into_iter().map(|racer| racer.join().expect("no racer panics")).collect()
    });
    let mut lost = 0;
    for round in 0..ROUNDS {
        let winners: Vec<usize> = (0..RACERS).filter(|&racer| won[racer][round] == 200).collect();
        assert_eq!(winners.len(), 1, "round {round}: {winners:?}");
        let stored = client.get(&format!("/box/{round}")).expect(200);
        assert_eq!(stored.text(), format!("racer {}", winners[0]), "round {round}");
        let rest = won.iter().map(|statuses| statuses[round]).filter(|&status| status != 200);
        for status in rest {
            assert!(matches!(status, 409 | 412), "round {round}: {status}");
            lost += 1;
        }
    }
    assert_eq!(lost, ROUNDS * (RACERS - 1));
    gateway.check_log();
    gateway.stop();
}

#[test]
fn a_counter_with_if_match_loses_no_increment() {
    const WRITERS: u32 = 8;
    const INCREMENTS: u32 = 6;
    let folder = tempfile::tempdir().expect("a folder");
    let gateway = Setup::new(folder.path(), Blocks::Folder).start();
    let client = &gateway.client;
    client.put("/box", b"").expect(200);
    client.put("/box/counter", b"0").expect(200);
    let refused: u32 = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|_| {
                scope.spawn(move || {
                    let (mut done, mut refused) = (0, 0);
                    while done < INCREMENTS {
                        let read = client.get("/box/counter").expect(200);
                        let count: u32 = read.text().parse().expect("a number is stored");
                        let request = Request::new("PUT", "/box/counter")
                            .header("if-match", read.header("etag"))
                            .body((count + 1).to_string());
                        match client.send(&request).status {
                            200 => done += 1,
                            409 | 412 => refused += 1,
                            status => panic!("{status}"),
                        }
                    }
                    refused
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().expect("no writer panics")).sum()
    });
    let count = client.get("/box/counter").expect(200).text();
    assert_eq!(count, (WRITERS * INCREMENTS).to_string());
    assert!(refused > 0, "no write was refused: the test had no conflict");
    gateway.check_log();
    gateway.stop();
}

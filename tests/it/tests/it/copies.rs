//! Copies, tags and uploads during other writes. The histories of clients of several gateways are
//! linearizable, and a copy never restores overwritten or deleted content.
//!
//! `ASHLAR_TEST_SECONDS=60 cargo test -p it --test it copies::histories` is the full proof.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::client::{Client, Line, Request};
use crate::content::{bytes, etag};
use crate::copying::{Copies, Planted};
use crate::fleet::{BlockKind, Engine, Fleet, clients, on_each_engine, on_the_drawn_engine};
use crate::scale;
use crate::servers::Gateway;

on_each_engine!(histories_of_copies_are_linearizable);
on_the_drawn_engine!(
    planted_faults_of_copies_are_found,
    no_put_is_lost_during_copies,
    no_deleted_object_returns_during_copies,
);

/// The least number of responses, however long they take.
const ENOUGH: u64 = 1_000;

/// Number of responses after which a planted fault should be visible, and number of such tries.
const STRETCH: u64 = 300;
const STRETCHES: u64 = 20;

/// Clients that copy a key onto itself while another client writes it.
const COPIERS: u64 = 3;

/// Lengths of copied bodies: inline in a record, in a block that may be shared, in blocks.
const SIZES: [usize; 3] = [100, 64 << 10, 2 << 20];

/// The least number of writes of one key during copies, and of successful copies meanwhile.
const WRITES: u64 = 25;
const COPIES: u64 = 25;

/// Number of deletes of a key of each length during copies.
const DELETES: u64 = 8;

/// A fleet with the default block size, so that a body of 2 MiB is one block.
fn fleet(engine: Engine, block_kind: BlockKind) -> Option<Fleet> {
    let mut fleet = Fleet::new(engine, block_kind)?;
    fleet.first = fleet.first.options(&["--memory-budget", "64MiB"]);
    Some(fleet)
}

fn histories_of_copies_are_linearizable(engine: Engine) {
    let Some(fleet) = fleet(engine, BlockKind::Bucket) else { return };
    let gateways = fleet.start();
    let clients = clients(&gateways);
    let mut copies = Copies::new("hot", Planted::None);
    copies.run(&clients, scale::load(), ENOUGH);
    copies.read_all(&clients);
    let figures = copies.figures();
    eprintln!("{}: {figures:?}", engine.name());
    let checked = Instant::now();
    if let Err(why) = copies.check() {
        panic!("not linearizable: {why}");
    }
    eprintln!("{}: linearizable, decided in {:?}", engine.name(), checked.elapsed());
    let of = |what| figures.get(what).copied().unwrap_or(0);
    for what in ["put", "deleted", "tagged", "copied", "copied onto itself", "read", "refused"] {
        assert!(of(what) >= 20, "too few operations of the kind {what}: {figures:?}");
    }
    for what in ["completed", "copied a part"] {
        assert!(of(what) >= 3, "too few operations of the kind {what}: {figures:?}");
    }
    for what in ["unknown", "later", "cut"] {
        assert_eq!(of(what), 0, "there were errors without a fault: {figures:?}");
    }
    gateways.iter().for_each(Gateway::check_log);
    fleet.stop_and_check(gateways);
}

/// The same load, with a fault that the test adds.
fn planted_faults_of_copies_are_found(engine: Engine) {
    let Some(fleet) = fleet(engine, BlockKind::Folder) else { return };
    let gateways = fleet.start();
    let clients = clients(&gateways);
    for planted in [Planted::LostWrites, Planted::Resurrections, Planted::TornTags] {
        let mut copies = Copies::new(&format!("{planted:?}"), planted);
        let found = (0..STRETCHES).find_map(|_| {
            copies.run(&clients, Duration::ZERO, STRETCH);
            copies.read_all(&clients);
            copies.check().err()
        });
        let why = found.expect("a history with a planted fault is taken for linearizable");
        assert!(why.contains("has no place"), "{why}");
        let first = why.lines().next().unwrap_or_default();
        eprintln!("{}: {planted:?} was found: {first}", engine.name());
    }
    for gateway in gateways {
        gateway.stop();
    }
}

/// Changes the metadata of an object in the only way that S3 has: a copy onto itself.
fn touch(path: &str, note: u64) -> Request {
    Request::new("PUT", path)
        .header("x-amz-copy-source", path)
        .header("x-amz-metadata-directive", "REPLACE")
        .header("x-amz-meta-note", &note.to_string())
}

/// Copies a key onto itself until `stop`; every second copy has the condition of the `ETag` that it
/// has just read. Counts the successful copies.
fn copy_on_and_on(client: &Client, path: &str, stop: &AtomicBool, done: &AtomicU64) {
    let mut line = Line::new(client);
    for turn in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let mut copy = touch(path, turn);
        if turn % 2 == 1 {
            let head = line.send(&Request::new("HEAD", path)).expect("an answer");
            if head.status == 404 {
                continue;
            }
            copy = copy.header("x-amz-copy-source-if-match", head.header("etag"));
        }
        match line.send(&copy).expect("an answer").status {
            200 => done.fetch_add(1, Ordering::Relaxed),
            // 503 means that the source changed during each try.
            404 | 409 | 412 | 503 => 0,
            status => panic!("{path}: {status}"),
        };
    }
}

/// One client writes a key while others copy it onto itself.
fn no_put_is_lost_during_copies(engine: Engine) {
    let Some(fleet) = fleet(engine, BlockKind::Folder) else { return };
    let gateways = fleet.start();
    let clients = &clients(&gateways);
    let mut lost = Vec::new();
    for size in SIZES {
        let path = &format!("/box/touched-{size}");
        let body = |write: u64| [format!("{write} ").as_bytes(), &bytes(write, size)].concat();
        clients[0].put(path, &body(0)).expect(200);
        let (stop, done) = (&AtomicBool::new(false), &AtomicU64::new(0));
        let (written, gone) = std::thread::scope(|scope| {
            for (_, client) in (0..COPIERS).zip(clients.iter().cycle()) {
                scope.spawn(move || copy_on_and_on(client, path, stop, done));
            }
            let (mut line, mut write, mut gone) = (Line::new(&clients[0]), 0, 0);
            let limit = Instant::now() + Duration::from_mins(2);
            while write < WRITES || done.load(Ordering::Relaxed) < COPIES {
                assert!(Instant::now() < limit, "{write} writes, {done:?} copies");
                write += 1;
                let body = body(write);
                let put = Request::new("PUT", path).body(&*body);
                line.send(&put).expect("an answer").expect(200);
                let found = line.send(&Request::new("GET", path)).expect("an answer").expect(200);
                gone += u64::from(found.body != body || found.header("etag") != etag(&body));
            }
            stop.store(true, Ordering::Relaxed);
            (write, gone)
        });
        eprintln!("{}: {gone} of {written} writes of {size} bytes are lost", engine.name());
        lost.push(gone);
    }
    assert_eq!(lost, [0; SIZES.len()], "acknowledged writes are lost to copies");
    gateways.iter().for_each(Gateway::check_log);
    fleet.stop_and_check(gateways);
}

/// A key is deleted while clients copy it onto itself. No client puts it again.
fn no_deleted_object_returns_during_copies(engine: Engine) {
    let Some(fleet) = fleet(engine, BlockKind::Folder) else { return };
    let gateways = fleet.start();
    let clients = &clients(&gateways);
    let mut back = Vec::new();
    for size in SIZES {
        let (mut came_back, done) = (0, &AtomicU64::new(0));
        for turn in 0..DELETES {
            let path = &format!("/box/deleted-{size}-{turn}");
            clients[0].put(path, &bytes(turn, size)).expect(200);
            let (stop, before) = (&AtomicBool::new(false), done.load(Ordering::Relaxed));
            std::thread::scope(|scope| {
                for (_, client) in (0..COPIERS).zip(clients.iter().cycle()) {
                    scope.spawn(move || copy_on_and_on(client, path, stop, done));
                }
                let limit = Instant::now() + Duration::from_mins(1);
                while done.load(Ordering::Relaxed) < before + 3 {
                    assert!(Instant::now() < limit, "nothing is copied");
                    std::thread::sleep(Duration::from_millis(1));
                }
                clients[1].delete(path).expect(204);
                // Copies in flight end, and later ones find no source.
                std::thread::sleep(Duration::from_millis(20));
                stop.store(true, Ordering::Relaxed);
            });
            came_back += u64::from(clients.iter().any(|client| client.get(path).status != 404));
        }
        eprintln!(
            "{}: {came_back} of {DELETES} deletes of {size} bytes did not last",
            engine.name()
        );
        back.push(came_back);
    }
    assert_eq!(back, [0; SIZES.len()], "deleted objects came back with copies");
    gateways.iter().for_each(Gateway::check_log);
    fleet.stop_and_check(gateways);
}

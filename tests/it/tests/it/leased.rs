//! Gateways beside each other answer from their caches by leases, and show each change at once.

mod clock;
mod company;
mod faults;
mod gap;
mod histories;
mod kernel;
mod keyless;
mod network;

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::client::{Line, Request};
use crate::fleet::{BlockKind, Engine, Fleet, clients, on_each_server, on_the_drawn_server};
use crate::load::{Load, Planted};
use crate::servers::{Gateway, wait_for};

on_each_server!(
    a_gateway_beside_an_idle_peer_reads_from_its_cache,
    a_lessee_that_is_stopped_or_killed_delays_a_write_briefly,
    histories_with_leases_are_linearizable,
);
on_the_drawn_server!(a_write_without_notice_is_seen_after_the_next_grant);

/// The time limit until sessions have connected and hold leases, on a busy machine.
const CONNECTED: Duration = Duration::from_mins(1);

const READS: u64 = 200;

/// The longest stop of a gateway with links. A wait for tasks of links would take 30 seconds.
const STOP_MAX: Duration = Duration::from_secs(15);

/// The longest write while a lessee is stopped: a promise lasts one second, and the machine is
/// busy.
const STOPPED_WRITE_MAX: Duration = Duration::from_secs(5);

fn remembered(gateway: &Gateway) -> u64 {
    gateway.counter("ashlar_metadata_cached_reads_total ")
}

fn is_leased(gateway: &Gateway) -> bool {
    gateway.counter("ashlar_session_reads_from{from=\"leased\"}") == 1
}

fn given(gateway: &Gateway) -> u64 {
    gateway.counter("ashlar_session_leases_given ")
}

/// Reads a key until the gateway answers from its cache beside its peer.
#[track_caller]
fn take_lease(gateway: &Gateway, key: &str) {
    let reads = || {
        (0..READS).for_each(|_| drop(gateway.client.get(key).expect(200)));
        is_leased(gateway)
    };
    assert!(wait_for(CONNECTED, reads), "it has no lease:\n{}", gateway.admin_page("/status"));
}

fn a_gateway_beside_an_idle_peer_reads_from_its_cache(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let [reader, writer] = [fleet.first.start(), fleet.second().start()];
    reader.client.put("/box", b"").expect(200);
    reader.client.put("/box/a/key", b"0").expect(200);
    take_lease(&reader, "/box/a/key");
    assert_eq!(given(&writer), 1);
    assert_eq!(given(&reader), 0, "the idle gateway asks for none");
    let before = remembered(&reader);
    for _ in 0..READS {
        reader.client.get("/box/a/key").expect(200);
    }
    let answered = remembered(&reader) - before;
    assert!(answered > READS / 2, "{answered} of {READS} reads were answered from the cache");
    for n in 1..=50 {
        let content = n.to_string();
        writer.client.put("/box/a/key", content.as_bytes()).expect(200);
        assert_eq!(reader.client.get("/box/a/key").expect(200).text(), content);
        assert_eq!(writer.client.get("/box/a/key").expect(200).text(), content);
    }
    let status = reader.admin_page("/status");
    assert!(
        wait_for(CONNECTED, || {
            reader.client.get("/box/a/key").expect(200);
            reader.admin_page("/status").contains("leased (1 peer)")
        }),
        "{status}"
    );
    let began = Instant::now();
    reader.stop();
    let stopped = began.elapsed();
    assert!(stopped < STOP_MAX, "its session took {stopped:?} to close");
    fleet.stop_and_check(vec![writer]);
}

fn a_lessee_that_is_stopped_or_killed_delays_a_write_briefly(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let [mut reader, writer] = [fleet.first.start(), fleet.second().start()];
    reader.client.put("/box", b"").expect(200);
    reader.client.put("/box/key", b"old").expect(200);
    take_lease(&reader, "/box/key");
    reader.child.signal(Signal::STOP);
    let began = Instant::now();
    writer.client.put("/box/key", b"new").expect(200);
    let stopped = began.elapsed();
    let began = Instant::now();
    writer.client.put("/box/key", b"newer").expect(200);
    let next = began.elapsed();
    reader.child.signal(Signal::CONT);
    assert_eq!(reader.client.get("/box/key").expect(200).text(), "newer");
    assert!(stopped < STOPPED_WRITE_MAX, "{stopped:?}");
    take_lease(&reader, "/box/key");
    reader.child.kill();
    let began = Instant::now();
    writer.client.put("/box/key", b"last").expect(200);
    let killed = began.elapsed();
    eprintln!("{}: {stopped:?}, then {next:?}; killed {killed:?}", engine.name());
    assert!(killed < STOPPED_WRITE_MAX, "{killed:?}");
    assert_eq!(writer.client.get("/box/key").expect(200).text(), "last");
    fleet.stop_and_check(vec![writer]);
}

/// Rounds of a write between two leases.
const LAPSES: u64 = 5;

/// The time after the last read until no promise of notice runs: one second of reads that still
/// count as demand, and one of the promise.
const LAPSED: Duration = Duration::from_millis(2_300);

/// Reads of a round before its write. Fewer than a session needs to ask for leases.
const READS_BEFORE_WRITE: usize = 15;

/// Reads of a round after its write. With them the session asks, and has the lease at the last
/// ones.
const READS_AFTER_WRITE: usize = 20;

/// A gateway that serves no reads for a while has no lease, and its peer writes without notice. The
/// next lease begins before the change feed reports the write.
fn a_write_without_notice_is_seen_after_the_next_grant(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let [reader, writer] = [fleet.first.start(), fleet.second().start()];
    reader.client.put("/box", b"").expect(200);
    reader.client.put("/box/key", b"0").expect(200);
    reader.client.put("/box/other", b"").expect(200);
    let mut line = Line::new(&reader.client);
    let mut get = |key: &str| line.send(&Request::new("GET", key)).expect("an answer").expect(200);
    take_lease(&reader, "/box/other");
    let mut from_cache = 0;
    for round in 1..=LAPSES {
        get("/box/key");
        std::thread::sleep(LAPSED);
        assert_eq!(given(&writer), 0, "the idle gateway still has a lease");
        let before = remembered(&reader);
        // Almost enough reads for a question, so that the lease begins soon after the write.
        (0..READS_BEFORE_WRITE).for_each(|_| drop(get("/box/other")));
        writer.client.put("/box/key", round.to_string().as_bytes()).expect(200);
        (0..READS_AFTER_WRITE).for_each(|_| drop(get("/box/other")));
        assert_eq!(get("/box/key").text(), round.to_string(), "it was written without notice");
        from_cache += remembered(&reader) - before;
    }
    assert!(from_cache > LAPSES, "only {from_cache} reads were answered under the next leases");
    fleet.stop_and_check(vec![reader, writer]);
}

fn histories_with_leases_are_linearizable(engine: Engine) {
    let Some(fleet) = Fleet::new(engine, BlockKind::Folder) else { return };
    let gateways = fleet.start();
    gateways[0].client.put("/box", b"").expect(200);
    gateways[0].client.put("/box/known", b"").expect(200);
    let mut load = Load::new("hot", Planted::None);
    let clients = clients(&gateways);
    let answered = load.run(&clients, |progress| {
        let before: u64 = gateways.iter().map(remembered).sum();
        for pause in [300, 1_200] {
            progress.wait_for_more(300);
            for gateway in &gateways {
                take_lease(gateway, "/box/known");
                gateway.child.signal(Signal::STOP);
                std::thread::sleep(Duration::from_millis(pause));
                gateway.child.signal(Signal::CONT);
                progress.wait_for_more(100);
            }
        }
        gateways.iter().map(remembered).sum::<u64>() - before
    });
    assert!(answered > 500, "only {answered} reads were answered from caches");
    load.read_all(&clients[..1]);
    let figures = load.is_linearizable();
    eprintln!("{}: linearizable with {answered} reads from caches: {figures}", engine.name());
    fleet.stop_and_check(gateways);
}

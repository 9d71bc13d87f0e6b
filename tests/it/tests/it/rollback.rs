//! A metadata store that is put back to a state of two seconds ago, under load, as a restored
//! snapshot or a failover to a delayed replica does. Data that was durable before that moment stays
//! readable, and later data is reported as lost, never replaced by other bytes.
//!
//! Rounds alternate. In one, a single gateway, which waits for no peer before it deletes, is killed
//! with the store and started again. In the next, two gateways run through the restore: they notice
//! it, end with an error, and acknowledge nothing that a later read contradicts. Before and after
//! the moment, clients pause for a second, which background work uses.
//!
//! A restore takes back PUTs, deletes and copies that were acknowledged after that moment, or while
//! the copy was made. Their blocks are leftovers of sessions, which the next gateways end and clean
//! up. So `fsck` finds nothing afterwards.
//!
//! `ASHLAR_TEST_ROLLBACKS=50 cargo test -p it --test it rollback` is the full proof.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::client::{Client, Line, Request};
use crate::content::{bytes, etag};
use crate::fleet::{BlockKind, Engine, Fleet, on_the_drawn_engine};
use crate::scale;
use crate::servers::{Gateway, Setup, wait_for};

mod clients;
mod look;
mod numbers;
mod packs;
mod past;
mod violations;

use clients::Owner;
use violations::{Times, Violations};

on_the_drawn_engine!(a_restored_store_keeps_older_data_unmixed);

/// The time by which a store is put back.
const BACK: Duration = Duration::from_secs(2);

/// The time for which blocks outlive the commit that freed them. It exceeds [`BACK`].
const DELETION_GRACE: &str = "10s";

/// Number of clients with keys of their own.
const OWNERS: usize = 6;

/// Number of acknowledged changes before the moment, after it, and after the restore.
const CHANGES: u64 = 40;

/// The time for which clients continue after the restore.
const AFTERWARDS: Duration = Duration::from_secs(2);

/// The time limit until sessions of earlier rounds are ended and dead blocks are deleted.
const DELETES: Duration = Duration::from_secs(90);

/// The time limit until a running gateway ends after a restore: two heartbeats, and some more on a
/// busy machine.
const NOTICED: Duration = Duration::from_secs(30);

/// The pause of the clients before the moment, in which dead blocks are deleted.
const QUIET: Duration = Duration::from_millis(1_500);

/// Number of changes between the pauses, and the time after the moment at which the second pause
/// ends.
const BURST: u64 = 15;
const PAUSED: Duration = Duration::from_millis(1_700);

/// Adds the default block size and the grace period to the options of a gateway.
fn graceful(setup: &Setup) -> Setup {
    let options = ["--memory-budget", "64MiB", "--deletion-grace", DELETION_GRACE];
    setup.clone().options(&options)
}

/// Commands to the clients.
#[derive(Debug, Default)]
struct Orders {
    pause: AtomicBool,
    stop: AtomicBool,
}

/// The results of one round.
#[derive(Debug, Default)]
struct Round {
    violations: Violations,
    /// Number of blocks that existed at the moment and were deleted before the restore.
    deleted: usize,
    /// Number of changes that the restore took back.
    taken_back: usize,
    /// Number of changes that were acknowledged after the restore.
    later: u64,
    /// Number of gateways that ran through the restore and did not end.
    unaware: usize,
}

/// Starts the gateways, at the addresses of the earlier ones if there were any.
fn start(setups: &[Setup], addresses: &mut Vec<String>) -> Vec<Gateway> {
    let gateways: Vec<Gateway> = setups
        .iter()
        .enumerate()
        .map(|(at, setup)| match addresses.get(at) {
            Some(address) => setup.at(address).start(),
            None => setup.start(),
        })
        .collect();
    *addresses = gateways.iter().map(|gateway| gateway.client.address.clone()).collect();
    gateways
}

/// Waits for this many further acknowledged changes.
#[track_caller]
fn wait_for_changes(count: &AtomicU64, more: u64) {
    let wanted = count.load(Ordering::Relaxed) + more;
    let came = wait_for(Duration::from_mins(1), || count.load(Ordering::Relaxed) >= wanted);
    assert!(came, "{} acknowledged changes of {wanted}", count.load(Ordering::Relaxed));
}

/// Waits for the gateways that run through a restore. Each reports that it is not ready and ends
/// with an error. Returns the number of those that do not.
fn end_by_themselves(gateways: Vec<Gateway>) -> usize {
    let limit = Instant::now() + NOTICED;
    let mut unaware = 0;
    for mut gateway in gateways {
        let mut ready = true;
        let ended = wait_for(limit.saturating_duration_since(Instant::now()), || {
            let wire = Request::new("GET", "/-/ready").anonymous(&gateway.client.address);
            let status = gateway.client.exchange("GET", &wire).map_or(503, |answer| answer.status);
            assert!(ready || status != 200, "it is ready again:\n{}", gateway.log_of_this_run());
            ready = status == 200;
            gateway.child.ended().is_some()
        });
        if ended {
            let status = gateway.child.wait();
            assert_eq!(status.code(), Some(75), "it ends, and not as if all were well: {status}");
            let said = gateway.log_of_this_run();
            assert!(said.contains("its session was ended"), "it does not say why:\n{said}");
        } else {
            eprintln!("a gateway did not notice:\n{}", gateway.log_of_this_run());
            gateway.child.kill();
            unaware += 1;
        }
    }
    unaware
}

/// Puts the store back once, under load.
fn roll_back(
    fleet: &mut Fleet,
    setups: &[Setup],
    gateways: &mut Vec<Gateway>,
    owners: &mut [Owner],
    round: u64,
) -> Round {
    let mut addresses: Vec<String> =
        gateways.iter().map(|gateway| gateway.client.address.clone()).collect();
    let clients: Vec<Client> = gateways.iter().map(|gateway| gateway.client.clone()).collect();
    let lives = gateways.len() > 1;
    let (times, orders, done) = (&Times::default(), &Orders::default(), &AtomicU64::new(0));
    packs::put(&clients, round);
    let mut outcome = Round::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = owners
            .iter_mut()
            .zip(clients.iter().cycle())
            .map(|(owner, client)| scope.spawn(move || owner.work(client, times, orders, done)))
            .collect();
        // Stop the clients even if this panics; otherwise the scope would wait for them forever.
        let all = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_for_changes(done, CHANGES);
            orders.pause.store(true, Ordering::Relaxed);
            std::thread::sleep(QUIET);
            orders.pause.store(false, Ordering::Relaxed);
            wait_for_changes(done, BURST);
            let past = past::remember(fleet, gateways, times);
            let thawed = Instant::now();
            let then = fleet.block_names();
            packs::delete_most(&clients, round);
            wait_for_changes(done, BURST);
            orders.pause.store(true, Ordering::Relaxed);
            std::thread::sleep(PAUSED.saturating_sub(thawed.elapsed()));
            orders.pause.store(false, Ordering::Relaxed);
            std::thread::sleep(BACK.saturating_sub(thawed.elapsed()));
            outcome.deleted = then.difference(&fleet.block_names()).count();
            past::put_back(fleet, gateways, &past, lives, times);
            if lives {
                outcome.unaware = end_by_themselves(std::mem::take(gateways));
            }
            *gateways = start(setups, &mut addresses);
            let before = done.load(Ordering::Relaxed);
            std::thread::sleep(AFTERWARDS);
            wait_for_changes(done, CHANGES);
            outcome.later = done.load(Ordering::Relaxed) - before;
        }));
        orders.stop.store(true, Ordering::Relaxed);
        for worker in workers {
            outcome.violations.extend(worker.join().expect("no client panics"));
        }
        all.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    for owner in owners.iter_mut() {
        outcome.taken_back += owner.settle(&clients, times, &mut outcome.violations);
    }
    packs::are_whole(&clients, round, &mut outcome.violations);
    outcome
}

/// Waits until a single gateway deletes dead blocks. By then the sessions of earlier rounds are
/// ended, which would delay it.
#[track_caller]
fn deletes(fleet: &Fleet, gateway: &Gateway) {
    let before = fleet.block_names();
    gateway.client.put("/box/dead", &bytes(1, 2 << 20)).expect(200);
    let made: BTreeSet<String> = fleet.block_names().difference(&before).cloned().collect();
    assert!(!made.is_empty(), "the object has no block");
    gateway.client.delete("/box/dead").expect(204);
    // Bodies that were staged inline may have moved to blocks meanwhile; these blocks stay.
    let gone = wait_for(DELETES, || !made.is_subset(&fleet.block_names()));
    assert!(gone, "dead blocks are not deleted:\n{}", gateway.log_of_this_run());
}

/// Runs rounds over one engine. Fails with a list of all violations.
fn rolls_back(engine: Engine, block_kind: BlockKind, rounds: u64) {
    let Some(mut fleet) = Fleet::new(engine, block_kind) else { return };
    fleet.first = graceful(&fleet.first);
    let mut gateways = start(std::slice::from_ref(&fleet.first), &mut Vec::new());
    gateways[0].client.put("/box", b"").expect(200);
    let mut owners: Vec<Owner> = (0..OWNERS).map(Owner::new).collect();
    let (mut violations, mut unaware) = (Violations::default(), 0);
    for round in 0..rounds {
        deletes(&fleet, &gateways[0]);
        let mut setups = vec![fleet.first.clone()];
        if round % 2 == 1 && engine != Engine::Sqlite {
            setups.push(fleet.second());
            gateways.push(fleet.second().start());
        }
        let came = roll_back(&mut fleet, &setups, &mut gateways, &mut owners, round);
        eprintln!(
            "{} round {round}: {} blocks were deleted, {} changes were taken back, {} came later, \
             {} violations: {}",
            engine.name(),
            came.deleted,
            came.taken_back,
            came.later,
            came.violations.len(),
            came.violations.figures()
        );
        assert!(came.taken_back > 0, "nothing was there to be taken back");
        violations.extend(came.violations);
        unaware += came.unaware;
        gateways.drain(1..).for_each(Gateway::stop);
    }
    // Gives a gateway time to delete blocks that it wrongly considers dead.
    std::thread::sleep(Duration::from_secs(3));
    let clients: Vec<Client> = gateways.iter().map(|gateway| gateway.client.clone()).collect();
    for owner in &mut owners {
        owner.check(&clients, &mut violations);
    }
    assert!(violations.is_empty(), "{}: {}\n{violations}", engine.name(), violations.figures());
    assert_eq!(unaware, 0, "{}: gateways that ran through the restore did not end", engine.name());
    fleet.stop_and_check(gateways);
}

fn a_restored_store_keeps_older_data_unmixed(engine: Engine) {
    rolls_back(engine, BlockKind::Folder, scale::rollbacks());
}

#[test]
fn a_restored_store_with_blocks_in_a_bucket_keeps_older_data() {
    rolls_back(Engine::Redis, BlockKind::Bucket, scale::rollbacks().min(2));
}

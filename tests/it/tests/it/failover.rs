//! The primary of a cluster of databases is killed or stopped, and a standby takes over, under
//! clients of two gateways and under programs on a mount.
//!
//! No gateway is restarted. With PostgreSQL, MariaDB and etcd no acknowledged write is lost: the
//! history of all clients is linearizable, and programs find all that they have synced. The
//! replication of Redis does not wait, so writes may be lost. Then at least one gateway ends and
//! reports it.
//!
//! `ASHLAR_TEST_FAIL_OVERS=20 cargo test -p it --test it failover` is the full proof.

mod scene;

use std::time::Duration;

use databases::Fault;

use crate::fleet::{Engine, Fleet, clients, on_the_drawn_server};
use crate::mounted::can_mount;
use crate::scale;
use crate::servers::wait_for;
use scene::{ENDED, NOTICED, Outcome, SESSION_ENDED, Scene};

on_the_drawn_server!(acknowledged_writes_survive_a_failover);

/// The longest time in which a gateway acknowledges no write, in the full proof.
const GAP_MAX: Duration = Duration::from_secs(30);

/// The same for one failover beside all other tests, which share two cores.
const BUSY_GAP_MAX: Duration = Duration::from_secs(75);

fn acknowledged_writes_survive_a_failover(engine: Engine) {
    if !can_mount() {
        return;
    }
    let Some((mut fleet, mut cluster)) = Fleet::over_cluster(engine) else { return };
    let may_lose = match engine {
        Engine::Redis => true,
        Engine::Sqlite | Engine::Postgres | Engine::Mysql | Engine::Etcd => false,
    };
    if may_lose {
        fleet.first = fleet.first.environment("ASHLAR_METADATA_DURABILITY", "relaxed");
    }
    let mut scene = Scene::start(&fleet, 0);
    let (mut longest, mut reported) = (Duration::ZERO, 0);
    for round in 0..scale::fail_overs() {
        let is_even = (scale::seed() + round).is_multiple_of(2);
        let fault = if is_even { Fault::Freeze } else { Fault::Kill };
        match scene.fail_over(&mut cluster, fault, round) {
            Outcome::Kept(gaps) => {
                let gap = gaps.into_iter().max().unwrap_or_default();
                let limit = if scale::fail_overs() > 1 { GAP_MAX } else { BUSY_GAP_MAX };
                assert!(gap <= limit, "round {round}: no write was acknowledged for {gap:?}");
                longest = longest.max(gap);
            }
            Outcome::Reported(why) => {
                assert!(may_lose, "round {round}: a gateway has ended: {why}");
                eprintln!("round {round}: a loss was reported: {why}");
                reported += 1;
                scene.abandon();
                scene = Scene::start(&fleet, round + 1);
            }
        }
    }
    scene.stop();
    fleet.check_consistency();
    eprintln!(
        "{}: {} failovers, {reported} with a loss that was reported; the longest time without an \
         acknowledged write was {longest:?}",
        engine.name(),
        scale::fail_overs()
    );
}

/// A gateway whose acknowledged writes are lost ends and says so, and the volume is consistent
/// without them.
#[test]
fn writes_that_redis_loses_are_reported() {
    let Some((mut fleet, mut cluster)) = Fleet::over_cluster(Engine::Redis) else { return };
    fleet.first = fleet.first.environment("ASHLAR_METADATA_DURABILITY", "relaxed");
    let mut gateways = fleet.start();
    let [one, other] = clients(&gateways);
    one.put("/box", b"").expect(200);
    one.put("/box/kept", b"kept").expect(200);
    let done = cluster.fail_over_behind(|| drop(other.put("/box/lost", b"lost").expect(200)));
    eprintln!("{done}");
    let writer = &mut gateways[1];
    assert!(wait_for(NOTICED, || writer.child.ended().is_some()), "it serves on: {}", writer.log());
    let status = writer.child.ended().expect("it has ended");
    assert_eq!(status.code(), Some(SESSION_ENDED), "{}", writer.log());
    assert!(writer.log().contains(ENDED), "{}", writer.log());
    cluster.heal();
    drop(gateways);
    let again = fleet.first.start();
    assert_eq!(again.client.get("/box/kept").expect(200).body, b"kept");
    // Without a loss this would not be a test.
    again.client.get("/box/lost").expect(404);
    again.stop();
    fleet.check_consistency();
}

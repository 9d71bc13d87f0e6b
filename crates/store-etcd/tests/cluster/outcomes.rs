//! Outcomes of calls at members that are full, that have lost their majority, or that stop.

use databases::EtcdCluster;
use store::{Guard, MetaStore, Plan, StoreErrorKind, Value};

use crate::calls::{key, put, write};
use crate::server;

/// The verdicts of a large batch without writes come from the cluster, not from one member.
#[tokio::test(flavor = "multi_thread")]
async fn guards_are_not_decided_by_a_member_without_a_majority() {
    if !server::can_start() {
        return;
    }
    let cluster = EtcdCluster::start();
    let store = server::open_patiently(&cluster.fresh("volume")).await;
    let long = "x".repeat(900_000);
    let mut plans: [Plan; 2] = Default::default();
    for number in 0..6 {
        let name = key(1, &number.to_string());
        write(&store, [put(name.clone(), &long)]).await;
        let value = Value::copy_from_slice(long.as_bytes());
        plans[number % 2].guards.push(Guard::Equals(name, value));
    }
    store.commit(&plans).await.expect("verdicts of a majority");
    let leader = cluster.leader();
    let others = || (0..3).filter(|&index| index != leader);
    others().for_each(|index| cluster.freeze(index, true));
    let decided = store.commit(&plans).await;
    others().for_each(|index| cluster.freeze(index, false));
    let error = decided.expect_err("one member cannot know");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
}

//! Outcomes of calls at members that are full, that have lost their majority, or that stop.

use std::sync::Arc;
use std::time::{Duration, Instant};

use databases::{Database, Engine, EtcdCluster};
use futures::future::join_all;
use store::{Guard, MetaStore, Plan, Read, ReadResult, StoreErrorKind, Value};
use tokio_util::task::TaskTracker;

use crate::calls::{commit, key, plan, put, record, write};
use crate::server;

/// A member applies the transaction that exceeds its quota, and says that it has no room.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_a_full_member_has_applied_is_not_reported_as_refused() {
    if !server::can_start() {
        return;
    }
    let mut member = Database::start(Engine::Etcd);
    member.kill();
    member.set(&["--quota-backend-bytes=8388608"]);
    member.restart();
    let store = server::open(&member.fresh("volume")).await;
    let long = "x".repeat(20_000);
    let (mut full, mut unknown) = (Vec::new(), Vec::new());
    for round in 0..200_u64 {
        let names: Vec<String> = (0..32).map(|it| format!("{round}-{it}")).collect();
        let outcomes =
            join_all(names.iter().map(|name| commit(&store, plan([], [put(key(1, name), &long)]))))
                .await;
        for (name, outcome) in names.into_iter().zip(outcomes) {
            match outcome.map_err(|error| error.kind()) {
                Ok(committed) => assert!(committed),
                Err(StoreErrorKind::Full) => full.push(name),
                Err(StoreErrorKind::Unknown) => unknown.push(name),
                Err(other) => panic!("{other:?}"),
            }
        }
        if full.len() >= 64 {
            break;
        }
    }
    assert!(full.len() >= 64, "the member is full");
    assert!(store.shortage().is_some(), "the store says that it has no room");
    let mut applied = 0;
    for name in &unknown {
        applied += usize::from(record(&store, key(1, name)).await.is_some());
    }
    eprintln!("{} full, {} unknown, of which {applied} were applied", full.len(), unknown.len());
    for name in &full {
        assert_eq!(record(&store, key(1, name)).await, None, "{name} was committed");
    }
}

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

/// A read in flight at a leader that stops is answered as soon as there is another leader, also if
/// the other members have failed once.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_asks_the_other_members_again_while_one_does_not_answer() {
    if !server::can_start() {
        return;
    }
    let cluster = EtcdCluster::start();
    let store = Arc::new(server::open_patiently(&cluster.fresh("volume")).await);
    write(&*store, [put(key(1, "a"), "x")]).await;
    let leader = cluster.leader();
    let other = (leader + 2) % 3;
    cluster.freeze(leader, true);
    cluster.freeze(other, true);
    let tracker = TaskTracker::new();
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let store = Arc::clone(&store);
            tracker.spawn(async move {
                let begun = Instant::now();
                let reads = [Read::Record { key: key(1, "a"), follow: None }];
                (store.read(&reads).await, begun.elapsed())
            })
        })
        .collect();
    // The member that runs has no majority. It refuses the reads when there is a leader.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    cluster.freeze(other, false);
    let (next, _) = cluster.next_leader(leader);
    assert_ne!(next, leader, "there is another leader");
    for task in tasks {
        let (answer, time) = task.await.expect("the read ends");
        eprintln!("{time:?}");
        let found = answer.expect("an answer of the next leader").remove(0);
        assert!(matches!(found, ReadResult::Record(Some(_))), "{found:?}");
    }
    cluster.freeze(leader, false);
}

//! Members that are killed, paused, full or restored, under a load of commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use databases::{Database, Engine, EtcdCluster};
use proxy::Proxy;
use store::{Changes, Guard, MetaStore, Read, StoreErrorKind, Verdict, Write};
use store_etcd::{EtcdOptions, EtcdStore};
use tokio_util::task::TaskTracker;

use crate::calls::{counter, key, number, plan, put, record, write};
use crate::server;

/// The longest time without an acknowledged commit that a lost leader may cost, on a machine that
/// runs nothing else.
const GAP_MAX: Duration = Duration::from_secs(5);

/// The same for one lost leader beside all other tests, which share two cores.
const BUSY_GAP_MAX: Duration = Duration::from_secs(30);

/// The load of one task: it creates one record after the other and adds to a counter, and settles
/// each unknown outcome by a read.
#[derive(Debug, Default)]
struct Load {
    stopped: AtomicBool,
    acknowledged: AtomicU64,
    unknown: AtomicU64,
    /// Milliseconds of the longest time between two acknowledgements.
    gap: AtomicU64,
}

impl Load {
    /// Creates `partition/0`, `partition/1` and so on until it is stopped. Returns their number.
    async fn run(&self, store: &EtcdStore, partition: u64) -> u64 {
        let (mut next, mut last) = (0, Instant::now());
        while !self.stopped.load(Ordering::SeqCst) {
            let name = key(partition, &next.to_string());
            let writes = [put(name.clone(), "x"), Write::Add(counter(partition), 1)];
            let outcome = store.commit(&[plan([Guard::Absent(name.clone())], writes)]).await;
            match outcome {
                Ok(verdicts) => assert_eq!(verdicts, [Verdict::Committed], "{partition}/{next}"),
                Err(error) if error.kind() == StoreErrorKind::Unknown => {
                    self.unknown.fetch_add(1, Ordering::SeqCst);
                    self.settle(store, &name, partition).await;
                }
                Err(error) => {
                    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    continue;
                }
            }
            next += 1;
            self.acknowledged.fetch_add(1, Ordering::SeqCst);
            let passed = u64::try_from(last.elapsed().as_millis()).expect("short");
            self.gap.fetch_max(passed, Ordering::SeqCst);
            last = Instant::now();
        }
        next
    }

    /// Makes sure that a record exists whose commit had an unknown outcome, as a session does with
    /// its slots. The commit may still happen while this runs.
    async fn settle(&self, store: &EtcdStore, name: &store::Key, partition: u64) {
        loop {
            let writes = [put(name.clone(), "y"), Write::Add(counter(partition), 1)];
            match store.commit(&[plan([Guard::Absent(name.clone())], writes)]).await {
                Ok(_) => return,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    fn gap(&self) -> Duration {
        Duration::from_millis(self.gap.load(Ordering::SeqCst))
    }

    async fn wait_for_more(&self, more: u64) {
        let goal = self.acknowledged.load(Ordering::SeqCst) + more;
        let begun = Instant::now();
        while self.acknowledged.load(Ordering::SeqCst) < goal {
            assert!(begun.elapsed() < Duration::from_mins(1), "the load makes no progress");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// What is done to the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Kill,
    Pause,
}

/// Loses the leader several times under a load, and checks that nothing acknowledged is lost.
async fn lose_leaders(fault: Fault, rounds: usize) {
    let mut cluster = EtcdCluster::start();
    let url = cluster.fresh("volume");
    let stores = [server::open(&url).await, server::open(&url).await].map(Arc::new);
    let load = Arc::new(Load::default());
    let tracker = TaskTracker::new();
    let tasks: Vec<_> = (0..8_u64)
        .map(|partition| {
            let (store, load) =
                (Arc::clone(&stores[usize::from(partition % 2 == 0)]), load.clone());
            tracker.spawn(async move { load.run(&store, partition).await })
        })
        .collect();
    for round in 0..rounds {
        load.wait_for_more(200).await;
        let leader = cluster.leader();
        let before = load.unknown.load(Ordering::SeqCst);
        match fault {
            Fault::Kill => cluster.kill(leader),
            Fault::Pause => cluster.freeze(leader, true),
        }
        let (next, _) = cluster.next_leader(leader);
        assert_ne!(next, leader, "{fault:?}: there is another leader");
        load.wait_for_more(200).await;
        match fault {
            Fault::Kill => cluster.restart(leader),
            Fault::Pause => cluster.freeze(leader, false),
        }
        let unknown = load.unknown.load(Ordering::SeqCst) - before;
        eprintln!("{fault:?} {round}: longest gap {:?}, {unknown} unknown", load.gap());
    }
    load.wait_for_more(100).await;
    load.stopped.store(true, Ordering::SeqCst);
    for (partition, task) in (0..).zip(tasks) {
        let acknowledged = task.await.expect("the load ends");
        for store in &stores {
            let found = number(&**store, counter(partition)).await;
            assert_eq!(u64::try_from(found).expect("positive"), acknowledged, "{partition}");
            let read = Read::Range {
                start: key(partition, ""),
                end: key(partition + 1, ""),
                limit: 10_000,
                follow: None,
            };
            let found = store.read(&[read]).await.expect("answered").remove(0);
            let store::ReadResult::Range(entries) = found else { panic!("{found:?}") };
            assert_eq!(entries.len() as u64, acknowledged, "records of {partition}");
        }
    }
    let limit = if rounds > 1 { GAP_MAX } else { BUSY_GAP_MAX };
    assert!(load.gap() < limit, "{fault:?}: a gap of {:?}", load.gap());
}

/// Lost leaders of one test: one in a plain run.
#[expect(clippy::disallowed_methods, reason = "the amount of work is set from outside")]
fn rounds() -> usize {
    let given = std::env::var("ASHLAR_TEST_LEADERS").ok().and_then(|text| text.parse().ok());
    given.unwrap_or(1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_leader_costs_seconds_and_no_commit() {
    if server::can_start() {
        lose_leaders(Fault::Kill, rounds()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_leader_costs_seconds_and_no_commit() {
    if server::can_start() {
        lose_leaders(Fault::Pause, rounds()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_full_refuses_commits_and_says_the_remedy() {
    if !server::can_start() {
        return;
    }
    let mut member = Database::start(Engine::Etcd);
    member.kill();
    member.set(&["--quota-backend-bytes=4194304"]);
    member.restart();
    let store = server::open(&member.fresh("volume")).await;
    let long = "x".repeat(500_000);
    // 4 MiB have room for fewer commits of 500 KB. On a busy machine the first try of a commit can
    // time out before the next one finds no room: then its outcome is unknown, and the next commit
    // is refused.
    let mut refused = None;
    for _ in 0..40 {
        let writes = [put(key(1, "a"), &long), Write::Add(counter(1), 1)];
        refused = store.commit(&[plan([], writes)]).await.err();
        if refused.as_ref().is_some_and(|error| error.kind() != StoreErrorKind::Unknown) {
            break;
        }
    }
    let refused = refused.expect("a commit is refused");
    assert_eq!(refused.kind(), StoreErrorKind::Full, "{refused}");
    assert!(store.shortage().is_some_and(|text| text.contains("defrag")));
    // Reads go on, and so do commits after the operator has made room.
    assert!(record(&store, key(1, "a")).await.is_some());
    let status = member.etcdctl(&["endpoint", "status", "-w", "fields"]);
    let revision = status.lines().find_map(|line| line.strip_prefix("\"Revision\" : "));
    member.etcdctl(&["compact", revision.expect("a revision")]);
    member.etcdctl(&["defrag"]);
    member.etcdctl(&["alarm", "disarm"]);
    write(&store, [put(key(1, "b"), "x")]).await;
    assert_eq!(store.shortage(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_gives_snapshots_an_error_and_readers_of_the_feed_what_they_need() {
    if !server::can_start() {
        return;
    }
    let mut member = Database::start(Engine::Etcd);
    let url = member.fresh("volume");
    let store = server::open(&url).await;
    write(&store, [put(key(1, "a"), "x")]).await;
    let Changes::Notified { next, .. } = store.changes(None).await.expect("a position") else {
        panic!("there cannot be a gap")
    };
    let mut snapshot = store.snapshot().await.expect("a snapshot");
    for round in 0..10 {
        write(&store, [put(key(1, &round.to_string()), "x")]).await;
    }
    let compact = |member: &Database| {
        let status = member.etcdctl(&["endpoint", "status", "-w", "fields"]);
        let revision = status.lines().find_map(|line| line.strip_prefix("\"Revision\" : "));
        member.etcdctl(&["compact", revision.expect("a revision")]);
    };
    // On a busy machine the watch can be behind, and what it has not received at a compaction is a
    // gap.
    let received = async {
        loop {
            let changes = store.changes(Some(&next)).await.expect("the feed");
            if matches!(changes, Changes::Notified { keys, .. } if keys.len() == 10) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), received)
        .await
        .expect("the watch gets the writes");
    compact(&member);
    let error = snapshot.records(10).await.expect_err("the revision is gone");
    assert!(error.to_string().contains("--auto-compaction-retention"), "{error}");
    let changes = store.changes(Some(&next)).await.expect("the feed is in memory");
    let Changes::Notified { keys, next } = changes else { panic!("no gap: {changes:?}") };
    assert_eq!(keys.len(), 10);
    // A watch that was away during changes that were compacted leaves a gap.
    let other = server::open(&url).await;
    member.freeze(true);
    member.freeze(false);
    member.kill();
    member.restart();
    write(&other, [put(key(1, "b"), "x")]).await;
    compact(&member);
    let changes = store.changes(Some(&next)).await.expect("an answer");
    match changes {
        Changes::Gap { .. } => {}
        Changes::Notified { keys, .. } => assert!(keys.contains(&key(1, "b")), "{keys:?}"),
    }
}

/// A store that was restored to an earlier state answers a gap to later positions.
#[tokio::test(flavor = "multi_thread")]
async fn a_restored_store_answers_a_gap() {
    if !server::can_start() {
        return;
    }
    let mut member = Database::start(Engine::Etcd);
    let store = EtcdStore::open(&member.fresh("volume"), EtcdOptions::default()).await;
    let store = store.expect("a store");
    write(&store, [put(key(1, "a"), "x")]).await;
    let past = member.remember();
    for round in 0..5 {
        write(&store, [put(key(2, &round.to_string()), "x")]).await;
    }
    let Changes::Notified { next, .. } = store.changes(None).await.expect("a position") else {
        panic!("there cannot be a gap")
    };
    member.kill();
    member.restore(&past);
    assert_eq!(record(&store, key(2, "0")).await, None, "it is restored");
    let changes = store.changes(Some(&next)).await.expect("an answer");
    assert!(matches!(changes, Changes::Gap { .. }), "{changes:?}");
    write(&store, [put(key(3, "a"), "x")]).await;
    let Changes::Gap { next } = changes else { panic!("a gap") };
    let changes = store.changes(Some(&next)).await.expect("an answer");
    let Changes::Notified { keys, .. } = changes else { panic!("{changes:?}") };
    assert!(keys.contains(&key(3, "a")), "{keys:?}");
}

/// The same if other processes have written as many revisions again before this one looks.
#[tokio::test(flavor = "multi_thread")]
async fn a_restored_store_that_has_caught_up_answers_a_gap() {
    if !server::can_start() {
        return;
    }
    let mut member = Database::start(Engine::Etcd);
    let url = member.fresh("volume");
    let (writer, store) = (Arc::new(server::open(&url).await), server::open(&url).await);
    write(&*writer, [put(key(1, "a"), "x")]).await;
    let past = member.remember();
    write(&*writer, [put(key(1, "lost"), "x")]).await;
    let Changes::Notified { next, .. } = store.changes(None).await.expect("a position") else {
        panic!("there cannot be a gap")
    };
    let changes = store.changes(Some(&next)).await.expect("an answer");
    assert!(matches!(changes, Changes::Notified { .. }), "{changes:?}");
    member.kill();
    let tracker = TaskTracker::new();
    let write_again = |number: u64| {
        let writer = Arc::clone(&writer);
        tracker.spawn(async move {
            let plan = [plan([], [put(key(2, &number.to_string()), "x")])];
            while writer.commit(&plan).await.is_err() {}
        })
    };
    let tasks: Vec<_> = (0..6).map(write_again).collect();
    member.restore(&past);
    for task in tasks {
        task.await.expect("the load ends");
    }
    assert_eq!(record(&store, key(1, "lost")).await, None, "it is restored");
    let changes = store.changes(Some(&next)).await.expect("an answer");
    let Changes::Gap { next } = changes else { panic!("a missed change: {changes:?}") };
    write(&*writer, [put(key(3, "a"), "x")]).await;
    let Changes::Gap { next } = store.changes(Some(&next)).await.expect("an answer") else {
        return;
    };
    write(&*writer, [put(key(3, "b"), "x")]).await;
    let changes = store.changes(Some(&next)).await.expect("an answer");
    let Changes::Notified { keys, .. } = changes else { panic!("{changes:?}") };
    assert!(keys.contains(&key(3, "b")), "{keys:?}");
}

/// A member that has lost its data may come up as a cluster of its own, which is empty.
#[tokio::test(flavor = "multi_thread")]
async fn the_answers_of_another_cluster_are_refused() {
    if !server::can_start() {
        return;
    }
    let (member, other) = (Database::start(Engine::Etcd), Database::start(Engine::Etcd));
    let proxy = Proxy::start(member.address()).expect("a proxy");
    let store = server::open(&format!("etcd://{}/volume", proxy.address())).await;
    write(&store, [put(key(1, "a"), "x")]).await;
    proxy.move_to(other.address());
    let error = store.read(&[Read::Record { key: key(1, "a"), follow: None }]).await;
    let error = error.expect_err("a member of another cluster");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("this process began with the cluster"), "{error}");
    let created = plan([Guard::Absent(key(1, "b"))], [put(key(1, "b"), "x")]);
    let error = store.commit(&[created]).await.expect_err("a member of another cluster");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    proxy.move_to(member.address());
    assert_eq!(record(&store, key(1, "a")).await.as_deref(), Some(&b"x"[..]));
    assert_eq!(record(&store, key(1, "b")).await, None);
}

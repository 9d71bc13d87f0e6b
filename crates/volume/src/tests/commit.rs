//! Costs of commits, and outcomes of plans when the store fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use block::MemoryBlocks;
use faulty::{Fault, Faulty};
use ledger::Note;
use namespace::{Branch, FsError, NodeName, Removal, Remove, RemoveName, WriteCondition};
use record::key::{self, CounterKind, space};
use session::COMMIT_DEADLINE;
use store::{MetaStore, Read, ReadResult, Verdict};

use super::{count_blocks, lookup, make_bucket, open, publish, publish_staged, staged};
use crate::{RoundTrips, VolumeError, count_round_trips};

async fn objects(store: &dyn MetaStore, bucket: record::Ino) -> i64 {
    let counter = Read::Counter(key::counter(bucket, CounterKind::Objects));
    match store.read(&[counter]).await.unwrap()[..] {
        [ReadResult::Counter(count)] => count,
        _ => panic!("a counter was asked for"),
    }
}

#[tokio::test(start_paused = true)]
async fn operations_with_cached_parents_cost_one_round_trip() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks).await;
    make_bucket(&volume).await;
    publish(&volume, b"dir/first", 3).await.unwrap();
    let (_, trips) = count_round_trips(publish(&volume, b"dir/second", 3)).await;
    assert_eq!(trips, RoundTrips { reads: 0, commits: 1 }, "a new name beside a remembered one");
    let (_, trips) = count_round_trips(publish(&volume, b"dir/second", 3)).await;
    assert_eq!(trips, RoundTrips { reads: 0, commits: 1 }, "a remembered name");
    let (found, trips) = count_round_trips(lookup(&volume, b"dir/second")).await;
    assert_eq!(trips, RoundTrips { reads: 1, commits: 0 }, "a lookup rests on facts");
    found.unwrap();
    let (missing, trips) = count_round_trips(lookup(&volume, b"dir/absent")).await;
    assert_eq!(trips, RoundTrips { reads: 1, commits: 0 });
    assert!(matches!(missing, Err(VolumeError::Fs(FsError::NoSuchKey))));
    let removals = vec![Removal { name: b"second".to_vec(), condition: None }];
    let branches = [Branch { directories: vec![b"dir".to_vec()], removals }];
    let remove = Remove { bucket: b"b".into(), branches: &branches };
    let (removed, trips) = count_round_trips(volume.session.run(&remove)).await;
    assert!(removed.unwrap()[0].unwrap().existed);
    assert_eq!(trips, RoundTrips { reads: 0, commits: 1 }, "a remembered name with a sibling");
    assert_eq!(volume.session.tasks().panics(), 0);
}

#[tokio::test(start_paused = true)]
async fn waiting_plans_share_a_round_trip() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks).await;
    let bucket = make_bucket(&volume).await;
    let before = store.commits.load(Ordering::SeqCst);
    let names: Vec<Vec<u8>> = (0..200).map(|n| format!("o{n}").into_bytes()).collect();
    let all = names.iter().map(|name| publish(&volume, name, 3));
    for published in futures::future::join_all(all).await {
        published.unwrap();
    }
    let commits = store.commits.load(Ordering::SeqCst) - before;
    assert!(commits <= 10, "200 plans took {commits} commits");
    assert_eq!(objects(&*store, bucket).await, 200);
}

/// With several threads a task that was just woken runs before those that were ready already.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn plans_of_ready_tasks_share_a_round_trip() {
    const WRITERS: usize = 8;
    const TURNS: u64 = 20;
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks).await;
    make_bucket(&volume).await;
    let before = store.commits.load(Ordering::SeqCst);
    for turn in 0..TURNS {
        let gate = Arc::new(tokio::sync::Barrier::new(WRITERS));
        let writers = (0..WRITERS).map(|writer| {
            let (of, gate) = (Arc::clone(&volume), Arc::clone(&gate));
            volume.session.tasks().spawn("writer", async move {
                gate.wait().await;
                let name = format!("{turn}-{writer}");
                publish(&of, name.as_bytes(), 3).await.unwrap();
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
    }
    let commits = store.commits.load(Ordering::SeqCst) - before;
    let most = TURNS + TURNS / 4;
    assert!(commits <= most, "{commits} commits, though one is enough for each of {TURNS} turns");
}

/// A program on a mount that makes one change after the other has no plan to share a commit with,
/// so its change must not wait for other ready tasks.
#[tokio::test]
async fn a_single_change_of_a_mount_does_not_wait_for_other_tasks() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks).await;
    let bucket = make_bucket(&volume).await;
    let (turns, until) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (counted, last, of) = (Arc::clone(&turns), Arc::clone(&until), Arc::clone(&store));
    // A task that is always ready. It has a turn whenever another task yields, and counts those
    // before the commit with the number `until`.
    let other = volume.session.tasks().spawn("other", async move {
        while last.load(Ordering::SeqCst) < u64::MAX {
            let is_before = of.commits.load(Ordering::SeqCst) < last.load(Ordering::SeqCst);
            counted.fetch_add(u64::from(is_before), Ordering::SeqCst);
            tokio::task::yield_now().await;
        }
    });
    let mut fewest = u64::MAX;
    for _ in 0..20 {
        publish(&volume, b"one", 3).await.unwrap();
        let name = NodeName { directory: bucket, name: b"one".to_vec() };
        let before = turns.load(Ordering::SeqCst);
        until.store(store.commits.load(Ordering::SeqCst) + 1, Ordering::SeqCst);
        let remove = RemoveName { name: &name };
        volume.session.run_journaled(&remove, None, &Note::none()).await.unwrap();
        fewest = fewest.min(turns.load(Ordering::SeqCst) - before);
    }
    until.store(u64::MAX, Ordering::SeqCst);
    other.await.unwrap();
    assert!(fewest <= 2, "others had {fewest} turns: one for the queue and one for the batch");
}

#[tokio::test(start_paused = true)]
async fn a_plan_whose_answer_was_lost_is_committed_once() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks.clone()).await;
    let bucket = make_bucket(&volume).await;
    store.inject(Some(space::INODE), Fault::LostAnswer);
    publish(&volume, b"one", 100_000).await.unwrap();
    assert_eq!(store.fired(), 1);
    assert_eq!(objects(&*store, bucket).await, 1);
    assert_eq!(volume.counters().session.in_doubt, 1);
    lookup(&volume, b"one").await.unwrap();
    volume.close().await;
    assert_eq!(count_blocks(&blocks).await, 2, "its blocks stay");
}

#[tokio::test(start_paused = true)]
async fn a_plan_whose_request_was_lost_is_sent_again() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks.clone()).await;
    let bucket = make_bucket(&volume).await;
    store.inject(Some(space::INODE), Fault::LostRequest);
    publish(&volume, b"one", 100_000).await.unwrap();
    assert_eq!(store.fired(), 1);
    assert_eq!(objects(&*store, bucket).await, 1);
    volume.close().await;
    assert_eq!(count_blocks(&blocks).await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_late_plan_never_commits_after_its_tombstone() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks.clone()).await;
    let bucket = make_bucket(&volume).await;
    for _ in 0..3 {
        store.inject(Some(space::INODE), Fault::Delayed);
    }
    let error = publish(&volume, b"one", 100_000).await.unwrap_err();
    assert!(matches!(error, VolumeError::Unavailable(_)), "{error}");
    assert_eq!(store.fired(), 3);
    let late = store.deliver().await;
    assert_eq!(late.len(), 3);
    for verdict in late.into_iter().flatten() {
        assert!(matches!(verdict, Verdict::Refused { guard: 0, .. }), "{verdict:?}");
    }
    assert_eq!(objects(&*store, bucket).await, 0);
    volume.close().await;
    assert_eq!(count_blocks(&blocks).await, 0, "blocks of an aborted plan are deleted");
}

#[tokio::test(start_paused = true)]
async fn each_operation_happens_once_if_every_commit_fails_once() {
    for fault in [Fault::Unavailable, Fault::LostRequest, Fault::LostAnswer] {
        for skip in 0..12 {
            let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
            let volume = open(store.clone(), blocks.clone()).await;
            let bucket = make_bucket(&volume).await;
            for _ in 0..skip {
                store.inject(None, Fault::Pass);
            }
            store.inject(None, fault);
            for n in 0..12 {
                publish(&volume, format!("d/{}", n % 4).as_bytes(), 70_000).await.unwrap();
            }
            assert_eq!(store.fired(), skip + 1);
            assert_eq!(objects(&*store, bucket).await, 4, "{fault:?} after {skip}");
            volume.close().await;
            assert_eq!(count_blocks(&blocks).await, 24, "nothing published is deleted");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_publication_deletes_its_blocks() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks.clone()).await;
    make_bucket(&volume).await;
    publish(&volume, b"one", 3).await.unwrap();
    let body = staged(&volume, 100_000).await;
    let refused = publish_staged(&volume, b"one", body, &WriteCondition::IfAbsent).await;
    assert!(matches!(refused, Err(VolumeError::Fs(FsError::PreconditionFailed))));
    volume.close().await;
    assert_eq!(count_blocks(&blocks).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_caller_gets_unknown_at_the_deadline_if_the_store_hangs() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks.clone()).await;
    let bucket = make_bucket(&volume).await;
    store.inject(Some(space::INODE), Fault::Hang);
    let begun = tokio::time::Instant::now();
    let error = publish(&volume, b"one", 100_000).await.unwrap_err();
    assert!(matches!(error, VolumeError::Unknown(_)), "{error}");
    let took = begun.elapsed();
    assert!(took >= COMMIT_DEADLINE && took < COMMIT_DEADLINE + Duration::from_secs(1), "{took:?}");
    assert_eq!(store.fired(), 1);
    assert_eq!(volume.counters().session.unresolved, 1);
    // Other plans are served in the meantime, and the late answer settles the plan.
    publish(&volume, b"two", 3).await.unwrap();
    store.release();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(objects(&*store, bucket).await, 2);
    volume.close().await;
    assert_eq!(count_blocks(&blocks).await, 2, "blocks that a plan may name are kept");
}

#[tokio::test(start_paused = true)]
async fn a_file_program_waits_for_a_hanging_store() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks).await;
    let bucket = make_bucket(&volume).await;
    publish(&volume, b"one", 3).await.unwrap();
    store.inject(Some(space::INODE), Fault::Hang);
    let name = NodeName { directory: bucket, name: b"one".to_vec() };
    let note = Note::none();
    let remove = RemoveName { name: &name };
    let begun = tokio::time::Instant::now();
    let end = async {
        tokio::time::sleep(3 * COMMIT_DEADLINE).await;
        store.release();
    };
    let (removed, ()) = tokio::join!(volume.session.run_journaled(&remove, None, &note), end);
    removed.unwrap();
    assert!(begun.elapsed() >= 3 * COMMIT_DEADLINE);
    assert_eq!(store.fired(), 1);
    assert_eq!(objects(&*store, bucket).await, 0);
    volume.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_plan_of_unknown_outcome_pins_its_epoch_until_it_settles() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks).await;
    make_bucket(&volume).await;
    store.inject(Some(space::INODE), Fault::Hang);
    publish(&volume, b"one", 3).await.unwrap_err();
    volume.session.epochs().observe(100);
    assert!(volume.session.epochs().passed() < 100, "the plan may still be under way");
    store.release();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(volume.session.epochs().passed(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_plan_is_committed_after_its_caller_was_dropped() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks.clone()).await;
    let bucket = make_bucket(&volume).await;
    let body = staged(&volume, 100_000).await;
    let publishing = publish_staged(&volume, b"one", body, &WriteCondition::None);
    // Long enough to be in the queue, too short to be answered.
    let early = tokio::time::timeout(Duration::from_micros(500), publishing).await;
    assert!(early.is_err(), "the caller left before the answer");
    volume.close().await;
    assert_eq!(objects(&*store, bucket).await, 1);
    assert_eq!(count_blocks(&blocks).await, 2);
}

//! Readers that last, and blocks that are kept for a while.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use block::{BlockStore, MemoryBlocks};
use bytes::Bytes;
use content::ContentStream;
use faulty::{Fault, Faulty, Reading, get};
use futures::{StreamExt, TryStreamExt};
use record::key::{self, space};
use record::{Hold, HoldScope, Sequence, Timestamp};
use session::{HEARTBEAT_INTERVAL, HOLD_AFTER, SESSION_SILENCE};
use store::{MetaStore, Plan, StoreErrorKind, Write};
use tokio::time::{Instant, sleep, timeout};
use upkeep::{DELETION_GRACE_RELAXED, NoProgress, REAP_INTERVAL, fsck};

use super::packs::{THREE, bytes_of, exists, pack};
use super::reaping::{delete, read, records};
use super::rollback::{Restorable, content, put};
use super::{MaintainedVolume, count_blocks, make_bucket, open, publish};
use crate::{Volume, VolumeOptions};

/// Long enough for a reader to be seen to last, by its own session and then by the reaper's.
const NOTICED: Duration = Duration::from_secs(2 * HOLD_AFTER.as_secs());

/// Begins to read an object, of which a part comes and the rest is not taken.
async fn begin(volume: &Volume, name: &[u8]) -> (ContentStream, Vec<u8>) {
    let object = volume.stat("b", name).await.unwrap();
    let mut stream = volume.read(&object, 0..object.size());
    let first = stream.next().await.unwrap().unwrap();
    (stream, first.to_vec())
}

#[tokio::test(start_paused = true)]
async fn a_long_reader_holds_only_its_file() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let deleting = open(store.clone(), blocks.clone()).await;
    make_bucket(&deleting).await;
    let reading = open(store.clone(), blocks.clone()).await;
    for name in [&b"slow"[..], b"other", b"third"] {
        publish(&deleting, name, 2_000_000).await.unwrap();
    }
    let each = count_blocks(&blocks).await / 3;
    let (stream, mut found) = begin(&reading, b"slow").await;
    let (beside, _) = begin(&reading, b"slow").await;
    delete(&deleting, b"slow").await;
    delete(&deleting, b"other").await;
    let reaped =
        timeout(NOTICED, deleting.upkeep.reap_now()).await.expect("held back by one reader");
    assert_eq!(reaped.unwrap().blocks, each as u64);
    assert_eq!((records(&*store, space::HOLD).await, reading.counters().holds), (1, 1));
    assert_eq!(count_blocks(&blocks).await, 2 * each);
    // It does not delay later deletions either, and reads to its end.
    sleep(SESSION_SILENCE * 3).await;
    delete(&deleting, b"third").await;
    let reaped =
        timeout(HEARTBEAT_INTERVAL * 2, deleting.upkeep.reap_now()).await.expect("held back");
    assert_eq!(reaped.unwrap().blocks, each as u64);
    assert_eq!(deleting.counters().oldest_pin, Duration::ZERO);
    assert_eq!(fsck(store.clone(), blocks.clone(), &NoProgress).await.unwrap().findings, []);
    let rest: Vec<Bytes> = stream.try_collect().await.unwrap();
    found.extend(rest.concat());
    assert!(found == vec![5; 2_000_000], "objects deleted while they were read");
    sleep(Duration::from_secs(2)).await;
    assert_eq!(records(&*store, space::HOLD).await, 1, "the other one reads on");
    drop(beside);
    sleep(Duration::from_secs(2)).await;
    assert_eq!((records(&*store, space::HOLD).await, reading.counters().holds), (0, 0));
    deleting.upkeep.reap_now().await.unwrap();
    assert_eq!(count_blocks(&blocks).await, 0);
    assert_eq!(fsck(store, blocks, &NoProgress).await.unwrap().findings, []);
}

#[tokio::test(start_paused = true)]
async fn a_reader_writes_no_hold_without_deletions() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks).await;
    make_bucket(&volume).await;
    publish(&volume, b"slow", 2_000_000).await.unwrap();
    let (_stream, _) = begin(&volume, b"slow").await;
    sleep(SESSION_SILENCE).await;
    assert_eq!(records(&*store, space::HOLD).await, 0);
}

#[tokio::test(start_paused = true)]
async fn inline_content_needs_no_pin() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks.clone()).await;
    make_bucket(&volume).await;
    publish(&volume, b"inline", 5).await.unwrap();
    publish(&volume, b"large", 70_000).await.unwrap();
    let object = volume.stat("b", b"inline").await.unwrap();
    let stream = volume.read(&object, 0..5);
    drop(object);
    delete(&volume, b"inline").await;
    delete(&volume, b"large").await;
    let reaped = timeout(HOLD_AFTER / 2, volume.upkeep.reap_now()).await.expect("held back");
    assert_eq!((reaped.unwrap().blocks, count_blocks(&blocks).await), (2, 0));
    let pieces: Vec<Bytes> = stream.try_collect().await.unwrap();
    assert_eq!(pieces.concat(), vec![5; 5]);
}

#[tokio::test(start_paused = true)]
async fn a_hold_ends_with_its_session() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let deleting = open(store.clone(), blocks.clone()).await;
    make_bucket(&deleting).await;
    publish(&deleting, b"slow", 2_000_000).await.unwrap();
    let reading = open(store.clone(), blocks.clone()).await;
    let (stream, _) = begin(&reading, b"slow").await;
    delete(&deleting, b"slow").await;
    timeout(NOTICED, deleting.upkeep.reap_now()).await.expect("held back").unwrap();
    assert_eq!(records(&*store, space::HOLD).await, 1);
    assert!(count_blocks(&blocks).await > 0);
    // As if it had been killed.
    drop((stream, reading));
    sleep(SESSION_SILENCE * 2).await;
    deleting.upkeep.reap_now().await.unwrap();
    assert_eq!((count_blocks(&blocks).await, records(&*store, space::HOLD).await), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_reader_keeps_its_pin_until_its_hold_is_committed() {
    for fault in [Fault::Unavailable, Fault::LostRequest, Fault::LostAnswer] {
        let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
        let volume = open(store.clone(), blocks.clone()).await;
        make_bucket(&volume).await;
        publish(&volume, b"slow", 2_000_000).await.unwrap();
        let (stream, mut found) = begin(&volume, b"slow").await;
        delete(&volume, b"slow").await;
        for _ in 0..3 {
            store.inject(Some(space::HOLD), fault);
        }
        timeout(NOTICED * 3, volume.upkeep.reap_now()).await.expect("held back").unwrap();
        // The outcome of the lost answer is found, and then the hold is known to be committed.
        let fired = if fault == Fault::LostAnswer { 1 } else { 3 };
        assert_eq!(store.fired(), fired, "{fault:?}");
        let rest: Vec<Bytes> = stream.try_collect().await.unwrap();
        found.extend(rest.concat());
        assert!(found == vec![5; 2_000_000], "{fault:?}");
        sleep(NOTICED).await;
        volume.upkeep.reap_now().await.unwrap();
        assert_eq!(records(&*store, space::HOLD).await, 0, "{fault:?}");
        assert_eq!(count_blocks(&blocks).await, 0, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rewritten_pack_stays_for_its_readers() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks.clone()).await;
    make_bucket(&volume).await;
    let old = pack(&volume, &THREE).await;
    let (name, length) = THREE[1];
    let object = volume.stat("b", name.as_bytes()).await.unwrap();
    let stream = volume.read(&object, 0..object.size());
    delete(&volume, b"c").await;
    timeout(NOTICED, volume.upkeep.reap_now()).await.expect("held back").unwrap();
    assert_eq!(volume.upkeep.repack_now().await.unwrap().sources, 1);
    timeout(NOTICED, volume.upkeep.reap_now()).await.expect("held back").unwrap();
    assert!(exists(&blocks, old).await, "a reader is active in it");
    let pieces: Vec<Bytes> = stream.try_collect().await.unwrap();
    assert!(pieces.concat() == bytes_of(name, length));
    drop(object);
    sleep(Duration::from_secs(2)).await;
    volume.upkeep.reap_now().await.unwrap();
    assert!(!exists(&blocks, old).await);
    assert!(read(&volume, name.as_bytes()).await.unwrap() == bytes_of(name, length));
    assert_eq!(fsck(store, blocks, &NoProgress).await.unwrap().findings, []);
}

#[tokio::test(start_paused = true)]
async fn freed_blocks_are_kept_for_the_deletion_grace() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let grace = DELETION_GRACE_RELAXED;
    let options =
        VolumeOptions { block_bytes: 65_536, inline_bytes_max: 16, ..VolumeOptions::default() };
    let volume = MaintainedVolume::open_with_grace(options, grace, store.clone(), blocks.clone())
        .await
        .unwrap();
    make_bucket(&volume).await;
    publish(&volume, b"a", 200_000).await.unwrap();
    delete(&volume, b"a").await;
    let began = Instant::now();
    while records(&*store, space::PENDING).await == 0 {
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(records(&*store, space::ORPHAN).await, 0);
    sleep((began + grace - Duration::from_millis(100)) - Instant::now()).await;
    assert_eq!(count_blocks(&blocks).await, 4, "all of them wait");
    sleep(Duration::from_secs(3)).await;
    assert_eq!(count_blocks(&blocks).await, 0, "and then go by themselves");
    assert_eq!(records(&*store, space::PENDING).await, 0);
    // A caller waits for the same time.
    publish(&volume, b"b", 200_000).await.unwrap();
    delete(&volume, b"b").await;
    let began = Instant::now();
    volume.upkeep.reap_now().await.unwrap();
    assert!(began.elapsed() >= grace && count_blocks(&blocks).await == 0);
}

/// Overwrites, deletes and rewrites packs, restores the store to two seconds ago, and returns which
/// objects can be read, of those that were not touched since or are back.
async fn put_back(grace: Duration) -> (usize, usize) {
    let (store, blocks) = (Restorable::new(), Arc::new(MemoryBlocks::new()));
    let options = VolumeOptions::default;
    let volume = MaintainedVolume::open_with_grace(options(), grace, store.clone(), blocks.clone())
        .await
        .unwrap();
    make_bucket(&volume).await;
    let old = pack(&volume, &THREE).await;
    for n in 0..8_u8 {
        put(&volume, &format!("x/{n}"), &Bytes::from(vec![n; 2 << 20])).await.unwrap();
    }
    let saved = store.save().await;
    for n in 0..8_u8 {
        put(&volume, &format!("x/{n}"), &Bytes::from(vec![100; 2 << 20])).await.unwrap();
    }
    delete(&volume, b"c").await;
    volume.delete("b", vec![(b"x/0".to_vec(), None)]).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    volume.upkeep.repack_now().await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let was_there = blocks.sessions().await.unwrap().len();
    assert!(was_there > 0);
    store.restore(saved);
    drop(volume);
    let fresh = MaintainedVolume::open_with_grace(options(), grace, store.clone(), blocks.clone())
        .await
        .unwrap();
    let (mut whole, mut lost) = (0, 0);
    for n in 0..8_u8 {
        match content(&fresh, &format!("x/{n}")).await {
            Ok(bytes) => {
                assert!(bytes == vec![n; 2 << 20], "other bytes");
                whole += 1;
            }
            Err(_) => lost += 1,
        }
    }
    for (name, length) in THREE {
        match content(&fresh, name).await {
            Ok(bytes) => {
                assert!(bytes == bytes_of(name, length), "other bytes");
                whole += 1;
            }
            Err(_) => lost += 1,
        }
    }
    assert!(get(&*store, &key::pending(old)).await.is_none(), "the store was put back");
    (whole, lost)
}

#[tokio::test(start_paused = true)]
async fn a_store_that_loses_two_seconds_loses_no_older_object() {
    assert_eq!(put_back(DELETION_GRACE_RELAXED).await, (11, 0));
    let (_, lost) = put_back(Duration::ZERO).await;
    assert!(lost > 0, "without the grace nothing was lost either: this proves nothing");
}

/// A block whose time has come while the store is away is not asked for over and over.
#[tokio::test(start_paused = true)]
async fn an_unreachable_store_is_asked_with_pauses() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let grace = Duration::from_secs(10);
    let options = VolumeOptions::default();
    let volume = MaintainedVolume::open_with_grace(options, grace, store.clone(), blocks.clone())
        .await
        .unwrap();
    make_bucket(&volume).await;
    publish(&volume, b"a", 200_000).await.unwrap();
    delete(&volume, b"a").await;
    sleep(grace.mul_f64(0.9)).await;
    assert_eq!(
        (records(&*store, space::PENDING).await > 0, count_blocks(&blocks).await > 0),
        (true, true)
    );
    {
        let mut reading = store.reading.lock().unwrap();
        (reading.takes, reading.fails) =
            (Duration::from_millis(1), Some(StoreErrorKind::Unavailable));
    }
    let before = store.reads.load(Ordering::SeqCst);
    sleep(Duration::from_secs(5)).await;
    let asked = store.reads.load(Ordering::SeqCst) - before;
    assert!((1..100).contains(&asked), "{asked} times");
    *store.reading.lock().unwrap() = Reading::default();
    sleep(REAP_INTERVAL * 2).await;
    assert_eq!(count_blocks(&blocks).await, 0, "it goes once the store is back");
}

/// A plan that was thought lost may put a hold in another one's place.
#[tokio::test(start_paused = true)]
async fn a_late_hold_is_removed_with_the_one_it_replaced() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks.clone()).await;
    make_bucket(&volume).await;
    publish(&volume, b"slow", 2_000_000).await.unwrap();
    let (stream, _) = begin(&volume, b"slow").await;
    delete(&volume, b"slow").await;
    timeout(NOTICED, volume.upkeep.reap_now()).await.expect("held back").unwrap();
    let page = store.walk(space::HOLD, None, 10).await.unwrap();
    let [(at, _)] = &page.records[..] else { panic!("one hold") };
    let late =
        Write::Put(at.clone(), Hold { since: Timestamp(1), scope: HoldScope::Versions }.encode(at));
    store.commit_now(&[Plan { guards: Vec::new(), writes: vec![late] }]).await;
    let refused = volume.counters().session.refused;
    drop(stream);
    sleep(Duration::from_secs(4)).await;
    assert_eq!(volume.counters().session.refused, refused + 1, "none but its own is removed");
    assert_eq!(records(&*store, space::HOLD).await, 0);
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(count_blocks(&blocks).await, 0);
}

/// A restored store may have lost the epoch in which a reader is active.
#[tokio::test(start_paused = true)]
async fn a_lost_epoch_is_not_used_again() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let deleting = open(store.clone(), blocks.clone()).await;
    make_bucket(&deleting).await;
    let reading = open(store.clone(), blocks.clone()).await;
    for name in [&b"slow"[..], b"other"] {
        publish(&deleting, name, 2_000_000).await.unwrap();
    }
    delete(&deleting, b"other").await;
    deleting.upkeep.reap_now().await.unwrap();
    sleep(HEARTBEAT_INTERVAL * 2).await;
    let at = key::epoch();
    let epoch = Sequence::decode(&at, &get(&*store, &at).await.unwrap()).unwrap();
    assert_eq!(reading.session.epochs().current(), epoch.0);
    let (stream, mut found) = begin(&reading, b"slow").await;
    let back = Write::Put(at.clone(), Sequence(epoch.0 - 1).encode(&at));
    store.commit_now(&[Plan { guards: Vec::new(), writes: vec![back] }]).await;
    delete(&deleting, b"slow").await;
    let began = Instant::now();
    timeout(NOTICED * 3, deleting.upkeep.reap_now()).await.expect("held back").unwrap();
    assert!(began.elapsed() > HOLD_AFTER / 2, "no task waited for the reader");
    let rest: Vec<Bytes> = stream.try_collect().await.expect("its blocks are there");
    found.extend(rest.concat());
    assert!(found == vec![5; 2_000_000]);
}

/// The scope of the only hold in the store.
async fn held(store: &Faulty) -> HoldScope {
    let page = store.walk(space::HOLD, None, 10).await.unwrap();
    let [(at, value)] = &page.records[..] else { panic!("one hold") };
    Hold::decode(at, value).unwrap().scope
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_weakened_when_its_version_readers_end() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks.clone()).await;
    make_bucket(&volume).await;
    publish(&volume, b"slow", 2_000_000).await.unwrap();
    let ino = volume.stat("b", b"slow").await.unwrap().ino;
    let opened = volume.open_node(ino, volume.reading());
    let (stream, _) = begin(&volume, b"slow").await;
    delete(&volume, b"slow").await;
    timeout(NOTICED, volume.upkeep.reap_now()).await.expect("held back").unwrap();
    assert_eq!(held(&store).await, HoldScope::Versions);
    drop(stream);
    sleep(Duration::from_secs(4)).await;
    assert_eq!(held(&store).await, HoldScope::File);
    drop(opened);
    sleep(Duration::from_secs(4)).await;
    assert_eq!(records(&*store, space::HOLD).await, 0);
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(count_blocks(&blocks).await, 0);
}

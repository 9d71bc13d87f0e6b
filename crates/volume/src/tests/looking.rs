//! Time and place of sweeps, and references that move during a sweep.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use block::MemoryBlocks;
use faulty::{Fault, Faulty, Gate};
use namespace::WriteCondition;
use record::key::space;
use record::{Tag, Timestamp};
use session::{SESSION_SILENCE, SessionOptions};
use upkeep::SweepOptions;

use super::reaping::{copy, delete, finished, part, put, read, records, upload};
use super::sweeping::{Unlistable, killed};
use super::{MaintainedVolume, count_blocks, make_bucket, open, publish, staged};
use crate::{CompletePart, CompleteUpload, SetClock, VolumeError, VolumeOptions};

#[tokio::test(start_paused = true)]
async fn a_swept_session_is_not_swept_again() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    killed(&store, &blocks).await;
    let clock = Arc::new(SetClock::new(Timestamp(1_000_000)));
    let options = VolumeOptions {
        session: SessionOptions { clock: clock.clone(), ..SessionOptions::default() },
        ..Default::default()
    };
    let volume =
        MaintainedVolume::open_without_tasks(options, store.clone(), blocks.clone()).await.unwrap();
    tokio::time::sleep(SESSION_SILENCE * 2).await;
    let first = volume.upkeep.sweep(SweepOptions::default()).await.unwrap();
    assert_eq!((first.listed, first.deleted), (4, 2));
    // A block whose put was given up may arrive later, so the session is swept once more.
    clock.set(Timestamp(1_000_000 + 2 * 3_600_000_000_000));
    let second = volume.upkeep.sweep(SweepOptions::default()).await.unwrap();
    assert_eq!(second.listed, 2);
    let third = volume.upkeep.sweep(SweepOptions::default()).await.unwrap();
    assert_eq!(third.listed, 0, "the rest has names, and is left to the reaper");
    assert_eq!(read(&volume, b"kept").await.unwrap(), vec![5; 100_000]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_sweep_is_retried() {
    let (store, blocks) = (Faulty::new(), Arc::new(Unlistable::default()));
    let options = VolumeOptions { block_bytes: 16, ..VolumeOptions::default() };
    let volume =
        MaintainedVolume::open_without_tasks(options, store.clone(), blocks.clone()).await.unwrap();
    make_bucket(&volume).await;
    put(&volume, b"kept", 80).await;
    staged(&volume, 16 * 999).await.disarm();
    drop(volume);
    blocks.failing.store(true, Ordering::SeqCst);
    let volume = MaintainedVolume::open(VolumeOptions::default(), store.clone(), blocks.clone())
        .await
        .unwrap();
    tokio::time::sleep(SESSION_SILENCE * 2).await;
    assert!(blocks.failed.load(Ordering::SeqCst), "a listing broke off");
    assert_eq!(count_blocks(&blocks.inner).await, 1_004);
    blocks.failing.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_mins(20)).await;
    assert_eq!(count_blocks(&blocks.inner).await, 5);
    volume.close().await;
}

#[tokio::test(start_paused = true)]
async fn leftovers_of_a_session_closed_elsewhere_are_swept() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = MaintainedVolume::open(VolumeOptions::default(), store.clone(), blocks.clone())
        .await
        .unwrap();
    make_bucket(&volume).await;
    let other = open(store.clone(), blocks.clone()).await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    staged(&other, 100_000).await.disarm();
    assert_eq!(count_blocks(&blocks).await, 1);
    other.close().await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(count_blocks(&blocks).await, 0);
    volume.close().await;
}

#[tokio::test(start_paused = true)]
async fn staged_shares_of_a_deleted_source_are_swept() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let options = || VolumeOptions { block_bytes: 256, ..Default::default() };
    let volume = MaintainedVolume::open_without_tasks(options(), store.clone(), blocks.clone())
        .await
        .unwrap();
    make_bucket(&volume).await;
    put(&volume, b"source", 150_000).await;
    let dead = MaintainedVolume::open_without_tasks(options(), store.clone(), blocks.clone())
        .await
        .unwrap();
    // The last plan of its copy never comes.
    store.inject(Some(space::INODE), Fault::Stuck);
    let copying = copy(&dead, b"source", b"copy");
    assert!(tokio::time::timeout(Duration::from_secs(1), copying).await.is_err());
    assert_eq!(store.fired(), 1);
    drop(dead);
    tokio::time::sleep(SESSION_SILENCE * 4).await;
    delete(&volume, b"source").await;
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(count_blocks(&blocks).await, 586, "the copy owns them now, for all that is known");
    volume.upkeep.sweep(SweepOptions::default()).await.unwrap();
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(count_blocks(&blocks).await, 0, "and they are of a session that lives");
    for space in [space::SHARE, space::MAP, space::STAGED, space::PENDING] {
        assert_eq!(records(&*store, space).await, 0, "{space:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_sweep_does_not_delay_the_reaper() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    killed(&store, &blocks).await;
    let volume = open(store.clone(), blocks.clone()).await;
    tokio::time::sleep(SESSION_SILENCE * 2).await;
    let gate = Gate::before(space::MAP, false);
    *store.gate.lock().unwrap() = Some(gate.clone());
    let sweeping = volume.clone();
    let sweep = volume
        .session
        .tasks()
        .spawn("sweep", async move { sweeping.upkeep.sweep(SweepOptions::default()).await });
    gate.reached.notified().await;
    publish(&volume, b"new", 70_000).await.unwrap();
    delete(&volume, b"new").await;
    delete(&volume, b"kept").await;
    let reaped = tokio::time::timeout(Duration::from_mins(2), volume.upkeep.reap_now()).await;
    assert_eq!(reaped.expect("it waits for no other").unwrap().blocks, 4);
    gate.open.notify_one();
    let swept = sweep.await.unwrap().unwrap();
    assert_eq!(swept.listed, 4);
    assert_eq!(count_blocks(&blocks).await, 0);
}

/// A session that has ended and left one part of an upload; then one that goes on.
async fn left_a_part(
    store: &Arc<Faulty>,
    blocks: &Arc<MemoryBlocks>,
) -> (MaintainedVolume, crate::UploadId) {
    let dead = open(store.clone(), blocks.clone()).await;
    make_bucket(&dead).await;
    let id = upload(&dead, b"big").await;
    part(&dead, b"big", id, 1).await;
    drop(dead);
    let volume = open(store.clone(), blocks.clone()).await;
    tokio::time::sleep(SESSION_SILENCE * 2).await;
    (volume, id)
}

#[tokio::test(start_paused = true)]
async fn a_part_completed_during_a_sweep_keeps_its_blocks() {
    for space in [space::PART, space::INODE, space::MAP, space::ORPHAN, space::PENDING] {
        let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
        let (volume, id) = left_a_part(&store, &blocks).await;
        let gate = Gate::before(space, false);
        *store.gate.lock().unwrap() = Some(gate.clone());
        let sweeping = volume.clone();
        let sweep = volume
            .session
            .tasks()
            .spawn("sweep", async move { sweeping.upkeep.sweep(SweepOptions::default()).await });
        gate.reached.notified().await;
        let parts = [CompletePart { number: 1, tag: Tag::Md5([9; 16]), sums: Vec::new() }];
        let wanted =
            CompleteUpload { parts: &parts, object_size: None, condition: WriteCondition::None };
        let finish = |_: &_, _: &[_]| Ok::<_, VolumeError>(finished(Tag::Multipart([3; 16], 1)));
        volume.complete("b", b"big", id, wanted, finish).await.unwrap();
        // Where a sweep holds the reaper back this does not end before it.
        let reaped = tokio::time::timeout(Duration::from_mins(2), volume.upkeep.reap_now()).await;
        gate.open.notify_one();
        sweep.await.unwrap().unwrap();
        assert_eq!(store.fired(), 1);
        assert!(reaped.is_ok(), "{space:?}");
        assert_eq!(records(&*store, space::PART).await, 0);
        assert_eq!(read(&volume, b"big").await.unwrap(), vec![5; 100_000], "{space:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_whose_source_is_deleted_during_a_sweep_keeps_its_blocks() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    // Its numbers are smaller than the other's.
    let volume = open(store.clone(), blocks.clone()).await;
    make_bucket(&volume).await;
    let dead = open(store.clone(), blocks.clone()).await;
    for n in 0..1_100 {
        publish(&dead, format!("n{n}").as_bytes(), 5).await.unwrap();
    }
    put(&dead, b"source", 100_000).await;
    drop(dead);
    tokio::time::sleep(SESSION_SILENCE * 2).await;
    let gate = Gate::before(space::INODE, true);
    *store.gate.lock().unwrap() = Some(gate.clone());
    let sweeping = volume.clone();
    let sweep = volume
        .session
        .tasks()
        .spawn("sweep", async move { sweeping.upkeep.sweep(SweepOptions::default()).await });
    gate.reached.notified().await;
    copy(&volume, b"source", b"copy").await;
    delete(&volume, b"source").await;
    let reaped = tokio::time::timeout(Duration::from_mins(2), volume.upkeep.reap_now()).await;
    gate.open.notify_one();
    let swept = sweep.await.unwrap().unwrap();
    assert_eq!(store.fired(), 1);
    assert!(reaped.is_ok());
    assert_eq!(swept.listed, 2);
    assert_eq!(read(&volume, b"copy").await.unwrap(), vec![5; 100_000]);
}

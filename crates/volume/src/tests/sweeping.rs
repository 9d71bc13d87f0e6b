//! Leftovers of killed processes, and their deletion.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use block::{BlockError, BlockErrorKind, BlockPage, BlockStore, MemoryBlocks, SealedBlock, Stored};
use bytes::Bytes;
use faulty::{Fault, Faulty, get};
use record::key::{self, space};
use record::{BlockId, Nonce};
use session::SESSION_SILENCE;
use store::{MetaStore, Plan, Write};
use upkeep::SweepOptions;

use super::reaping::{copy, delete, put, read, records};
use super::{MaintainedVolume, count_blocks, make_bucket, open, publish, staged};
use crate::{CopyChanges, VolumeOptions};

/// Publishes one object, uploads two blocks for another, and is killed.
pub(super) async fn killed(store: &Arc<Faulty>, blocks: &Arc<MemoryBlocks>) -> Nonce {
    let volume = open(store.clone(), blocks.clone()).await;
    make_bucket(&volume).await;
    publish(&volume, b"kept", 100_000).await.unwrap();
    // A killed process deletes nothing on its way out.
    staged(&volume, 100_000).await.disarm();
    volume.session.nonce()
}

#[tokio::test(start_paused = true)]
async fn a_sweep_spares_live_sessions_and_named_blocks() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let dead = killed(&store, &blocks).await;
    let volume = open(store.clone(), blocks.clone()).await;
    staged(&volume, 70_000).await.disarm();
    let early = volume.upkeep.sweep(SweepOptions::default()).await.unwrap();
    assert_eq!(early.listed, 0, "the killed session was not ended yet");
    tokio::time::sleep(SESSION_SILENCE * 2).await;
    let dry = SweepOptions { dry_run: true, ..SweepOptions::default() };
    let dry = volume.upkeep.sweep(dry).await.unwrap();
    assert_eq!((dry.listed, dry.unreferenced, dry.deleted), (4, 2, 0));
    assert_eq!(count_blocks(&blocks).await, 6);
    assert!(get(&*store, &key::idempotency_slot(dead, 0)).await.is_some());
    let swept = volume.upkeep.sweep(SweepOptions::default()).await.unwrap();
    assert_eq!((swept.listed, swept.unreferenced, swept.deleted), (4, 2, 2));
    assert_eq!(count_blocks(&blocks).await, 4, "its own staged blocks are no candidates");
    assert_eq!(read(&volume, b"kept").await.unwrap(), vec![5; 100_000]);
    assert_eq!(get(&*store, &key::idempotency_slot(dead, 0)).await, None);
    assert_eq!(get(&*store, &key::fenced(dead)).await, None);
}

#[tokio::test(start_paused = true)]
async fn leftovers_of_a_killed_process_are_swept_in_the_background() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    killed(&store, &blocks).await;
    let volume = MaintainedVolume::open(VolumeOptions::default(), store.clone(), blocks.clone())
        .await
        .unwrap();
    tokio::time::sleep(SESSION_SILENCE * 3).await;
    assert_eq!(count_blocks(&blocks).await, 2);
    delete(&volume, b"kept").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(count_blocks(&blocks).await, 0, "the reaper was woken");
    volume.close().await;
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_record_stops_every_deletion() {
    for space in [space::INODE, space::MAP, space::PART, space::ORPHAN, space::PENDING] {
        let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
        killed(&store, &blocks).await;
        let volume = open(store.clone(), blocks.clone()).await;
        tokio::time::sleep(SESSION_SILENCE * 2).await;
        let broken = store::Key::new(space, 77, b"short");
        let put = Write::Put(broken, Bytes::from_static(b"no record"));
        store.commit(&[Plan { guards: Vec::new(), writes: vec![put] }]).await.unwrap();
        volume.upkeep.sweep(SweepOptions::default()).await.unwrap_err();
        assert_eq!(count_blocks(&blocks).await, 4, "{space:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sweep_beyond_its_share_deletes_nothing() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let options = VolumeOptions { block_bytes: 16, ..VolumeOptions::default() };
    let volume =
        MaintainedVolume::open_without_tasks(options, store.clone(), blocks.clone()).await.unwrap();
    staged(&volume, 16 * 1_200).await.disarm();
    volume.close().await;
    drop(volume);
    let volume = open(store.clone(), blocks.clone()).await;
    let swept = volume.upkeep.sweep(SweepOptions::default()).await.unwrap();
    assert!(swept.beyond_share);
    assert_eq!((swept.unreferenced, swept.deleted), (1_200, 0));
    let all = SweepOptions { share_percent: 100, ..SweepOptions::default() };
    let swept = volume.upkeep.sweep(all).await.unwrap();
    assert_eq!((swept.unreferenced, swept.deleted), (1_200, 1_200));
    assert_eq!(count_blocks(&blocks).await, 0);
}

#[tokio::test(start_paused = true)]
async fn staged_records_of_a_dead_session_are_deleted() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let options = VolumeOptions { block_bytes: 256, ..VolumeOptions::default() };
    let volume =
        MaintainedVolume::open_without_tasks(options, store.clone(), blocks.clone()).await.unwrap();
    make_bucket(&volume).await;
    put(&volume, b"source", 150_000).await;
    store.inject(Some(space::INODE), Fault::Stuck);
    let copying = copy(&volume, b"source", b"copy");
    assert!(tokio::time::timeout(Duration::from_secs(1), copying).await.is_err());
    assert_eq!(store.fired(), 1);
    assert!(records(&*store, space::STAGED).await > 0);
    assert_eq!(records(&*store, space::MAP).await, 4);
    drop(volume);
    let heir = open(store.clone(), blocks.clone()).await;
    tokio::time::sleep(SESSION_SILENCE * 2).await;
    heir.upkeep.sweep(SweepOptions::default()).await.unwrap();
    assert_eq!(records(&*store, space::STAGED).await, 0);
    assert_eq!(records(&*store, space::MAP).await, 2);
    assert_eq!(read(&heir, b"source").await.unwrap(), vec![5; 150_000]);
    delete(&heir, b"source").await;
    heir.upkeep.reap_now().await.unwrap();
    assert_eq!(count_blocks(&blocks).await, 0);
    assert_eq!(records(&*store, space::SHARE).await, 0);
}

/// A block store whose listing fails after a switch.
#[derive(Debug, Default)]
pub(super) struct Unlistable {
    pub(super) inner: MemoryBlocks,
    pub(super) failing: AtomicBool,
    pub(super) failed: AtomicBool,
}

#[async_trait]
impl BlockStore for Unlistable {
    async fn put(&self, block: &SealedBlock) -> Result<Stored, BlockError> {
        self.inner.put(block).await
    }
    async fn get(&self, id: BlockId, bytes: Range<u64>) -> Result<Bytes, BlockError> {
        self.inner.get(id, bytes).await
    }
    async fn size(&self, id: BlockId) -> Result<Option<u64>, BlockError> {
        self.inner.size(id).await
    }
    async fn delete(&self, id: BlockId) -> Result<(), BlockError> {
        self.inner.delete(id).await
    }
    async fn sessions(&self) -> Result<Vec<Nonce>, BlockError> {
        self.inner.sessions().await
    }
    async fn list(&self, session: Nonce, resume: Option<String>) -> Result<BlockPage, BlockError> {
        // The first page of 1,000 comes, the second fails.
        if resume.is_some() && self.failing.load(Ordering::SeqCst) {
            self.failed.store(true, Ordering::SeqCst);
            return Err(BlockError::new(BlockErrorKind::Unavailable, "listing"));
        }
        self.inner.list(session, resume).await
    }
    async fn mark(&self) -> Result<Option<Bytes>, BlockError> {
        self.inner.mark().await
    }
    async fn set_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        self.inner.set_mark(mark).await
    }
    async fn remove_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        self.inner.remove_mark(mark).await
    }

    async fn probe(&self) -> Result<(), BlockError> {
        self.inner.probe().await
    }
}

#[tokio::test(start_paused = true)]
async fn an_incomplete_block_listing_deletes_nothing() {
    let (store, blocks) = (Faulty::new(), Arc::new(Unlistable::default()));
    let options = VolumeOptions { block_bytes: 16, ..VolumeOptions::default() };
    let volume =
        MaintainedVolume::open_without_tasks(options, store.clone(), blocks.clone()).await.unwrap();
    staged(&volume, 16 * 1_200).await.disarm();
    volume.close().await;
    let volume = open(store.clone(), blocks.clone()).await;
    blocks.failing.store(true, Ordering::SeqCst);
    let all = SweepOptions { share_percent: 100, ..SweepOptions::default() };
    volume.upkeep.sweep(all).await.unwrap_err();
    assert!(blocks.failed.load(Ordering::SeqCst));
    assert_eq!(count_blocks(&blocks.inner).await, 1_200);
}

#[tokio::test(start_paused = true)]
async fn a_failed_copy_leaves_its_source_the_only_owner() {
    // So many blocks that the copy is staged ahead of its plan.
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let options = VolumeOptions { block_bytes: 256, ..VolumeOptions::default() };
    let volume =
        MaintainedVolume::open_without_tasks(options, store.clone(), blocks.clone()).await.unwrap();
    make_bucket(&volume).await;
    put(&volume, b"source", 150_000).await;
    copy(&volume, b"source", b"twin").await;
    let source = volume.stat("b", b"source").await.unwrap();
    let owner = super::reaping::owner();
    let absent = namespace::WriteCondition::IfAbsent;
    volume.copy(&source, "b", b"twin", CopyChanges::default(), absent, &owner).await.unwrap_err();
    drop(source);
    delete(&volume, b"twin").await;
    volume.upkeep.reap_now().await.unwrap();
    assert_eq!(read(&volume, b"source").await.unwrap(), vec![5; 150_000]);
}

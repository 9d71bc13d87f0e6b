//! A volume is opened over its own blocks only.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use block::{
    BlockError, BlockId, BlockPage, BlockStore, MemoryBlocks, SealedBlock, Sealer, Stored,
};
use bytes::Bytes;
use faulty::{Fault, Faulty, get};
use record::{Nonce, key};
use store::{MemoryStore, MetaStore};
use upkeep::SweepOptions;

use super::{count_blocks, make_bucket, open, publish};
use crate::{SessionOptions, Volume, VolumeError, VolumeOptions};

fn memory() -> (Arc<MemoryStore>, Arc<MemoryBlocks>) {
    (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()))
}

fn mark_of(volume: &Volume) -> Bytes {
    mark_with(volume, volume.record().place.expect("the record names the place"))
}

fn mark_with(volume: &Volume, place: [u8; 16]) -> Bytes {
    let (id, place) = (hex::encode(volume.record().id), hex::encode(place));
    format!("ashlar volume {id} place {place} format 1\n").into()
}

/// The sentence with which the volume is not opened; the stores are as they were.
async fn refused(store: &Arc<MemoryStore>, blocks: &Arc<MemoryBlocks>) -> String {
    let before = (blocks.mark().await.unwrap(), count_blocks(blocks).await);
    let record = get(&**store, &key::volume()).await;
    let options = VolumeOptions::default();
    let error = Volume::open(options, store.clone(), blocks.clone()).await.unwrap_err();
    assert!(matches!(error, VolumeError::Refused(_)), "{error}");
    assert_eq!((blocks.mark().await.unwrap(), count_blocks(blocks).await), before);
    assert_eq!(get(&**store, &key::volume()).await, record);
    let (start, end) = key::partition(key::space::SESSION, 0);
    let sessions = store::Read::Range { start, end, limit: 9, follow: None };
    let found = store.read(&[sessions]).await.unwrap();
    assert!(session::entries(found.into_iter().next()).is_empty(), "no session began");
    error.to_string()
}

#[tokio::test(start_paused = true)]
async fn a_new_volume_marks_its_blocks_and_is_opened_again() {
    let (store, blocks) = memory();
    let volume = open(store.clone(), blocks.clone()).await;
    assert_eq!(blocks.mark().await.unwrap(), Some(mark_of(&volume)));
    make_bucket(&volume).await;
    publish(&volume, b"one", 100_000).await.unwrap();
    volume.close().await;
    let again = open(store, blocks.clone()).await;
    assert_eq!(again.record(), volume.record());
    assert_eq!(blocks.mark().await.unwrap(), Some(mark_of(&volume)));
}

#[tokio::test(start_paused = true)]
async fn a_location_without_its_mark_is_refused() {
    let (store, marked) = memory();
    let volume = open(store.clone(), marked.clone()).await;
    assert!(volume.record().place.is_some(), "the record says so before the first session");
    make_bucket(&volume).await;
    publish(&volume, b"one", 100_000).await.unwrap();
    volume.close().await;
    // Another place, with and without blocks: a mistyped one, or one where a disk is not mounted.
    let (empty, kept) = (Arc::new(MemoryBlocks::new()), Arc::new(MemoryBlocks::new()));
    kept.put(&a_block()).await.unwrap();
    for place in [&empty, &kept] {
        let said = refused(&store, place).await;
        let id = hex::encode(volume.record().id);
        assert!(said.contains(&id) && said.contains("--adopt-blocks"), "{said}");
        let error = session::check_block_owner(&*store, &**place).await.unwrap_err();
        assert_eq!(error.to_string(), said);
    }
    session::check_block_owner(&*store, &*marked).await.unwrap();
    // None of the volume's blocks is in these places, so that they cannot be adopted either.
    let session = SessionOptions { adopts_blocks: true, ..SessionOptions::default() };
    let options = VolumeOptions { session, ..VolumeOptions::default() };
    for place in [&empty, &kept] {
        let adopting = Volume::open(options.clone(), store.clone(), place.clone());
        let said = adopting.await.unwrap_err().to_string();
        assert!(said.contains("none of 2 blocks that files of the volume name"), "{said}");
        assert_eq!(place.mark().await.unwrap(), None);
    }
    // The blocks were restored without the mark: the operator says so once.
    for session in marked.sessions().await.unwrap() {
        for (id, _) in marked.list(session, None).await.unwrap().blocks {
            kept.put(&block_named(id)).await.unwrap();
        }
    }
    let adopting = Volume::open(options, store.clone(), kept.clone()).await.unwrap();
    assert_eq!(kept.mark().await.unwrap(), Some(mark_of(&adopting)));
    adopting.close().await;
    let again = open(store.clone(), kept.clone()).await;
    assert_eq!(again.record(), adopting.record());
    assert_eq!(count_blocks(&kept).await, 3);
    again.close().await;
    // The previous location is not the volume's any more.
    let said = refused(&store, &marked).await;
    assert!(said.contains("in another location"), "{said}");
    let error = session::check_block_owner(&*store, &*marked).await.unwrap_err();
    assert_eq!(error.to_string(), said);
}

#[tokio::test(start_paused = true)]
async fn blocks_of_another_volume_are_not_adopted() {
    let ((store, _), (_, other_blocks)) = (memory(), memory());
    open(store.clone(), Arc::new(MemoryBlocks::new())).await.close().await;
    open(Arc::new(MemoryStore::new()), other_blocks.clone()).await.close().await;
    let session = SessionOptions { adopts_blocks: true, ..SessionOptions::default() };
    let options = VolumeOptions { session, ..VolumeOptions::default() };
    let error = Volume::open(options, store, other_blocks).await.unwrap_err();
    assert!(error.to_string().starts_with("the blocks belong to volume "), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_created_only_if_the_options_allow_it() {
    let (store, blocks) = memory();
    let session = SessionOptions { creates_volume: false, ..SessionOptions::default() };
    let options = VolumeOptions { session, ..VolumeOptions::default() };
    let error = Volume::open(options.clone(), store.clone(), blocks.clone()).await.unwrap_err();
    assert!(matches!(error, VolumeError::Refused(_)), "{error}");
    assert_eq!(get(&*store, &key::volume()).await, None);
    assert_eq!(blocks.mark().await.unwrap(), None);
    open(store.clone(), blocks.clone()).await.close().await;
    Volume::open(options, store, blocks).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_next_start_writes_a_mark_that_a_crash_prevented() {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    store.inject(Some(key::space::VOLUME), Fault::Hang);
    let opening = Volume::open(VolumeOptions::default(), store.clone(), blocks.clone());
    tokio::time::timeout(std::time::Duration::from_secs(1), opening).await.unwrap_err();
    assert_eq!(store.fired(), 1);
    assert!(get(&*store, &key::volume()).await.is_some());
    assert_eq!(blocks.mark().await.unwrap(), None, "never a mark without a volume");
    let volume = open(store, blocks.clone()).await;
    assert!(volume.record().place.is_some());
    assert_eq!(blocks.mark().await.unwrap(), Some(mark_of(&volume)));
}

#[tokio::test(start_paused = true)]
async fn a_new_store_over_the_blocks_of_a_volume_is_refused_and_sweeps_nothing() {
    let (store, blocks) = memory();
    let owner = open(store, blocks.clone()).await;
    make_bucket(&owner).await;
    publish(&owner, b"one", 100_000).await.unwrap();
    owner.close().await;
    let said = refused(&Arc::new(MemoryStore::new()), &blocks).await;
    let id = hex::encode(owner.record().id);
    assert!(said.starts_with(&format!("the blocks belong to volume {id}, but the ")), "{said}");
    assert!(said.contains("store is new: give the --meta that belongs to them"), "{said}");
    assert!(!said.contains("remove"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_marked_location_without_blocks_is_refused_to_other_volumes() {
    let (store, blocks) = memory();
    let owner = open(store, blocks.clone()).await;
    let said = refused(&Arc::new(MemoryStore::new()), &blocks).await;
    assert!(
        said.contains("if that volume is not used any more, remove the object \"volume\""),
        "{said}"
    );
    // The owner lives, so the sweeper may not delete its blocks.
    make_bucket(&owner).await;
    publish(&owner, b"one", 100_000).await.unwrap();
    assert_eq!(count_blocks(&blocks).await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_foreign_store_is_refused() {
    let ((store, blocks), (other_store, other_blocks)) = (memory(), memory());
    let owner = open(store, blocks.clone()).await;
    let other = open(other_store.clone(), other_blocks).await;
    other.close().await;
    let said = refused(&other_store, &blocks).await;
    let [id, other] = [&owner, &other].map(|volume| hex::encode(volume.record().id));
    let start = format!(
        "the blocks belong to volume {id}, but the metadata store belongs to volume {other}: give"
    );
    assert!(said.starts_with(&start), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_new_store_over_unmarked_blocks_is_refused() {
    let (store, blocks) = memory();
    blocks.put(&a_block()).await.unwrap();
    let said = refused(&store, &blocks).await;
    assert!(
        said.starts_with("the location has blocks of an unnamed volume already, but the "),
        "{said}"
    );
    blocks.delete(a_block().id()).await.unwrap();
    open(store, blocks).await;
}

#[tokio::test(start_paused = true)]
async fn a_mark_of_unknown_format_is_refused() {
    let ours = format!("ashlar volume {0} place {0} format 1\n", "ab".repeat(16));
    for mark in ["", "mine", &ours.replace("at 1", "at 2"), &ours[1..], &ours.replace("ab", "a")] {
        let (store, blocks) = memory();
        blocks.set_mark(mark.to_owned().into()).await.unwrap();
        let said = refused(&store, &blocks).await;
        assert!(said.contains("use a newer release, or another --blocks"), "{said}");
    }
}

/// Blocks that another volume marks at the instant before this one does.
#[derive(Debug, Default)]
struct Contended(MemoryBlocks);

#[async_trait::async_trait]
impl BlockStore for Contended {
    async fn put(&self, block: &SealedBlock) -> Result<Stored, BlockError> {
        self.0.put(block).await
    }
    async fn get(&self, id: BlockId, bytes: std::ops::Range<u64>) -> Result<Bytes, BlockError> {
        self.0.get(id, bytes).await
    }
    async fn size(&self, id: BlockId) -> Result<Option<u64>, BlockError> {
        self.0.size(id).await
    }
    async fn delete(&self, id: BlockId) -> Result<(), BlockError> {
        self.0.delete(id).await
    }
    async fn sessions(&self) -> Result<Vec<Nonce>, BlockError> {
        self.0.sessions().await
    }
    async fn list(&self, session: Nonce, resume: Option<String>) -> Result<BlockPage, BlockError> {
        self.0.list(session, resume).await
    }
    async fn mark(&self) -> Result<Option<Bytes>, BlockError> {
        self.0.mark().await
    }
    async fn set_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        let other = format!("ashlar volume {0} place {0} format 1\n", "cd".repeat(16));
        self.0.set_mark(other.into()).await?;
        self.0.set_mark(mark).await
    }
    async fn remove_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        self.0.remove_mark(mark).await
    }

    async fn probe(&self) -> Result<(), BlockError> {
        self.0.probe().await
    }
}

#[tokio::test(start_paused = true)]
async fn the_slower_of_two_volumes_over_one_location_is_refused() {
    let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(Contended::default()));
    let error = Volume::open(VolumeOptions::default(), store, blocks).await.unwrap_err();
    let start = format!("the blocks belong to volume {}, but the", "cd".repeat(16));
    assert!(error.to_string().starts_with(&start), "{error}");
}

#[tokio::test(start_paused = true)]
async fn two_gateways_that_create_one_volume_share_its_mark() {
    let (store, blocks) = memory();
    let (one, two) =
        futures::join!(open(store.clone(), blocks.clone()), open(store.clone(), blocks.clone()));
    assert_eq!(one.record(), two.record());
    assert_eq!(blocks.mark().await.unwrap(), Some(mark_of(&one)));
    assert_eq!(one.upkeep.sweep(SweepOptions::default()).await.unwrap().listed, 0);
}

/// A copy of the location with its mark becomes the location by adoption, and the original is
/// refused.
#[tokio::test(start_paused = true)]
async fn an_adopted_copy_replaces_the_original() {
    let (store, original) = memory();
    let volume = open(store.clone(), original.clone()).await;
    volume.close().await;
    let copy = Arc::new(MemoryBlocks::new());
    copy.set_mark(mark_of(&volume)).await.unwrap();
    let session = SessionOptions { adopts_blocks: true, ..SessionOptions::default() };
    let options = VolumeOptions { session, ..VolumeOptions::default() };
    let adopting = Volume::open(options, store.clone(), copy.clone()).await.unwrap();
    assert_ne!(adopting.record().place, volume.record().place);
    assert_eq!(copy.mark().await.unwrap(), Some(mark_of(&adopting)));
    adopting.close().await;
    assert!(refused(&store, &original).await.contains("in another location"));
    open(store, copy).await;
}

/// Gateways of a new volume that start at the same time, each over a location of its own.
#[tokio::test(start_paused = true)]
async fn of_several_locations_that_are_marked_at_once_one_is_kept() {
    let store = Faulty::new();
    let places = [(); 3].map(|()| Arc::new(MemoryBlocks::new()));
    let opening = places
        .each_ref()
        .map(|place| Volume::open(VolumeOptions::default(), store.clone(), place.clone()));
    let opened = futures::future::join_all(opening).await;
    let kept: Vec<_> = opened.iter().filter_map(|opened| opened.as_ref().ok()).collect();
    assert_eq!(kept.len(), 1, "{opened:?}");
    for (place, opened) in places.iter().zip(&opened) {
        match opened {
            Ok(volume) => assert_eq!(place.mark().await.unwrap(), Some(mark_of(volume))),
            Err(error) => {
                let said = error.to_string();
                assert!(said.contains("in another location") || said.contains("no mark"), "{said}");
                assert_eq!(place.mark().await.unwrap(), None, "its own mark is removed");
            }
        }
    }
}

/// The instant of a start at which another gateway creates the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instant {
    /// After the mark was read, and before the volume's record is.
    AfterMark,
    /// After the volume's record was absent, while the location is checked for blocks.
    AtCheck,
}

/// The blocks of a start during which another gateway creates the volume and writes an object.
#[derive(Debug)]
struct Overtaken {
    blocks: Arc<MemoryBlocks>,
    store: Arc<MemoryStore>,
    at: Instant,
    passed: AtomicBool,
}

impl Overtaken {
    async fn pass(&self, instant: Instant) {
        if instant != self.at || self.passed.swap(true, Ordering::SeqCst) {
            return;
        }
        let other = Box::pin(open(self.store.clone(), self.blocks.clone())).await;
        make_bucket(&other).await;
        publish(&other, b"one", 100_000).await.unwrap();
        other.close().await;
    }
}

#[async_trait::async_trait]
impl BlockStore for Overtaken {
    async fn put(&self, block: &SealedBlock) -> Result<Stored, BlockError> {
        self.blocks.put(block).await
    }
    async fn get(&self, id: BlockId, bytes: std::ops::Range<u64>) -> Result<Bytes, BlockError> {
        self.blocks.get(id, bytes).await
    }
    async fn size(&self, id: BlockId) -> Result<Option<u64>, BlockError> {
        self.blocks.size(id).await
    }
    async fn delete(&self, id: BlockId) -> Result<(), BlockError> {
        self.blocks.delete(id).await
    }
    async fn sessions(&self) -> Result<Vec<Nonce>, BlockError> {
        self.pass(Instant::AtCheck).await;
        self.blocks.sessions().await
    }
    async fn list(&self, session: Nonce, resume: Option<String>) -> Result<BlockPage, BlockError> {
        self.blocks.list(session, resume).await
    }
    async fn mark(&self) -> Result<Option<Bytes>, BlockError> {
        let mark = self.blocks.mark().await;
        self.pass(Instant::AfterMark).await;
        mark
    }
    async fn set_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        self.blocks.set_mark(mark).await
    }
    async fn remove_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        self.blocks.remove_mark(mark).await
    }

    async fn probe(&self) -> Result<(), BlockError> {
        self.blocks.probe().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_uses_the_volume_that_another_gateway_creates_meanwhile() {
    for at in [Instant::AfterMark, Instant::AtCheck] {
        let (store, blocks) = memory();
        let passed = AtomicBool::new(false);
        let slow = Arc::new(Overtaken { blocks: blocks.clone(), store: store.clone(), at, passed });
        let volume = Volume::open(VolumeOptions::default(), store, slow.clone()).await;
        let volume = volume.unwrap_or_else(|error| panic!("{at:?}: {error}"));
        assert!(slow.passed.load(Ordering::SeqCst), "{at:?}");
        assert_eq!(blocks.mark().await.unwrap(), Some(mark_of(&volume)), "{at:?}");
        assert!(count_blocks(&blocks).await > 0, "{at:?}");
    }
}

/// A block of an unknown session.
fn a_block() -> SealedBlock {
    block_named(BlockId::new(Nonce([9; Nonce::BYTES]), 1))
}

fn block_named(id: BlockId) -> SealedBlock {
    let mut sealer = Sealer::new(id, 40);
    sealer.push_copy(&[7; 40]);
    sealer.finish()
}

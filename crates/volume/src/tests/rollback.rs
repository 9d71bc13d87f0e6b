//! A metadata store that was restored to an earlier state: the last acknowledged commits are lost,
//! and no read returns the content of another object.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use block::MemoryBlocks;
use bytes::Bytes;
use faulty::get;
use futures::TryStreamExt;
use record::{Ino, Sequence, key};
use session::{HEARTBEAT_INTERVAL, Outcome};
use store::{
    Changes, CounterPage, Durability, Guard, Limits, MemoryStore, MetaStore, Page, Plan, Position,
    Read, ReadResult, Snapshot, Space, StoreError, Verdict, Write,
};
use tokio::time::{Duration, sleep};
use upkeep::{NoProgress, fsck};

use super::{MaintainedVolume, make_bucket};
use crate::{FileOwner, FsError, NewObject, Volume, VolumeError, VolumeOptions, WriteCondition};

/// A store in memory that can be put back to an earlier state under those who use it.
#[derive(Debug)]
pub(super) struct Restorable(Mutex<Arc<MemoryStore>>);

impl Restorable {
    pub(super) fn new() -> Arc<Restorable> {
        Arc::new(Restorable(Mutex::new(Arc::new(MemoryStore::new()))))
    }

    fn now(&self) -> Arc<MemoryStore> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The state as it is now.
    pub(super) async fn save(&self) -> MemoryStore {
        let copy = MemoryStore::new();
        let mut snapshot = self.now().snapshot().await.unwrap();
        loop {
            let records = snapshot.records(1_000).await.unwrap();
            if records.is_empty() {
                break;
            }
            let writes = records.into_iter().map(|(key, value)| Write::Put(key, value)).collect();
            copy.commit(&[Plan { guards: Vec::new(), writes }]).await.unwrap();
        }
        loop {
            let counters = snapshot.counters(1_000).await.unwrap();
            if counters.is_empty() {
                return copy;
            }
            let writes = counters.into_iter().map(|(key, value)| Write::Set(key, value)).collect();
            copy.commit(&[Plan { guards: Vec::new(), writes }]).await.unwrap();
        }
    }

    /// Puts the store back.
    pub(super) fn restore(&self, state: MemoryStore) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(state);
    }
}

#[async_trait]
impl MetaStore for Restorable {
    fn limits(&self) -> Limits {
        self.now().limits()
    }

    fn durability(&self) -> Durability {
        self.now().durability()
    }

    fn shortage(&self) -> Option<String> {
        self.now().shortage()
    }

    async fn read(&self, reads: &[Read]) -> Result<Vec<ReadResult>, StoreError> {
        self.now().read(reads).await
    }

    async fn commit(&self, plans: &[Plan]) -> Result<Vec<Verdict>, StoreError> {
        self.now().commit(plans).await
    }

    async fn walk(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        self.now().walk(space, resume, limit).await
    }

    async fn walk_counters(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<CounterPage, StoreError> {
        self.now().walk_counters(space, resume, limit).await
    }

    async fn changes(&self, since: Option<&Position>) -> Result<Changes, StoreError> {
        self.now().changes(since).await
    }

    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError> {
        self.now().snapshot().await
    }

    async fn close(&self) {}
}

pub(super) async fn open(store: &Arc<Restorable>, blocks: &Arc<MemoryBlocks>) -> MaintainedVolume {
    let options = VolumeOptions { ..VolumeOptions::default() };
    MaintainedVolume::open_without_tasks(options, store.clone(), blocks.clone()).await.unwrap()
}

pub(super) async fn put(volume: &Volume, name: &str, bytes: &Bytes) -> Result<(), VolumeError> {
    let mut writer = volume.writer(None, Some(bytes.len() as u64));
    writer.write(bytes.clone()).await?;
    let body = writer.finish().await?;
    let new = NewObject {
        owner: FileOwner {
            access_key: String::new(),
            account: record::AccountId::MAIN,
            writer: None,
            uid: 0,
            gid: 0,
            umask: 0o022,
        },
        headers: record::ObjectHeaders::default(),
        tag: record::Tag::Md5([0; 16]),
        sums: Vec::new(),
        encryption: None,
    };
    volume.put("b", name.as_bytes(), body, new, WriteCondition::None).await.map(|_| ())
}

pub(super) async fn content(volume: &Volume, name: &str) -> Result<Vec<u8>, VolumeError> {
    let object = volume.stat("b", name.as_bytes()).await?;
    let frames: Vec<Bytes> = volume.read(&object, 0..object.size()).try_collect().await?;
    Ok(frames.concat())
}

/// Bytes that differ for each object. The longer ones are in blocks.
fn of(gateway: u8, n: u8) -> Bytes {
    let length = if n.is_multiple_of(2) { 100 } else { 100 << 10 };
    Bytes::from([gateway, n].repeat(length / 2))
}

#[tokio::test]
async fn an_inode_number_leased_twice_mixes_no_content() {
    let (store, blocks) = (Restorable::new(), Arc::new(MemoryBlocks::new()));
    let old = open(&store, &blocks).await;
    make_bucket(&old).await;
    for n in 0..8 {
        put(&old, &format!("before/{n}"), &of(1, n)).await.unwrap();
    }
    // Another gateway starts, and the store loses its lease.
    set_lease(&store, 1 << 30).await;
    let new = open(&store, &blocks).await;
    for n in 0..8 {
        put(&new, &format!("new/{n}"), &of(2, n)).await.unwrap();
    }
    let given = new.stat("b", b"new/0").await.unwrap().ino;
    // A third one is given the same numbers: as if its gap were the second one's.
    let third = open(&store, &blocks).await;
    set_lease(&store, given.0 - third.session.inode_allocator().gap()).await;
    let mut refused = 0;
    for n in 0..20 {
        match put(&third, &format!("third/{n}"), &of(3, n)).await {
            Ok(()) => {}
            Err(VolumeError::Fenced) => refused += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(refused > 0, "the numbers met");
    for n in 0..8 {
        assert_eq!(content(&new, &format!("new/{n}")).await.unwrap(), of(2, n));
        assert_eq!(content(&old, &format!("before/{n}")).await.unwrap(), of(1, n));
    }
    for n in 0..20 {
        match content(&old, &format!("third/{n}")).await {
            Ok(bytes) => assert_eq!(bytes, of(3, n)),
            Err(VolumeError::Fs(FsError::NoSuchKey)) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
}

async fn set_lease(store: &Restorable, next: u64) {
    let lease = Sequence(next).encode(&key::lease());
    let plan = Plan { guards: Vec::new(), writes: vec![Write::Put(key::lease(), lease)] };
    store.commit(&[plan]).await.unwrap();
}

#[tokio::test]
async fn a_session_that_gets_its_lost_lease_again_ends_itself() {
    let (store, blocks) = (Restorable::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(&store, &blocks).await;
    let first: Vec<Ino> = volume.session.allocate_inodes(100).await.unwrap();
    set_lease(&store, first[0].0).await;
    let mut all = first;
    loop {
        match volume.session.allocate_inodes(10_000).await {
            Ok(more) => all.extend(more),
            Err(VolumeError::Fenced) => break,
            Err(other) => panic!("{other:?}"),
        }
        assert!(all.len() < 200_000, "numbers without end");
    }
    let distinct: std::collections::HashSet<Ino> = all.iter().copied().collect();
    assert_eq!(distinct.len(), all.len());
    assert!(!volume.check().await.is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_meets_a_foreign_slot_acknowledges_nothing() {
    let (store, blocks) = (Restorable::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(&store, &blocks).await;
    make_bucket(&volume).await;
    // Three slots come to be, of which one moves on.
    let three = futures::future::join_all((0..3).map(|n| commit_mark(&volume, 10 + n)));
    assert!(three.await.iter().all(|outcome| matches!(outcome, Outcome::Committed)));
    let saved = store.save().await;
    assert!(matches!(commit_mark(&volume, 20).await, Outcome::Committed));
    store.restore(saved);
    // One batch: the slot that moved on is the first to be taken again.
    let outcomes = futures::future::join_all((0..3).map(|n| commit_mark(&volume, 30 + n))).await;
    for outcome in &outcomes {
        let unknown = matches!(outcome, Outcome::Failed(VolumeError::Unknown(_)));
        assert!(unknown, "{outcomes:?}");
    }
    // Two of the three did happen: that is why they are not said to have failed.
    let mut there = 0;
    for n in 30..33 {
        there += u32::from(get(&*store, &key::staged_inline(Ino(n))).await.is_some());
    }
    assert_eq!(there, 2);
    assert!(matches!(put(&volume, "x", &of(1, 0)).await, Err(VolumeError::Fenced)));
}

/// Commits a plan that shows whether it happened.
async fn commit_mark(volume: &Volume, n: u64) -> Outcome {
    let mark = key::staged_inline(Ino(n));
    let writes = vec![Write::Put(mark.clone(), record::Mark.encode(&mark))];
    volume.session.commit_plan(Plan { guards: vec![Guard::Absent(mark)], writes }).await
}

#[tokio::test]
async fn a_restore_under_gateways_loses_only_later_commits() {
    let (store, blocks) = (Restorable::new(), Arc::new(MemoryBlocks::new()));
    let mut gateways = vec![open(&store, &blocks).await, open(&store, &blocks).await];
    make_bucket(&gateways[0]).await;
    for n in 0..10 {
        put(&gateways[usize::from(n % 2)], &format!("kept/{n}"), &of(1, n)).await.unwrap();
    }
    let saved = store.save().await;
    for n in 0..10 {
        put(&gateways[usize::from(n % 2)], &format!("lost/{n}"), &of(2, n)).await.unwrap();
        put(&gateways[usize::from(n % 2)], &format!("kept/{n}"), &of(3, n)).await.unwrap();
    }
    store.restore(saved);
    // A gateway that continues after the restore notices it by its slots or its heartbeat.
    let mut acknowledged = Vec::new();
    for n in 0..40 {
        let name = format!("after/{n}");
        if put(&gateways[usize::from(n % 2)], &name, &of(4, n)).await.is_ok() {
            acknowledged.push(n);
        }
    }
    sleep(HEARTBEAT_INTERVAL + Duration::from_millis(500)).await;
    for gateway in &gateways {
        assert!(!gateway.check().await.is_ready(), "a gateway lived on");
    }
    gateways.clear();
    let fresh = open(&store, &blocks).await;
    for n in 0..20 {
        put(&fresh, &format!("fresh/{n}"), &of(5, n)).await.unwrap();
    }
    for n in acknowledged {
        assert_eq!(content(&fresh, &format!("after/{n}")).await.unwrap(), of(4, n));
    }
    for n in 0..10 {
        assert_eq!(content(&fresh, &format!("kept/{n}")).await.unwrap(), of(1, n), "as restored");
        let lost = content(&fresh, &format!("lost/{n}")).await;
        assert!(matches!(lost, Err(VolumeError::Fs(FsError::NoSuchKey))), "{lost:?}");
    }
    for n in 0..20 {
        assert_eq!(content(&fresh, &format!("fresh/{n}")).await.unwrap(), of(5, n));
    }
    let report = fsck(store.clone(), blocks, &NoProgress).await.unwrap();
    // Blocks of lost objects have no owner, and belong to ended sessions.
    let harmless = |finding: &upkeep::Finding| matches!(finding, upkeep::Finding::Leaked(_));
    assert!(report.findings.iter().all(harmless), "{:?}", report.findings);
}

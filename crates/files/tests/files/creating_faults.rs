//! Creations that wait for their content while stores, sessions and workers fail.

use std::fs::File;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use block::{BlockError, BlockId, BlockPage, BlockStore, MemoryBlocks, SealedBlock, Stored};
use bytes::Bytes;
use faulty::{Fault, Faulty, get};
use files::{Files, FilesOptions, HandleId, OpenMode, Reach, SetNode};
use ledger::HandleEntry;
use maintained::MaintainedVolume;
use record::key::{self, space};
use record::{Ino, Inode, Nonce};
use rustix::io::Errno;
use store::{Plan, Write};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use volume::{Ledger, Note, SessionOptions, VolumeOptions};

use super::{by, bytes, files_options, options, owner, until_alone};

/// The time within which a request ends that waits for no block.
const SOON: Duration = Duration::from_secs(10);

/// The I/O timeout of mounts that give up.
const SHORT: Duration = Duration::from_millis(500);

/// The kind of a log entry that has a name for a request in progress.
const NAME_IN_USE: u64 = 10;

/// A block store whose writes wait while its gate is closed.
#[derive(Debug)]
struct Gated {
    inner: MemoryBlocks,
    is_open: watch::Sender<bool>,
    /// The number of writes that have begun.
    begun: AtomicU64,
}

#[async_trait]
impl BlockStore for Gated {
    async fn put(&self, block: &SealedBlock) -> Result<Stored, BlockError> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let mut gate = self.is_open.subscribe();
        gate.wait_for(|is_open| *is_open).await.map(drop).unwrap();
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

/// A mount on stores that fail on demand. Its session is alone.
struct Mount {
    store: Arc<Faulty>,
    blocks: Arc<Gated>,
    ledger: File,
    volume: MaintainedVolume,
    files: Arc<Files>,
    bucket: Ino,
}

fn ledger_of(file: &File) -> Arc<Ledger> {
    Arc::new(Ledger::open(OwnedFd::from(file.try_clone().unwrap())).unwrap())
}

async fn open(
    options: VolumeOptions,
    store: &Arc<Faulty>,
    blocks: &Arc<Gated>,
) -> MaintainedVolume {
    let session = SessionOptions { authoritative_reads: true, ..options.session };
    let options = VolumeOptions { session, ..options };
    MaintainedVolume::open_without_tasks(options, None, store.clone(), blocks.clone())
        .await
        .unwrap()
}

impl Mount {
    async fn new() -> Mount {
        Mount::with(SOON).await
    }

    async fn with(io_timeout: Duration) -> Mount {
        let store = Faulty::new();
        let inner = MemoryBlocks::new();
        let blocks =
            Arc::new(Gated { inner, is_open: watch::Sender::new(true), begun: AtomicU64::new(0) });
        Mount::serve(store, blocks, Ledger::make().unwrap(), io_timeout).await
    }

    async fn serve(
        store: Arc<Faulty>,
        blocks: Arc<Gated>,
        file: File,
        io_timeout: Duration,
    ) -> Mount {
        let ledger = ledger_of(&file);
        let volume = open(options(Some(Arc::clone(&ledger))), &store, &blocks).await;
        let _exists = volume.create_bucket("bkt", &volume::NewBucket::owned_by(&owner())).await;
        let files_options =
            FilesOptions { defers_creations: true, io_timeout, ..files_options(Some(ledger)) };
        let files = Files::new(Arc::clone(&volume), files_options);
        tokio::time::timeout(SOON, files.take_over()).await.unwrap().unwrap();
        let bucket = files.look_up(Ino::ROOT, b"bkt").await.unwrap().ino;
        until_alone(&volume).await;
        Mount { store, blocks, ledger: file, volume, files, bucket }
    }

    /// Kills the worker, and starts the next one.
    async fn killed(self) -> Mount {
        let Mount { store, blocks, ledger, volume, files, .. } = self;
        std::mem::forget((volume, files));
        Mount::serve(store, blocks, ledger, SOON).await
    }

    fn gate(&self, is_open: bool) {
        self.blocks.is_open.send_replace(is_open);
    }

    /// Waits until a write of a block waits at the gate.
    async fn wait_for_block(&self, before: u64) {
        let began = Instant::now();
        while self.blocks.begun.load(Ordering::SeqCst) == before {
            assert!(began.elapsed() < SOON, "no block is written");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn asked(&self, request: u64) -> Files {
        self.files.for_request(request, Note::none())
    }

    async fn create(&self, name: &str, content: &[u8]) -> (HandleId, Ino) {
        let opened = self.asked(2).create(self.bucket, name.as_bytes(), by()).await.unwrap();
        self.asked(4).write(opened.handle, 0, content, false, false).await.unwrap();
        (opened.handle, opened.attributes.ino)
    }

    async fn close(&self, handle: HandleId) {
        self.files.flush(handle).await.unwrap();
        self.files.release(handle).await;
    }

    /// Begins and ends a request that may change names.
    async fn reach_all(&self) {
        drop(tokio::time::timeout(SOON, self.files.enter(Reach::All)).await.expect("it waits"));
    }

    async fn is_committed(&self, name: &str) -> bool {
        self.volume.stat("bkt", name.as_bytes()).await.is_ok()
    }

    async fn cat(&self, name: &str) -> Result<Vec<u8>, Errno> {
        let found = self.files.look_up(self.bucket, name.as_bytes()).await?;
        let opened = self.files.open(found.ino, OpenMode::default()).await?;
        let whole = self.files.read(opened.handle, 0, opened.attributes.size).await;
        self.files.release(opened.handle).await;
        Ok(whole?.concat())
    }
}

#[tokio::test]
async fn requests_wait_for_no_block_of_a_new_file() {
    let mount = Mount::new().await;
    let content = bytes(40_000, 1);
    mount.gate(false);
    // Nothing of the first file is flushed yet; a flush of the second one waits for its block.
    let (first, _) = mount.create("first", &content).await;
    let (second, _) = mount.create("second", &content).await;
    let files = mount.asked(6);
    let flushing = TaskTracker::new().spawn(async move { files.flush(second).await });
    mount.wait_for_block(0).await;
    assert!(!mount.is_committed("first").await && !mount.is_committed("second").await);
    mount.reach_all().await;
    assert!(mount.is_committed("first").await && mount.is_committed("second").await);
    assert!(!flushing.is_finished());
    let read = mount.files.read(first, 0, 50_000).await.unwrap().concat();
    assert_eq!(read, content, "the content is still dirty");
    mount.gate(true);
    flushing.await.unwrap().unwrap();
    mount.close(first).await;
    mount.files.release(second).await;
    for name in ["first", "second"] {
        assert_eq!(mount.cat(name).await.unwrap(), content, "{name}");
    }
}

#[tokio::test]
async fn next_worker_serves_without_the_block_store() {
    let mount = Mount::new().await;
    let content = bytes(40_000, 1);
    let (handle, ino) = mount.create("f", &content).await;
    mount.gate(false);
    let mount = mount.killed().await;
    assert_eq!(mount.files.look_up(mount.bucket, b"f").await.unwrap().ino, ino);
    // The creation is proved to be committed, so the worker after that does not repeat it.
    mount.asked(6).unlink(mount.bucket, b"f").await.unwrap();
    let mount = mount.killed().await;
    assert_eq!(mount.files.look_up(mount.bucket, b"f").await.err(), Some(Errno::NOENT));
    assert_eq!(mount.files.read(handle, 0, 50_000).await.unwrap().concat(), content);
    mount.gate(true);
    mount.files.release(handle).await;
}

#[tokio::test]
async fn session_that_joins_sees_names_while_the_flusher_waits_for_a_block() {
    let mount = Mount::new().await;
    let end = CancellationToken::new();
    let flusher = TaskTracker::new().spawn(Arc::clone(&mount.files).flush_until(end.clone()));
    mount.gate(false);
    let (old, _) = mount.create("old", &bytes(40_000, 1)).await;
    // The dirty data gets old enough.
    mount.wait_for_block(0).await;
    let (new, _) = mount.create("new", b"").await;
    let joined = open(options(None), &mount.store, &mount.blocks).await;
    assert!(joined.stat("bkt", b"new").await.is_ok());
    mount.gate(true);
    mount.close(old).await;
    mount.close(new).await;
    joined.close().await;
    end.cancel();
    flusher.await.unwrap();
}

#[tokio::test]
async fn name_is_created_again_while_the_first_file_is_flushed() {
    let mount = Mount::new().await;
    mount.gate(false);
    let (first, _) = mount.create("f", &bytes(40_000, 1)).await;
    let files = mount.asked(6);
    let flushing = TaskTracker::new().spawn(async move { files.flush(first).await });
    mount.wait_for_block(0).await;
    mount.reach_all().await;
    mount.asked(8).unlink(mount.bucket, b"f").await.unwrap();
    let second = mount.asked(10).create(mount.bucket, b"f", by()).await.unwrap();
    mount.gate(true);
    flushing.await.unwrap().unwrap();
    mount.files.release(first).await;
    assert!(!mount.is_committed("f").await, "the second creation waits");
    drop(mount.files.enter(Reach::Name(mount.bucket, b"f")).await);
    assert!(mount.is_committed("f").await, "it is still in the table");
    mount.close(second.handle).await;
    assert_eq!(mount.cat("f").await.unwrap(), b"");
}

/// Returns a mount with a new file whose first flush was committed, and failed with a timeout.
async fn committed_without_answer(content: &[u8]) -> (Mount, HandleId) {
    let mount = Mount::with(SHORT).await;
    let (handle, _) = mount.create("f", content).await;
    mount.store.inject(Some(space::INODE), Fault::Hang);
    assert_eq!(mount.files.flush(handle).await, Err(Errno::IO));
    mount.store.release();
    assert!(mount.is_committed("f").await);
    (mount, handle)
}

#[tokio::test]
async fn file_whose_commit_had_no_answer_is_cut_to_its_size() {
    for reaches_name in [false, true] {
        let (mount, handle) = committed_without_answer(&bytes(5_000, 1)).await;
        if reaches_name {
            mount.reach_all().await;
        }
        let attributes = volume::AttributeChange::default();
        let ino = mount.files.look_up(mount.bucket, b"f").await.unwrap().ino;
        let set = SetNode { attributes, size: Some(50) };
        mount.asked(6).set(ino, Some(handle), set).await.unwrap();
        mount.close(handle).await;
        assert_eq!(mount.cat("f").await.unwrap(), bytes(50, 1), "{reaches_name}");
    }
}

#[tokio::test]
async fn file_whose_commit_had_no_answer_is_not_created_again() {
    let (mount, handle) = committed_without_answer(b"abc").await;
    mount.asked(6).unlink(mount.bucket, b"f").await.unwrap();
    let _reported = mount.files.flush(handle).await;
    mount.reach_all().await;
    assert_eq!(mount.files.read(handle, 0, 10).await.unwrap().concat(), b"abc");
    mount.files.release(handle).await;
    assert_eq!(mount.files.look_up(mount.bucket, b"f").await.err(), Some(Errno::NOENT));
}

#[tokio::test]
async fn file_that_has_the_number_of_a_new_one_is_not_overwritten() {
    let mount = Mount::new().await;
    let (other, other_ino) = mount.create("other", b"of another").await;
    mount.close(other).await;
    let other = get(&*mount.store, &key::inode(other_ino)).await.unwrap();
    let other = Inode::decode(&key::inode(other_ino), &other).unwrap();
    let (handle, ino) = mount.create("f", b"abc").await;
    // As after the store was restored to an earlier state.
    let record = other.encode(&key::inode(ino));
    let write = Write::Put(key::inode(ino), record.clone());
    mount.store.commit_now(&[Plan { guards: Vec::new(), writes: vec![write] }]).await;
    let mount = mount.killed().await;
    assert_eq!(mount.files.flush(handle).await, Err(Errno::IO), "the new file is lost");
    assert_eq!(mount.files.read(handle, 0, 10).await.unwrap().concat(), b"abc");
    mount.files.release(handle).await;
    let found = get(&*mount.store, &key::inode(ino)).await.unwrap();
    assert_eq!(found, record);
    assert_eq!(mount.files.look_up(mount.bucket, b"f").await.err(), Some(Errno::NOENT));
}

#[tokio::test]
async fn creation_that_failed_at_the_last_close_is_not_committed_later() {
    let mount = Mount::new().await;
    let (handle, _) = mount.create("f", b"mine").await;
    let new = volume::NewNode::File(Box::new(volume::empty_file()));
    let creator = volume::Creator { mode: 0o644, umask: 0, uid: 0, gid: 0 };
    let note = Note::none();
    mount.volume.journaled(&note).make_node(mount.bucket, Some(b"f"), &new, creator).await.unwrap();
    assert_eq!(mount.files.flush(handle).await, Err(Errno::EXIST));
    mount.files.release(handle).await;
    mount.files.unlink(mount.bucket, b"f").await.unwrap();
    mount.reach_all().await;
    assert_eq!(mount.files.look_up(mount.bucket, b"f").await.err(), Some(Errno::NOENT));
    let left = ledger_of(&mount.ledger);
    assert!(left.inherited_logs().is_empty() && left.inherited_handles().is_empty());
}

#[tokio::test]
async fn handle_of_a_creation_that_was_not_logged_is_not_kept() {
    let mount = Mount::new().await;
    let entry = HandleEntry { handle: 77, ino: Ino(1 << 40), request: 2, directory: false };
    ledger_of(&mount.ledger).insert_handle(entry).unwrap();
    let mount = mount.killed().await;
    let (handle, _) = mount.create("f", b"abc").await;
    assert_ne!(handle, HandleId(77));
    mount.close(handle).await;
    assert_eq!(mount.cat("f").await.unwrap(), b"abc");
    assert!(ledger_of(&mount.ledger).inherited_handles().is_empty());
}

#[tokio::test]
async fn directory_shows_the_time_of_the_last_creation_in_it() {
    let mount = Mount::new().await;
    let directory = mount.files.make_directory(mount.bucket, b"d", by()).await.unwrap().ino;
    let before = mount.files.look_up(mount.bucket, b"d").await.unwrap();
    let opened = mount.files.create(directory, b"f", by()).await.unwrap();
    let after = mount.files.look_up(mount.bucket, b"d").await.unwrap();
    assert!(after.modified > before.modified, "{before:?} {after:?}");
    mount.close(opened.handle).await;
}

#[tokio::test]
async fn workers_know_the_name_of_a_link_in_progress() {
    let mut mount = Mount::new().await;
    let (handle, ino) = mount.create("f", b"abc").await;
    mount.close(handle).await;
    for worker in 0..3 {
        let (files, bucket) = (mount.asked(100 + 2 * worker), mount.bucket);
        mount.store.inject(Some(space::INODE), Fault::Stuck);
        let fired = mount.store.fired();
        let linking = TaskTracker::new().spawn(async move { files.link(ino, bucket, b"g").await });
        let began = Instant::now();
        while mount.store.fired() == fired {
            let early = linking.is_finished();
            assert!(!early && began.elapsed() < SOON, "worker {worker}: {early}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let logs = ledger_of(&mount.ledger).inherited_logs();
        // Those of the earlier workers are kept, too.
        let expected = vec![ino; usize::try_from(worker).unwrap() + 1];
        assert_eq!(logs.iter().map(ledger::DirtyLog::ino).collect::<Vec<_>>(), expected);
        // The worker is killed, and the kernel sends the request again without a lookup.
        std::mem::forget(linking);
        mount = mount.killed().await;
    }
    mount.asked(200).link(ino, mount.bucket, b"g").await.unwrap();
    assert_eq!(mount.cat("g").await.unwrap(), b"abc");
    mount.files.forget_inherited_names();
    assert!(ledger_of(&mount.ledger).inherited_logs().is_empty(), "a log is left");
}

#[tokio::test]
async fn name_of_a_request_does_not_hide_dirty_data() {
    let mount = Mount::new().await;
    let (handle, ino) = mount.create("f", b"abc").await;
    // A link of the file begins meanwhile.
    let ledger = mount.ledger.try_clone().unwrap();
    let ledger = ledger_of(&ledger);
    let mut log = ledger.begin_log(ino).unwrap();
    let words = [mount.bucket.0, 0, 0, 0, 0, 0, 0, 0];
    ledger.log(&mut log, NAME_IN_USE, 42, words, b"f").unwrap();
    // Another one has not logged its name yet.
    ledger.begin_log(ino).unwrap();
    let mount = mount.killed().await;
    assert_eq!(mount.cat("f").await.unwrap(), b"abc");
    mount.close(handle).await;
}

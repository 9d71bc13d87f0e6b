//! Files as programs use them, on a volume in memory, together with the S3 view of the same
//! objects.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "files/append_batches.rs"]
mod append_batches;
#[path = "files/appending.rs"]
mod appending;
#[path = "files/attributes.rs"]
mod attributes;
#[path = "files/costs.rs"]
mod costs;
#[path = "files/creating.rs"]
mod creating;
#[path = "files/creating_faults.rs"]
mod creating_faults;
#[path = "files/directories.rs"]
mod directories;
#[path = "files/fleet.rs"]
mod fleet;
#[path = "files/locks.rs"]
mod locks;
#[path = "files/maps.rs"]
mod maps;
#[path = "files/model.rs"]
mod model;
#[path = "files/names.rs"]
mod names;
#[path = "files/numbers.rs"]
mod numbers;
#[path = "files/open.rs"]
mod open;
#[path = "files/opening.rs"]
mod opening;
#[path = "files/ranges.rs"]
mod ranges;
#[path = "files/reading.rs"]
mod reading;
#[path = "files/reads.rs"]
mod reads;
#[path = "files/replay.rs"]
mod replay;
#[path = "files/takeover.rs"]
mod takeover;
#[path = "files/versions.rs"]
mod versions;
#[path = "files/views.rs"]
mod views;

use std::sync::Arc;
use std::time::Duration;

use block::MemoryBlocks;
use bytes::Bytes;
use files::{CreateOptions, Files, FilesOptions, HandleId, OpenMode};
use futures::TryStreamExt;
use maintained::MaintainedVolume;
use record::{Ino, ObjectHeaders, Tag};
use rustix::io::Errno;
use store::MemoryStore;
use upkeep::{NoProgress, fsck};
use volume::{
    FileOwner, Ledger, NewObject, NodeName, SessionOptions, VolumeError, VolumeOptions,
    WriteCondition, opaque_tag,
};

/// The content bytes of a full block in these tests.
const BLOCK_BYTES: u32 = 64 << 10;

/// The limit of complete rewrites in these tests; longer files are written in pieces.
const WHOLE_BYTES_MAX: u64 = 48 << 10;

/// A session that is the only one knows that within this time, also on a slow machine.
const ALONE_WITHIN: Duration = Duration::from_secs(30);

/// Waits until the session of a volume has learned from the change feed that it is the only one.
async fn until_alone(volume: &MaintainedVolume) {
    let waiting = async {
        while !volume.is_alone() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(ALONE_WITHIN, waiting).await.expect("the session is the only one");
}

/// A volume with one bucket, in both views.
struct Bench {
    volume: MaintainedVolume,
    files: Arc<Files>,
    bucket: Ino,
    store: Arc<MemoryStore>,
    blocks: Arc<MemoryBlocks>,
    ledger: Option<Arc<Ledger>>,
}

/// The time limit of an operation. No test waits for it: memory stores always answer, and a busy
/// machine only answers late.
const IO_TIMEOUT: Duration = Duration::from_secs(30);

fn files_options(ledger: Option<Arc<Ledger>>) -> FilesOptions {
    FilesOptions {
        root: Ino::ROOT,
        read_only: false,
        write_memory: 16 << 20,
        full_rewrite_bytes_max: WHOLE_BYTES_MAX,
        io_timeout: IO_TIMEOUT,
        updates_atime: true,
        defers_creations: false,
        ledger,
    }
}

impl Bench {
    async fn new() -> Bench {
        Bench::with(options(None)).await
    }

    async fn with(options: VolumeOptions) -> Bench {
        let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
        let opening = MaintainedVolume::open(options, None, store.clone(), blocks.clone());
        Bench::new_bucket(opening.await.unwrap(), (store, blocks)).await
    }

    /// Without background work.
    async fn without_tasks(options: VolumeOptions) -> Bench {
        let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
        let (meta, place) = (store.clone(), blocks.clone());
        let opening = MaintainedVolume::open_without_tasks(options, None, meta, place);
        Bench::new_bucket(opening.await.unwrap(), (store, blocks)).await
    }

    async fn new_bucket(
        volume: MaintainedVolume,
        (store, blocks): (Arc<MemoryStore>, Arc<MemoryBlocks>),
    ) -> Bench {
        volume.create_bucket("bkt", &volume::NewBucket::owned_by(&owner())).await.unwrap();
        Bench::over(volume, (store, blocks), None).await
    }

    /// Returns the files of an open volume.
    async fn over(
        volume: MaintainedVolume,
        (store, blocks): (Arc<MemoryStore>, Arc<MemoryBlocks>),
        ledger: Option<Arc<Ledger>>,
    ) -> Bench {
        let files = Files::new(Arc::clone(&volume), files_options(ledger.clone()));
        let bucket = files.look_up(Ino::ROOT, b"bkt").await.unwrap().ino;
        Bench { volume, files, bucket, store, blocks, ledger }
    }

    /// Checks the volume with fsck: there must be no finding.
    async fn check(&self, when: &str) {
        let report = fsck(self.store.clone(), self.blocks.clone(), &NoProgress).await.unwrap();
        assert_eq!(report.findings, [], "{when}");
    }

    /// Creates a file, writes to it and closes it.
    async fn write(&self, name: &str, bytes: &[u8]) -> Ino {
        let opened = self.files.create(self.bucket, name.as_bytes(), by()).await.unwrap();
        self.files.write(opened.handle, 0, bytes, false, false).await.unwrap();
        self.close(opened.handle).await;
        opened.attributes.ino
    }

    async fn close(&self, handle: HandleId) {
        self.files.flush(handle).await.unwrap();
        self.files.release(handle).await;
    }

    /// Returns the bytes of a file, by its name.
    async fn cat(&self, name: &str) -> Result<Vec<u8>, Errno> {
        let found = self.files.look_up(self.bucket, name.as_bytes()).await?;
        let opened = self.files.open(found.ino, OpenMode::default()).await?;
        let whole = self.files.read(opened.handle, 0, opened.attributes.size).await;
        self.files.release(opened.handle).await;
        Ok(whole?.concat())
    }

    async fn open(&self, name: &str, mode: OpenMode) -> HandleId {
        let found = self.files.look_up(self.bucket, name.as_bytes()).await.unwrap();
        self.files.open(found.ino, mode).await.unwrap().handle
    }

    async fn put(&self, key: &str, bytes: &[u8]) {
        self.put_tagged(key, bytes, Tag::opaque(opaque_tag().unwrap())).await;
    }

    async fn put_tagged(&self, key: &str, bytes: &[u8], tag: Tag) {
        let mut writer = self.volume.writer(None, Some(bytes.len() as u64));
        writer.write(Bytes::copy_from_slice(bytes)).await.unwrap();
        let body = writer.finish().await.unwrap();
        let new = NewObject {
            owner: owner(),
            headers: ObjectHeaders::default(),
            tag,
            sums: Vec::new(),
            encryption: None,
        };
        let put = self.volume.put("bkt", key.as_bytes(), body, new, WriteCondition::None).await;
        put.unwrap();
    }

    /// Appends to an object through S3.
    async fn append(&self, key: &str, bytes: &[u8]) {
        let object = self.volume.stat("bkt", key.as_bytes()).await.unwrap();
        let length = bytes.len() as u64;
        let mut writer = self.volume.append_writer(&object, Some(length)).await.unwrap();
        writer.write(Bytes::copy_from_slice(bytes)).await.unwrap();
        let body = writer.finish().await.unwrap();
        let tag = Tag::opaque(opaque_tag().unwrap());
        self.volume.append(&object, body, length, tag, Vec::new()).await.unwrap();
    }

    async fn get(&self, key: &str) -> Result<Vec<u8>, VolumeError> {
        let object = self.volume.stat("bkt", key.as_bytes()).await?;
        let frames: Vec<Bytes> =
            self.volume.read(&object, 0..object.size()).try_collect().await.unwrap();
        Ok(frames.concat())
    }

    async fn delete(&self, key: &str) -> bool {
        let deleted = self.volume.delete("bkt", vec![(key.as_bytes().to_vec(), None)]).await;
        deleted.unwrap().remove(0).unwrap().existed
    }

    fn name(&self, name: &str) -> NodeName {
        NodeName { directory: self.bucket, name: name.as_bytes().to_vec() }
    }
}

/// The options with which the next process opens the volume, with its ledger if there is one.
fn options(ledger: Option<Arc<Ledger>>) -> VolumeOptions {
    let session = SessionOptions { ledger, ..SessionOptions::default() };
    VolumeOptions { block_bytes: BLOCK_BYTES, session, ..VolumeOptions::default() }
}

fn owner() -> FileOwner {
    FileOwner {
        access_key: "someone".to_owned(),
        account: record::AccountId::MAIN,
        writer: None,
        uid: 7,
        gid: 8,
        umask: 0o022,
    }
}

fn by() -> CreateOptions {
    CreateOptions { mode: 0o666, umask: 0o022, uid: 1_000, gid: 1_001 }
}

/// An open mode for writing.
const WRITES: OpenMode =
    OpenMode { writes: true, truncates: false, executes: false, drops_rights: false };

/// Returns bytes that depend on their position and on a seed.
fn bytes(length: usize, seed: u8) -> Vec<u8> {
    let low = |at: usize| at.to_le_bytes()[0];
    (0..length).map(|at| low(at / 251) ^ low(at) ^ seed).collect()
}

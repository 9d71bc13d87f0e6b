//! Appends whose flush takes several commits, because the file has many other dirty extents.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use block::MemoryBlocks;
use faulty::{Fault, Faulty};
use files::{Files, HandleId};
use maintained::MaintainedVolume;
use record::{Ino, Quota, key::space};
use rustix::io::Errno;
use tokio_util::task::TaskTracker;
use volume::{BucketChange, Ledger, Note};

use super::{by, bytes, files_options, options, owner};

/// The number of extents before the appended bytes. One commit takes 512 extents.
const SCATTERED: u64 = 511;

/// The appended bytes are two extents.
const APPENDED: usize = 5 << 20;

/// A file on a store that fails on demand, with a ledger.
struct Bench {
    store: Arc<Faulty>,
    blocks: Arc<MemoryBlocks>,
    ledger: std::fs::File,
}

impl Bench {
    fn new() -> Bench {
        let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
        Bench { store, blocks, ledger: Ledger::make().unwrap() }
    }

    /// Opens the volume as the next worker of the ledger.
    async fn open(&self) -> (Arc<Files>, MaintainedVolume) {
        let ledger = OwnedFd::from(self.ledger.try_clone().unwrap());
        let ledger = Arc::new(Ledger::open(ledger).unwrap());
        let options = options(Some(Arc::clone(&ledger)));
        let opening =
            MaintainedVolume::open(options, None, self.store.clone(), self.blocks.clone());
        let volume = opening.await.unwrap();
        (Files::new(Arc::clone(&volume), files_options(Some(ledger))), volume)
    }

    /// Creates a file with a committed base, then writes scattered bytes and appends. Returns the
    /// handle and the content that the file must have.
    async fn write(&self, files: &Files, base: usize) -> (HandleId, Vec<u8>) {
        let bucket = files.look_up(Ino::ROOT, b"bkt").await.unwrap().ino;
        let asked = |number| files.for_request(number, Note::none());
        let handle = asked(2).create(bucket, b"f", by()).await.unwrap().handle;
        let mut content = bytes(base, 1);
        if base > 0 {
            asked(4).write(handle, 0, &content, false, false).await.unwrap();
            files.flush(handle).await.unwrap();
        }
        content.resize(content.len().max(2 * usize::try_from(SCATTERED).unwrap() - 1), 0);
        for at in (0..SCATTERED).map(|n| 2 * n) {
            asked(6 + at).write(handle, at, b"!", false, false).await.unwrap();
            content[usize::try_from(at).unwrap()] = b'!';
        }
        let appended = bytes(APPENDED, 2);
        asked(5_000).write(handle, 0, &appended, true, false).await.unwrap();
        content.extend_from_slice(&appended);
        (handle, content)
    }

    /// Lets the first commit of a flush pass, and injects a fault into the second.
    fn inject(&self, fault: Fault) {
        self.store.inject(Some(space::INODE), Fault::Pass);
        self.store.inject(Some(space::INODE), fault);
    }
}

async fn whole(files: &Files, handle: HandleId) -> Vec<u8> {
    files.read(handle, 0, u64::MAX).await.unwrap().concat()
}

/// The quota admits a part of the appended bytes, and later all of them.
#[tokio::test]
async fn append_is_not_repeated_if_a_later_commit_of_its_flush_fails() {
    for base in [0, 100_000] {
        let bench = Bench::new();
        let (files, volume) = bench.open().await;
        volume.create_bucket("bkt", &volume::NewBucket::owned_by(&owner())).await.unwrap();
        let (handle, content) = bench.write(&files, base).await;
        let most = u64::try_from(base.max(1_021) + (9 << 19)).unwrap();
        let quota = Quota { bytes: Some(most), objects: None };
        volume.set_bucket("bkt", BucketChange::Quota(quota)).await.unwrap();
        assert_eq!(files.flush(handle).await, Err(Errno::DQUOT), "base {base}");
        volume.set_bucket("bkt", BucketChange::NoQuota).await.unwrap();
        files.flush(handle).await.unwrap();
        let found = whole(&files, handle).await;
        assert!(found == content, "{} bytes of {}, base {base}", found.len(), content.len());
    }
}

#[tokio::test]
async fn append_is_not_repeated_if_the_worker_is_killed_between_two_commits() {
    for base in [0, 100_000] {
        let bench = Bench::new();
        let (files, volume) = bench.open().await;
        volume.create_bucket("bkt", &volume::NewBucket::owned_by(&owner())).await.unwrap();
        let (handle, content) = bench.write(&files, base).await;
        bench.inject(Fault::Stuck);
        let before = bench.store.fired();
        let (tasks, asked) = (TaskTracker::new(), Arc::clone(&files));
        let flushing = tasks.spawn(async move { asked.flush(handle).await });
        while bench.store.fired() < before + 2 {
            assert!(!flushing.is_finished(), "the flush took several commits");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        flushing.abort();
        std::mem::forget((files, volume));
        let (files, _volume) = bench.open().await;
        files.take_over().await.unwrap();
        files.flush(handle).await.unwrap();
        let found = whole(&files, handle).await;
        assert!(found == content, "{} bytes of {}, base {base}", found.len(), content.len());
    }
}

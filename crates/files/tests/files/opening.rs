//! Opens that fail.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use block::MemoryBlocks;
use maintained::MaintainedVolume;
use record::Ino;
use rustix::io::Errno;
use store::MemoryStore;
use volume::Ledger;

use super::{Bench, WRITES, options, owner};
use files::OpenMode;

/// The kernel sends no release for an open that failed. So a handle that stayed would keep the
/// file's blocks for the life of the mount.
#[tokio::test]
async fn open_that_fails_to_truncate_leaves_no_handle() {
    let file = Ledger::make().unwrap();
    let opened = || Arc::new(Ledger::open(OwnedFd::from(file.try_clone().unwrap())).unwrap());
    let (store, blocks) = (Arc::new(MemoryStore::new()), Arc::new(MemoryBlocks::new()));
    let ledger = opened();
    let options = options(Some(Arc::clone(&ledger)));
    let opening = MaintainedVolume::open(options, None, store.clone(), blocks.clone());
    let volume = opening.await.unwrap();
    volume.create_bucket("bkt", &volume::NewBucket::owned_by(&owner())).await.unwrap();
    let bench = Bench::over(volume, (store, blocks), Some(Arc::clone(&ledger))).await;
    let ino = bench.write("f", b"content").await;
    // No log is left for the truncation.
    let mut other = 1 << 40;
    while ledger.begin_log(Ino(other)).is_ok() {
        other += 1;
    }
    let truncates = OpenMode { truncates: true, ..WRITES };
    let failed = bench.files.open(ino, truncates).await.unwrap_err();
    assert!(matches!(failed, Errno::IO | Errno::NOSPC | Errno::NFILE), "{failed}");
    assert_eq!(bench.files.handle_count(ino), 0);
    assert_eq!(opened().inherited_handles().len(), 0);
    assert_eq!(bench.cat("f").await.unwrap(), b"content");
}

/// Several threads read the kernel's requests, so the open may be handled before the release of the
/// program that has ended.
#[tokio::test]
async fn open_that_truncates_waits_for_the_end_of_a_program() {
    let bench = Bench::new().await;
    let ino = bench.write("program", b"content").await;
    let executes = OpenMode { executes: true, ..OpenMode::default() };
    let truncates = OpenMode { truncates: true, ..OpenMode::default() };
    let running = bench.files.open(ino, executes).await.unwrap().handle;
    assert_eq!(bench.files.open(ino, truncates).await.unwrap_err(), Errno::TXTBSY);
    assert_eq!(bench.cat("program").await.unwrap(), b"content");
    let opening = bench.files.open(ino, truncates);
    let ending = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        bench.files.release(running).await;
    };
    let (opened, ()) = tokio::join!(opening, ending);
    bench.files.release(opened.unwrap().handle).await;
    assert_eq!(bench.cat("program").await.unwrap(), b"");
}

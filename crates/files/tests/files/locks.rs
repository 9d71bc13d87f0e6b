//! Locks of one mount.

use std::sync::Arc;
use std::time::Duration;

use files::{RangeLock, RangeLockKind};
use record::Ino;
use rustix::io::Errno;
use tokio::task::JoinSet;

use super::Bench;

const FILE: Ino = Ino(77);

fn lock(owner: u64, start: u64, last: u64, kind: RangeLockKind) -> RangeLock {
    RangeLock { start, last, kind, owner, pid: 1, flock: false }
}

#[tokio::test]
async fn readers_share_and_a_writer_does_not() {
    let bench = Bench::new().await;
    let files = &bench.files;
    files.locks().try_lock(FILE, lock(1, 0, 9, RangeLockKind::Shared)).unwrap();
    files.locks().try_lock(FILE, lock(2, 5, 14, RangeLockKind::Shared)).unwrap();
    let writer = lock(3, 9, 9, RangeLockKind::Exclusive);
    assert_eq!(files.locks().try_lock(FILE, writer), Err(Errno::AGAIN));
    assert_eq!(files.locks().in_the_way(FILE, &writer).map(|held| held.owner), Some(1));
    files.locks().unlock(FILE, 1, false, 9, 9);
    assert_eq!(files.locks().in_the_way(FILE, &writer).map(|held| held.owner), Some(2));
    files.locks().unlock(FILE, 2, false, 0, u64::MAX);
    files.locks().try_lock(FILE, writer).unwrap();
    let rest = lock(4, 0, 8, RangeLockKind::Exclusive);
    assert_eq!(
        files.locks().try_lock(FILE, rest),
        Err(Errno::AGAIN),
        "the first still has bytes 0 to 8"
    );
    let flock = RangeLock { flock: true, ..lock(5, 0, u64::MAX, RangeLockKind::Exclusive) };
    files.locks().try_lock(FILE, flock).unwrap();
}

#[tokio::test]
async fn who_waits_is_served_and_who_gives_up_leaves_no_trace() {
    let bench = Bench::new().await;
    let held = lock(1, 0, 9, RangeLockKind::Exclusive);
    bench.files.locks().try_lock(FILE, held).unwrap();
    let mut waiting = JoinSet::new();
    let mut wait = |owner| {
        let files = Arc::clone(&bench.files);
        let asked = lock(owner, 0, 9, RangeLockKind::Exclusive);
        waiting.spawn(async move { files.locks().lock(FILE, asked).await })
    };
    let (first, second) = (wait(2), wait(3));
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!first.is_finished() && !second.is_finished());
    first.abort();
    assert!(waiting.join_next().await.unwrap().unwrap_err().is_cancelled());
    bench.files.locks().unlock(FILE, 1, false, 0, 9);
    waiting.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(bench.files.locks().in_the_way(FILE, &held).map(|held| held.owner), Some(3));
    bench.files.locks().unlock(FILE, 3, false, 0, 9);
    assert_eq!(bench.files.locks().in_the_way(FILE, &held), None);
}

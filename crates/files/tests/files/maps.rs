//! Claims: only one session has the shared writable maps of a file.

use std::sync::Arc;
use std::time::Duration;

use files::{Files, HandleId, OpenMode, RangeLock, RangeLockKind};
use maintained::MaintainedVolume;
use record::Ino;
use record::key::space;

use super::fleet::{Fleet, LONG};
use super::{WRITES, by, owner};

/// The last byte that a program can lock.
const LAST_BYTE: u64 = i64::MAX as u64;

/// Two sessions, a handle of a file in the first one, and its inode number.
async fn two(
    fleet: &Fleet,
) -> ((MaintainedVolume, Arc<Files>), (MaintainedVolume, Arc<Files>), HandleId, Ino) {
    let ((one, ours), other) = (fleet.open().await, fleet.open().await);
    one.create_bucket("bkt", &volume::NewBucket::owned_by(&owner())).await.unwrap();
    let bucket = ours.look_up(Ino::ROOT, b"bkt").await.unwrap().ino;
    let mine = ours.create(bucket, b"base-shm", by()).await.unwrap();
    let found = other.1.look_up(bucket, b"base-shm").await.unwrap();
    assert_eq!(found.ino, mine.attributes.ino);
    ((one, ours), other, mine.handle, found.ino)
}

async fn open(files: &Files, ino: Ino) -> HandleId {
    files.open(ino, OpenMode { ..WRITES }).await.unwrap().handle
}

#[tokio::test]
async fn only_one_session_has_the_maps_of_a_file() {
    let fleet = Fleet::new();
    let ((_one, ours), (_other, theirs), first, ino) = two(&fleet).await;
    assert!(ours.claim_map(first).await);
    assert!(ours.claim_map(first).await, "asked for again, it is the same claim");
    let second = open(&ours, ino).await;
    assert!(ours.claim_map(second).await, "programs of one mount share maps");
    let far = open(&theirs, ino).await;
    assert!(!theirs.claim_map(far).await);
    ours.release(first).await;
    let again = open(&theirs, ino).await;
    assert!(!theirs.claim_map(again).await, "a handle is left that may be mapped");
    ours.release(second).await;
    let later = open(&theirs, ino).await;
    assert!(theirs.claim_map(later).await, "the claim went with the last handle");
    let late = open(&ours, ino).await;
    assert!(!ours.claim_map(late).await);
    for (files, handle) in [(&theirs, far), (&theirs, again), (&theirs, later), (&ours, late)] {
        files.release(handle).await;
    }
    assert_eq!(fleet.records(space::LOCKS).await, 0, "no claim is left");
    fleet.check().await;
}

#[tokio::test]
async fn claim_stays_when_another_session_begins() {
    let fleet = Fleet::new();
    let (one, ours) = fleet.open().await;
    one.create_bucket("bkt", &volume::NewBucket::owned_by(&owner())).await.unwrap();
    let bucket = ours.look_up(Ino::ROOT, b"bkt").await.unwrap().ino;
    let mine = ours.create(bucket, b"f", by()).await.unwrap();
    assert!(ours.claim_map(mine.handle).await);
    let (_other, theirs) = fleet.open().await;
    theirs.look_up(bucket, b"f").await.unwrap();
    let far = open(&theirs, mine.attributes.ino).await;
    assert!(!theirs.claim_map(far).await);
}

#[tokio::test]
async fn claim_does_not_conflict_with_locks_of_programs() {
    let fleet = Fleet::new();
    let ((_one, ours), (_other, theirs), mine, ino) = two(&fleet).await;
    assert!(ours.claim_map(mine).await);
    for flock in [false, true] {
        let kind = RangeLockKind::Exclusive;
        let all = RangeLock { start: 0, last: LAST_BYTE, kind, owner: 7, pid: 1, flock };
        for files in [&ours, &theirs] {
            assert_eq!(files.conflicting_lock(ino, &all).await.unwrap(), None);
            files.try_lock(ino, all).await.unwrap();
            files.unlock(ino, 7, flock, 0..=u64::MAX).await.unwrap();
        }
    }
    let far = open(&theirs, ino).await;
    assert!(!theirs.claim_map(far).await, "what a program lets go of is not the claim");
}

#[tokio::test]
async fn claim_in_a_sole_session_costs_no_round_trip() {
    let fleet = Fleet::new();
    let (one, ours) = fleet.open().await;
    one.create_bucket("bkt", &volume::NewBucket::owned_by(&owner())).await.unwrap();
    let bucket = ours.look_up(Ino::ROOT, b"bkt").await.unwrap().ino;
    let first = ours.create(bucket, b"f", by()).await.unwrap();
    // The first lock of a session finds the location of locks.
    assert!(ours.claim_map(first.handle).await);
    let second = open(&ours, first.attributes.ino).await;
    let other = ours.create(bucket, b"g", by()).await.unwrap();
    let trips = || (one.counters().session.reads, one.counters().session.plans);
    let before = trips();
    assert!(ours.claim_map(second).await);
    assert!(ours.claim_map(other.handle).await);
    ours.release(other.handle).await;
    assert_eq!(trips(), before);
    assert_eq!(fleet.records(space::LOCKS).await, 0);
}

#[tokio::test]
async fn claim_ends_with_its_session() {
    let fleet = Fleet::new();
    let ((one, ours), (_other, theirs), mine, ino) = two(&fleet).await;
    assert!(ours.claim_map(mine).await);
    let far = open(&theirs, ino).await;
    assert!(!theirs.claim_map(far).await);
    one.close().await;
    drop((one, ours));
    let claimed = async {
        while !theirs.claim_map(far).await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(LONG, claimed).await.unwrap();
}

#[tokio::test]
async fn close_during_a_claim_releases_it() {
    let fleet = Fleet::new();
    let ((_one, ours), (_other, theirs), mine, ino) = two(&fleet).await;
    for _ in 0..20 {
        let handle = open(&ours, ino).await;
        let (claimed, ()) = tokio::join!(ours.claim_map(handle), ours.release(handle));
        let far = open(&theirs, ino).await;
        assert!(theirs.claim_map(far).await, "nothing is left of it, claimed or not: {claimed}");
        theirs.release(far).await;
    }
    assert!(ours.claim_map(mine).await);
}

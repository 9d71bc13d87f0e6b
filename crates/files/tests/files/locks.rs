//! Locks of one mount and of several mounts.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use files::{Files, FilesOptions, OpenMode, RangeLock, RangeLockKind};
use record::key::{self, space};
use record::{Ino, LOCKS_PER_FILE_MAX, Mark, Nonce};
use rustix::io::Errno;
use store::{Guard, Key, MetaStore, Plan, Verdict, Write};
use tokio::task::JoinSet;
use volume::Volume;

use super::fleet::{Fleet, LONG};
use super::{Bench, WHOLE_BYTES_MAX, WRITES, by, owner};

const FILE: Ino = Ino(77);

fn lock(owner: u64, start: u64, last: u64, kind: RangeLockKind) -> RangeLock {
    RangeLock { start, last, kind, owner, pid: 1, flock: false }
}

fn exclusive(owner: u64) -> RangeLock {
    lock(owner, 0, 9, RangeLockKind::Exclusive)
}

fn shared(owner: u64) -> RangeLock {
    lock(owner, 0, 9, RangeLockKind::Shared)
}

fn trips(volume: &Volume) -> (u64, u64) {
    let counters = volume.counters();
    (counters.session.reads, counters.session.plans)
}

#[tokio::test]
async fn shared_locks_coexist_and_exclusive_ones_do_not() {
    let bench = Bench::new().await;
    let files = &bench.files;
    files.try_lock(FILE, lock(1, 0, 9, RangeLockKind::Shared)).await.unwrap();
    files.try_lock(FILE, lock(2, 5, 14, RangeLockKind::Shared)).await.unwrap();
    let writer = lock(3, 9, 9, RangeLockKind::Exclusive);
    assert_eq!(files.try_lock(FILE, writer).await, Err(Errno::AGAIN));
    let in_the_way = async || files.conflicting_lock(FILE, &writer).await.unwrap();
    assert_eq!(in_the_way().await.map(|held| held.owner), Some(1));
    files.unlock(FILE, 1, false, 9..=9).await.unwrap();
    assert_eq!(in_the_way().await.map(|held| held.owner), Some(2));
    files.unlock(FILE, 2, false, 0..=u64::MAX).await.unwrap();
    files.try_lock(FILE, writer).await.unwrap();
    let rest = lock(4, 0, 8, RangeLockKind::Exclusive);
    let still = "the first still has bytes 0 to 8";
    assert_eq!(files.try_lock(FILE, rest).await, Err(Errno::AGAIN), "{still}");
    let flock = RangeLock { flock: true, ..lock(5, 0, u64::MAX, RangeLockKind::Exclusive) };
    files.try_lock(FILE, flock).await.unwrap();
}

#[tokio::test]
async fn waiter_is_served_and_cancelled_waiter_leaves_no_trace() {
    let bench = Bench::new().await;
    let held = exclusive(1);
    bench.files.try_lock(FILE, held).await.unwrap();
    let mut waiting = JoinSet::new();
    let mut wait = |owner| {
        let files = Arc::clone(&bench.files);
        waiting.spawn(async move { files.lock(FILE, exclusive(owner)).await })
    };
    let (first, second) = (wait(2), wait(3));
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!first.is_finished() && !second.is_finished());
    first.abort();
    assert!(waiting.join_next().await.unwrap().unwrap_err().is_cancelled());
    bench.files.unlock(FILE, 1, false, 0..=9).await.unwrap();
    waiting.join_next().await.unwrap().unwrap().unwrap();
    let in_the_way = async || bench.files.conflicting_lock(FILE, &held).await.unwrap();
    assert_eq!(in_the_way().await.map(|held| held.owner), Some(3));
    bench.files.unlock(FILE, 3, false, 0..=9).await.unwrap();
    assert_eq!(in_the_way().await, None);
}

#[tokio::test]
async fn cancelled_upgrade_keeps_the_shared_lock() {
    let bench = Bench::new().await;
    let files = &bench.files;
    files.try_lock(FILE, shared(1)).await.unwrap();
    files.try_lock(FILE, shared(2)).await.unwrap();
    let mut writer = Box::pin(files.lock(FILE, exclusive(1)));
    assert!(futures::poll!(&mut writer).is_pending());
    files.unlock(FILE, 2, false, 0..=9).await.unwrap();
    // The lock is reserved for the waiter, which gives up without taking it.
    drop(writer);
    assert_eq!(files.try_lock(FILE, exclusive(2)).await, Err(Errno::AGAIN));
    files.try_lock(FILE, shared(2)).await.unwrap();
}

#[tokio::test]
async fn deadlock_returns_edeadlk() {
    let bench = Bench::new().await;
    let files = &bench.files;
    let other = Ino(78);
    files.try_lock(FILE, exclusive(1)).await.unwrap();
    files.try_lock(other, exclusive(2)).await.unwrap();
    files.try_lock(other, lock(3, 20, 29, RangeLockKind::Exclusive)).await.unwrap();
    // Owner 2 waits for owner 1, and owner 3 for owner 2.
    let mut second = Box::pin(files.lock(FILE, exclusive(2)));
    assert!(futures::poll!(&mut second).is_pending());
    let mut third = Box::pin(files.lock(other, lock(3, 5, 6, RangeLockKind::Shared)));
    assert!(futures::poll!(&mut third).is_pending());
    let asked = lock(1, 25, 25, RangeLockKind::Exclusive);
    assert_eq!(files.lock(other, asked).await, Err(Errno::DEADLK));
    assert_eq!(
        files.try_lock(other, asked).await,
        Err(Errno::AGAIN),
        "without waiting there is no deadlock"
    );
    let whole = RangeLock { flock: true, ..exclusive(1) };
    files.lock(other, whole).await.unwrap();
    // No owner waits for owner 1 any more, so owner 1 may wait.
    files.unlock(FILE, 1, false, 0..=u64::MAX).await.unwrap();
    second.await.unwrap();
    let mut first = Box::pin(files.lock(other, asked));
    assert!(futures::poll!(&mut first).is_pending());
    files.unlock(other, 2, false, 0..=u64::MAX).await.unwrap();
    third.await.unwrap();
    files.unlock(other, 3, false, 0..=u64::MAX).await.unwrap();
    first.await.unwrap();
}

#[tokio::test]
async fn two_upgrades_of_shared_locks_deadlock() {
    let bench = Bench::new().await;
    let files = &bench.files;
    files.try_lock(FILE, shared(1)).await.unwrap();
    files.try_lock(FILE, shared(2)).await.unwrap();
    let mut first = Box::pin(files.lock(FILE, exclusive(1)));
    assert!(futures::poll!(&mut first).is_pending());
    assert_eq!(files.lock(FILE, exclusive(2)).await, Err(Errno::DEADLK));
    files.unlock(FILE, 2, false, 0..=9).await.unwrap();
    first.await.unwrap();
}

#[tokio::test]
async fn sole_session_locks_without_round_trips_after_one_commit() {
    let fleet = Fleet::new();
    let (volume, files) = fleet.open().await;
    let before = trips(&volume);
    files.try_lock(FILE, exclusive(1)).await.unwrap();
    let first = trips(&volume);
    assert_eq!(first.1 - before.1, 1);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let before = trips(&volume);
    for owner in 2..50 {
        files.unlock(FILE, owner - 1, false, 0..=u64::MAX).await.unwrap();
        assert_eq!(files.conflicting_lock(FILE, &exclusive(owner)).await, Ok(None));
        files.lock(FILE, exclusive(owner)).await.unwrap();
        assert_eq!(files.try_lock(FILE, shared(99)).await, Err(Errno::AGAIN));
    }
    assert_eq!(trips(&volume), before);
    assert_eq!(fleet.records(space::LOCKS).await, 0);
    fleet.check().await;
}

#[tokio::test]
async fn shared_lock_and_unlock_cost_one_round_trip_each() {
    let fleet = Fleet::new();
    let ((volume, files), (_other, theirs)) = (fleet.open().await, fleet.open().await);
    files.try_lock(FILE, shared(1)).await.unwrap();
    theirs.try_lock(FILE, shared(1)).await.unwrap();
    files.try_lock(FILE, shared(2)).await.unwrap();
    // Notifications of the other session's writes invalidate hints.
    tokio::time::sleep(Duration::from_millis(300)).await;
    files.try_lock(FILE, shared(2)).await.unwrap();
    for owner in 3..10 {
        let before = trips(&volume);
        files.lock(FILE, shared(owner)).await.unwrap();
        assert_eq!(trips(&volume), (before.0, before.1 + 1));
        files.unlock(FILE, owner, false, 0..=u64::MAX).await.unwrap();
        assert_eq!(trips(&volume), (before.0, before.1 + 2));
        files.unlock(FILE, owner, false, 0..=u64::MAX).await.unwrap();
        assert_eq!(trips(&volume), (before.0, before.1 + 2), "nothing is held any more");
    }
}

#[tokio::test]
async fn locks_in_memory_are_published_for_another_mount() {
    let fleet = Fleet::new();
    let ((_one, ours), (_other, theirs)) = (fleet.open().await, fleet.open().await);
    ours.try_lock(FILE, exclusive(1)).await.unwrap();
    let far = lock(1, 100, 200, RangeLockKind::Shared);
    ours.try_lock(FILE, far).await.unwrap();
    assert_eq!(theirs.try_lock(FILE, shared(1)).await, Err(Errno::AGAIN));
    let held = theirs.conflicting_lock(FILE, &shared(1)).await.unwrap().unwrap();
    assert_eq!(held, RangeLock { pid: 0, ..exclusive(1) });
    assert_eq!(theirs.try_lock(FILE, far).await, Ok(()));
    let writes = lock(9, 150, 150, RangeLockKind::Exclusive);
    assert_eq!(ours.conflicting_lock(FILE, &writes).await.unwrap().map(|held| held.pid), Some(1));
    ours.unlock(FILE, 1, false, 100..=200).await.unwrap();
    assert_eq!(ours.conflicting_lock(FILE, &writes).await.unwrap().map(|held| held.pid), Some(0));
    fleet.check().await;
}

#[tokio::test]
async fn lock_released_by_another_mount_is_granted_soon() {
    let fleet = Fleet::new();
    let ((_one, ours), (_other, theirs)) = (fleet.open().await, fleet.open().await);
    ours.try_lock(FILE, exclusive(1)).await.unwrap();
    let mut times = Vec::new();
    for _ in 0..4 {
        let (mut waiting, files) = (JoinSet::new(), Arc::clone(&theirs));
        let wait = waiting.spawn(async move { files.lock(FILE, exclusive(1)).await });
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(!wait.is_finished());
        let began = tokio::time::Instant::now();
        ours.unlock(FILE, 1, false, 0..=9).await.unwrap();
        let locked = tokio::time::timeout(LONG, waiting.join_next()).await.unwrap();
        locked.unwrap().unwrap().unwrap();
        times.push(began.elapsed());
        theirs.unlock(FILE, 1, false, 0..=9).await.unwrap();
        ours.try_lock(FILE, exclusive(1)).await.unwrap();
    }
    // A busy machine may delay some wake-ups, but not all of them.
    let soonest = times.into_iter().min().unwrap();
    assert!(soonest < Duration::from_secs(1), "the feed does not wake it: {soonest:?}");
}

#[tokio::test]
async fn cancelled_wait_for_another_mount_leaves_no_trace() {
    let fleet = Fleet::new();
    let ((_one, ours), (_other, theirs)) = (fleet.open().await, fleet.open().await);
    ours.try_lock(FILE, exclusive(1)).await.unwrap();
    assert_eq!(theirs.try_lock(FILE, exclusive(1)).await, Err(Errno::AGAIN));
    for pause in 0..30 {
        let mut waiting = Box::pin(theirs.lock(FILE, exclusive(2)));
        let unlock = async {
            tokio::time::sleep(Duration::from_millis(pause * 5)).await;
            ours.unlock(FILE, 1, false, 0..=9).await.unwrap();
        };
        tokio::select! {
            biased;
            locked = &mut waiting => locked.unwrap(),
            () = unlock => {}
        }
        drop(waiting);
        theirs.unlock(FILE, 2, false, 0..=9).await.unwrap();
        // Anything that was in flight when the wait was cancelled has been undone.
        tokio::time::timeout(LONG, ours.lock(FILE, exclusive(1))).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn locks_end_with_their_session() {
    let fleet = Fleet::new();
    for in_records in [false, true] {
        let ((one, ours), (_other, theirs)) = (fleet.open().await, fleet.open().await);
        ours.try_lock(FILE, exclusive(1)).await.unwrap();
        if in_records {
            assert_eq!(theirs.try_lock(FILE, exclusive(1)).await, Err(Errno::AGAIN));
        }
        one.close().await;
        drop((one, ours));
        tokio::time::timeout(LONG, theirs.lock(FILE, exclusive(1))).await.unwrap().unwrap();
        theirs.unlock(FILE, 1, false, 0..=9).await.unwrap();
    }
}

#[tokio::test]
async fn session_without_peers_keeps_locks_in_memory_again() {
    let fleet = Fleet::new();
    let ((volume, ours), (other, theirs)) = (fleet.open().await, fleet.open().await);
    theirs.try_lock(FILE, shared(1)).await.unwrap();
    ours.try_lock(FILE, shared(1)).await.unwrap();
    other.close().await;
    drop((other, theirs));
    tokio::time::sleep(Duration::from_millis(400)).await;
    ours.try_lock(FILE, exclusive(1)).await.unwrap();
    let before = trips(&volume);
    ours.unlock(FILE, 1, false, 0..=9).await.unwrap();
    ours.try_lock(FILE, exclusive(2)).await.unwrap();
    assert_eq!(trips(&volume), before);
    // Old locks in records do not count for a new session.
    let (_third, third) = fleet.open().await;
    assert_eq!(third.try_lock(FILE, shared(1)).await, Err(Errno::AGAIN));
    ours.unlock(FILE, 2, false, 0..=9).await.unwrap();
    third.try_lock(FILE, exclusive(1)).await.unwrap();
}

#[tokio::test]
async fn locks_per_file_are_limited() {
    let fleet = Fleet::new();
    let ((_one, ours), (_other, theirs)) = (fleet.open().await, fleet.open().await);
    let byte = |at: u64| lock(1, 2 * at, 2 * at, RangeLockKind::Exclusive);
    let most = LOCKS_PER_FILE_MAX as u64;
    for at in 0..most {
        ours.try_lock(FILE, byte(at)).await.unwrap();
    }
    assert_eq!(ours.try_lock(FILE, byte(most)).await, Err(Errno::NOLCK));
    assert_eq!(theirs.try_lock(FILE, byte(most)).await, Err(Errno::NOLCK));
    assert_eq!(theirs.try_lock(FILE, byte(3)).await, Err(Errno::AGAIN));
    ours.unlock(FILE, 1, false, 0..=0).await.unwrap();
    theirs.try_lock(FILE, byte(most)).await.unwrap();
    fleet.check().await;
}

#[tokio::test]
async fn next_process_of_a_session_keeps_its_locks() {
    let fleet = Fleet::new();
    let ((volume, ours), (_other, theirs)) = (fleet.open().await, fleet.open().await);
    ours.try_lock(FILE, exclusive(1)).await.unwrap();
    assert_eq!(theirs.try_lock(FILE, shared(1)).await, Err(Errno::AGAIN));
    ours.try_lock(Ino(78), exclusive(1)).await.unwrap();
    let options = FilesOptions {
        root: Ino::ROOT,
        read_only: false,
        write_memory: 1 << 20,
        full_rewrite_bytes_max: WHOLE_BYTES_MAX,
        io_timeout: LONG,
        updates_atime: true,
        defers_creations: false,
        ledger: None,
    };
    let next = Files::new(Arc::clone(&volume), options);
    next.locks().import(ours.locks().export());
    drop(ours);
    assert_eq!(next.try_lock(FILE, shared(2)).await, Err(Errno::AGAIN));
    assert_eq!(theirs.try_lock(Ino(78), shared(2)).await, Err(Errno::AGAIN));
    next.unlock(FILE, 1, false, 0..=9).await.unwrap();
    theirs.try_lock(FILE, exclusive(1)).await.unwrap();
}

#[tokio::test]
async fn write_under_a_lock_is_visible_under_the_next_lock() {
    let fleet = Fleet::new();
    let ((one, ours), (_other, theirs)) = (fleet.open().await, fleet.open().await);
    one.create_bucket("bkt", &volume::NewBucket::owned_by(&owner())).await.unwrap();
    let bucket = ours.look_up(Ino::ROOT, b"bkt").await.unwrap().ino;
    let mine = ours.create(bucket, b"f", by()).await.unwrap();
    let ino = mine.attributes.ino;
    assert_eq!(theirs.look_up(bucket, b"f").await.unwrap().ino, ino);
    let other = theirs.open(ino, OpenMode { ..WRITES }).await.unwrap().handle;
    for round in 0_u64..6 {
        let (files, handle, others, reader) = if round % 2 == 0 {
            (&ours, mine.handle, &theirs, other)
        } else {
            (&theirs, other, &ours, mine.handle)
        };
        files.lock(ino, exclusive(1)).await.unwrap();
        let text = format!("round {round}");
        files.write(handle, 0, text.as_bytes(), false, false).await.unwrap();
        files.unlock(ino, 1, false, 0..=9).await.unwrap();
        others.lock(ino, shared(1)).await.unwrap();
        let read = others.read(reader, 0, 100).await.unwrap().concat();
        assert_eq!(String::from_utf8_lossy(&read), text);
        others.unlock(ino, 1, false, 0..=9).await.unwrap();
    }
}

#[tokio::test]
async fn lock_file_removed_by_another_mount_has_zero_links() {
    let fleet = Fleet::new();
    let ((one, ours), (_other, theirs)) = (fleet.open().await, fleet.open().await);
    one.create_bucket("bkt", &volume::NewBucket::owned_by(&owner())).await.unwrap();
    let bucket = ours.look_up(Ino::ROOT, b"bkt").await.unwrap().ino;
    let mine = ours.create(bucket, b"lock", by()).await.unwrap();
    let ino = mine.attributes.ino;
    ours.lock(ino, exclusive(1)).await.unwrap();
    theirs.look_up(bucket, b"lock").await.unwrap();
    let watch = Arc::new(Forgets::default());
    theirs.watch(watch.clone(), volume::Coherence::Strict);
    let other = theirs.open(ino, OpenMode { ..WRITES }).await.unwrap().handle;
    let (mut waiting, files) = (JoinSet::new(), Arc::clone(&theirs));
    waiting.spawn(async move { files.lock(ino, exclusive(1)).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    ours.unlink(bucket, b"lock").await.unwrap();
    ours.unlock(ino, 1, false, 0..=9).await.unwrap();
    tokio::time::timeout(LONG, waiting.join_next()).await.unwrap().unwrap().unwrap().unwrap();
    assert!(watch.nodes.lock().unwrap().contains(&ino), "its kernel forgets the links");
    assert_eq!(theirs.attributes(ino).await.unwrap().links, 0);
    theirs.release(other).await;
    ours.release(mine.handle).await;
}

/// A receiver of invalidations that records the nodes.
#[derive(Debug, Default)]
struct Forgets {
    nodes: Mutex<HashSet<Ino>>,
}

impl volume::NodeWatch for Forgets {
    fn changed(
        &self,
        changes: &volume::NodeChanges,
        done: Option<tokio::sync::oneshot::Sender<()>>,
    ) {
        self.nodes.lock().unwrap().extend(&changes.nodes);
        let _gone = done.map(|done| done.send(()));
    }

    fn peer_changes(&self, _changes: &volume::NodeChanges, done: volume::Acknowledge) {
        done();
    }

    fn all_changed(&self) {}
}

#[tokio::test]
async fn upkeep_removes_locks_of_ended_sessions() {
    let fleet = Fleet::new();
    let ((one, ours), (other, theirs)) = (fleet.open().await, fleet.open().await);
    theirs.try_lock(Ino(78), exclusive(1)).await.unwrap();
    ours.try_lock(FILE, shared(1)).await.unwrap();
    theirs.try_lock(FILE, shared(1)).await.unwrap();
    assert_eq!(fleet.records(space::LOCKS).await, 2);
    other.close().await;
    assert_eq!(one.upkeep().remove_ended_locks().await.unwrap(), 2);
    assert_eq!(
        (fleet.records(space::LOCKS).await, one.upkeep().remove_ended_locks().await.unwrap()),
        (1, 0)
    );
    assert_eq!(ours.conflicting_lock(FILE, &exclusive(2)).await.unwrap().map(|l| l.pid), Some(1));
    let (third, _files) = fleet.open().await;
    one.close().await;
    assert_eq!(third.upkeep().remove_ended_locks().await.unwrap(), 1);
    assert_eq!(fleet.records(space::LOCKS).await, 0);
    assert_eq!(fleet.records(space::LOCK_KEEPING).await, 0);
}

/// A record of all locks held, kept by the test.
#[derive(Debug, Default)]
struct Referee {
    held: Mutex<HashMap<(usize, u64), RangeLock>>,
    /// The mounts whose sessions have ended. Their locks do not count, even if their programs
    /// believe so.
    ended: Mutex<HashSet<usize>>,
    grants: AtomicUsize,
}

impl Referee {
    fn granted(&self, mount: usize, lock: RangeLock) {
        let (mut held, ended) = (self.held.lock().unwrap(), self.ended.lock().unwrap());
        if ended.contains(&mount) {
            return;
        }
        for ((other, owner), standing) in held.iter() {
            let is_own = (*other, *owner) == (mount, lock.owner);
            assert!(
                is_own || !standing.excludes(&lock),
                "{standing:?} of {other}, {lock:?} of {mount}"
            );
        }
        held.insert((mount, lock.owner), lock);
        self.grants.fetch_add(1, Ordering::Relaxed);
    }

    fn released(&self, mount: usize, owner: u64) {
        self.held.lock().unwrap().remove(&(mount, owner));
    }

    fn ended(&self, mount: usize) {
        let (mut held, mut ended) = (self.held.lock().unwrap(), self.ended.lock().unwrap());
        held.retain(|(of, _), _| *of != mount);
        ended.insert(mount);
    }
}

/// A program: takes a lock, with or without waiting, cancels or not, holds it briefly, releases it.
async fn program(
    files: Arc<Files>,
    mount: usize,
    owner: u64,
    referee: Arc<Referee>,
    stop: Arc<AtomicBool>,
) {
    let mut dice = 1_000_003 * mount as u64 + owner;
    let mut roll = |sides: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % sides
    };
    while !stop.load(Ordering::Relaxed) {
        let kind = if roll(3) == 0 { RangeLockKind::Shared } else { RangeLockKind::Exclusive };
        let start = roll(3);
        let asked = lock(owner, start, start + roll(3), kind);
        let locked = match roll(3) {
            0 => files.try_lock(FILE, asked).await.is_ok(),
            1 => {
                let patience = Duration::from_millis(roll(60));
                matches!(tokio::time::timeout(patience, files.lock(FILE, asked)).await, Ok(Ok(())))
            }
            _ => files.lock(FILE, asked).await.is_ok(),
        };
        if locked {
            referee.granted(mount, asked);
            tokio::time::sleep(Duration::from_millis(roll(4))).await;
            referee.released(mount, owner);
            if files.unlock(FILE, owner, false, 0..=u64::MAX).await.is_err() {
                return;
            }
        } else {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_mounts_never_hold_conflicting_locks() {
    let fleet = Fleet::new();
    let (referee, stop) = (Arc::<Referee>::default(), Arc::<AtomicBool>::default());
    let mut programs = JoinSet::new();
    let mut mounts = HashMap::new();
    for mount in 0..7 {
        let before = fleet.sessions().await;
        let (volume, files) = fleet.open().await;
        let session = fleet.sessions().await.difference(&before).next().cloned().unwrap();
        for owner in 0..3 {
            let (files, referee) = (Arc::clone(&files), Arc::clone(&referee));
            programs.spawn(program(files, mount, owner, referee, Arc::clone(&stop)));
        }
        mounts.insert(mount, (volume, files));
        tokio::time::sleep(Duration::from_millis(700)).await;
        // Every third session is ended by others, together with its locks.
        if mount % 3 == 1 {
            end(&fleet, &referee, mount, session).await;
            mounts.remove(&mount);
        }
    }
    stop.store(true, Ordering::Relaxed);
    let all = async { while programs.join_next().await.transpose().unwrap().is_some() {} };
    tokio::time::timeout(LONG * 3, all).await.expect("a program waits for ever");
    assert!(referee.grants.load(Ordering::Relaxed) > 200, "{referee:?}");
    for (volume, files) in mounts.into_values() {
        assert_eq!(
            files.conflicting_lock(FILE, &lock(99, 0, 9, RangeLockKind::Exclusive)).await,
            Ok(None)
        );
        drop(volume);
    }
    fleet.check().await;
}

/// Ends a session as another session would. Locks that its programs believe to hold are over then.
async fn end(fleet: &Fleet, referee: &Referee, mount: usize, session: Key) {
    referee.ended(mount);
    let nonce = Nonce(session.suffix().try_into().unwrap());
    let (beat, fenced) = (key::heartbeat(nonce), key::fenced(nonce));
    let mark = Write::Put(fenced.clone(), Mark.encode(&fenced));
    let guards = vec![Guard::Present(session.clone())];
    let plan = Plan { guards, writes: vec![Write::Delete(session), Write::Delete(beat), mark] };
    assert_eq!(fleet.store.commit(&[plan]).await.unwrap(), [Verdict::Committed]);
}

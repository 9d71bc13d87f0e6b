//! Locks on ranges of files and on whole ones, for programs of one mount.
//!
//! A lock of fcntl(2) belongs to a process, one of flock(2) to an open file; the two kinds do not see
//! each other. Who waits is served in the order of coming, and leaves no trace when it gives up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use record::Ino;
use rustix::io::Errno;
use tokio::sync::oneshot;

/// The most locks of one file that are held or waited for.
const LOCKS_PER_FILE_MAX: usize = 1 << 16;

/// What a lock allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeLockKind {
    /// Held by any number of readers.
    Shared,
    /// Held by one writer.
    Exclusive,
}

/// A lock on a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeLock {
    /// The first byte.
    pub start: u64,
    /// The last byte.
    pub last: u64,
    /// What it allows.
    pub kind: RangeLockKind,
    /// Who holds it, or asks for it.
    pub owner: u64,
    /// The process, for those who ask who is in the way.
    pub pid: u32,
    /// Whether it is one of flock(2).
    pub flock: bool,
}

impl RangeLock {
    fn overlaps(&self, other: &RangeLock) -> bool {
        self.start <= other.last && other.start <= self.last
    }

    fn is_of(&self, owner: u64, flock: bool) -> bool {
        self.owner == owner && self.flock == flock
    }

    fn conflicts(&self, other: &RangeLock) -> bool {
        self.flock == other.flock
            && self.owner != other.owner
            && self.overlaps(other)
            && (self.kind == RangeLockKind::Exclusive || other.kind == RangeLockKind::Exclusive)
    }
}

/// The locks of all files.
#[derive(Debug, Default)]
pub struct LockTable {
    files: Arc<Mutex<HashMap<Ino, FileLocks>>>,
    /// Told of what is held, for the process that may follow.
    keeper: Option<Arc<dyn KeepLocks>>,
}

/// Where the locks that are held outlive the process.
pub(crate) trait KeepLocks: Send + Sync + std::fmt::Debug {
    /// These are held of a file now, and no others.
    fn keep(&self, ino: Ino, held: &[RangeLock]);

    /// All that are held, by file.
    fn kept(&self) -> Vec<(Ino, Vec<RangeLock>)>;
}

#[derive(Debug, Default)]
struct FileLocks {
    held: Vec<RangeLock>,
    waiting: Vec<Waiting>,
    next: u64,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    lock: RangeLock,
    granted: oneshot::Sender<()>,
}

impl FileLocks {
    fn obstacle(&self, asked: &RangeLock) -> Option<RangeLock> {
        self.held.iter().find(|held| held.conflicts(asked)).copied()
    }

    /// Lets an owner go of a range.
    fn release(&mut self, owner: u64, flock: bool, start: u64, last: u64) {
        let mut after = Vec::with_capacity(self.held.len() + 1);
        for held in self.held.drain(..) {
            if !held.is_of(owner, flock) || held.start > last || start > held.last {
                after.push(held);
                continue;
            }
            if held.start < start {
                after.push(RangeLock { last: start - 1, ..held });
            }
            if held.last > last {
                after.push(RangeLock { start: last + 1, ..held });
            }
        }
        self.held = after;
    }

    /// Gives an owner a lock, in place of what it holds of the range.
    fn put(&mut self, lock: RangeLock) {
        self.release(lock.owner, lock.flock, lock.start, lock.last);
        self.held.push(lock);
    }

    /// Gives those who wait what they can have now.
    fn grant(&mut self) {
        let mut at = 0;
        while at < self.waiting.len() {
            if self.obstacle(&self.waiting[at].lock).is_some() {
                at += 1;
                continue;
            }
            let Waiting { lock, granted, .. } = self.waiting.remove(at);
            // Whoever has given up meanwhile is not given it.
            if granted.send(()).is_ok() {
                self.put(lock);
            }
        }
    }
}

impl LockTable {
    /// The locks that are held by whoever held them before.
    pub(crate) fn kept_by(keeper: Option<Arc<dyn KeepLocks>>) -> LockTable {
        let kept = keeper.as_ref().map(|keeper| keeper.kept()).unwrap_or_default();
        let held = |(ino, held)| (ino, FileLocks { held, ..FileLocks::default() });
        let files = Arc::new(Mutex::new(kept.into_iter().map(held).collect()));
        LockTable { files, keeper }
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Ino, FileLocks>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, ino: Ino, change: impl FnOnce(&mut FileLocks) -> T) -> T {
        let mut table = self.table();
        let locks = table.entry(ino).or_default();
        let before = self.keeper.as_ref().map(|_| locks.held.clone());
        let done = change(locks);
        if let Some(keeper) = &self.keeper
            && before.as_ref() != Some(&locks.held)
        {
            keeper.keep(ino, &locks.held);
        }
        if locks.held.is_empty() && locks.waiting.is_empty() {
            table.remove(&ino);
        }
        done
    }
}

/// A place among those who wait; given up when it is dropped.
struct Place<'a> {
    locks: &'a LockTable,
    ino: Ino,
    number: u64,
    lock: RangeLock,
    granted: oneshot::Receiver<()>,
    done: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        self.locks.change(self.ino, |locks| {
            locks.waiting.retain(|waiting| waiting.number != self.number);
            // It may have been granted at this very moment.
            if self.granted.try_recv().is_ok() {
                let RangeLock { owner, flock, start, last, .. } = self.lock;
                locks.release(owner, flock, start, last);
                locks.grant();
            }
        });
    }
}

impl LockTable {
    /// The lock that is in the way of another one.
    pub fn in_the_way(&self, ino: Ino, asked: &RangeLock) -> Option<RangeLock> {
        self.change(ino, |locks| locks.obstacle(asked))
    }

    /// Takes a lock, or fails with EAGAIN.
    pub fn try_lock(&self, ino: Ino, asked: RangeLock) -> Result<(), Errno> {
        self.change(ino, |locks| {
            if locks.obstacle(&asked).is_some() {
                return Err(Errno::AGAIN);
            }
            if locks.held.len() >= LOCKS_PER_FILE_MAX {
                return Err(Errno::NOLCK);
            }
            locks.put(asked);
            // A shared lock in place of an exclusive one may be what others wait for.
            locks.grant();
            Ok(())
        })
    }

    /// Takes a lock when it can be had. Dropped before, leaves no trace.
    pub async fn lock(&self, ino: Ino, asked: RangeLock) -> Result<(), Errno> {
        let (sender, granted) = oneshot::channel();
        let number = self.change(ino, |locks| {
            if locks.obstacle(&asked).is_none() {
                locks.put(asked);
                locks.grant();
                return Ok(None);
            }
            if locks.waiting.len() >= LOCKS_PER_FILE_MAX {
                return Err(Errno::NOLCK);
            }
            locks.next += 1;
            let number = locks.next;
            locks.waiting.push(Waiting { number, lock: asked, granted: sender });
            Ok(Some(number))
        })?;
        let Some(number) = number else { return Ok(()) };
        let mut place = Place { locks: self, ino, number, lock: asked, granted, done: false };
        let granted = (&mut place.granted).await;
        place.done = granted.is_ok();
        granted.map_err(|_| Errno::NOLCK)
    }

    /// How many wait for a lock.
    pub fn waiting(&self) -> usize {
        self.table().values().map(|locks| locks.waiting.len()).sum()
    }

    /// Lets an owner go of a range of a file.
    pub fn unlock(&self, ino: Ino, owner: u64, flock: bool, start: u64, last: u64) {
        self.change(ino, |locks| {
            locks.release(owner, flock, start, last);
            locks.grant();
        });
    }
}

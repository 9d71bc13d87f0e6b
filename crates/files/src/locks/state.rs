//! The state of locks: the tables of all files, and the location of locks (the memory of this
//! session, or records that sessions share).

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use record::{Ino, LOCKS_PER_FILE_MAX, RangeLock, RangeLockKind};
use rustix::io::Errno;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use volume::{COMMIT_DEADLINE, Volume};

use super::table::{FileTable, WaitState};

/// The time for which a lock record is rewritten again and again after a commit with an unknown
/// outcome, because that commit may still arrive at the store.
const DOUBT_DURATION: Duration = Duration::from_secs(30);

// A commit with an unknown outcome has twice its deadline to arrive at the store.
const _: () = assert!(2 * COMMIT_DEADLINE.as_millis() <= DOUBT_DURATION.as_millis());

/// The maximum number of lock owners that a search for a deadlock visits. A longer circle is not
/// found.
const DEADLOCK_OWNERS_MAX: usize = 64;

/// The hook that runs before other mounts can get locks that this session released in its memory.
/// It flushes all files, so that the programs there see the data that was written under the locks.
pub(crate) struct BeforeSharing(pub(crate) Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>);

impl fmt::Debug for BeforeSharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BeforeSharing")
    }
}

/// Storage of held locks that survives this process, for the process that follows it.
pub(crate) trait LockLedger: Send + Sync + fmt::Debug {
    /// Replaces the stored locks of a file by `held`. A failure is only logged.
    fn store(&self, ino: Ino, held: &[RangeLock]);

    /// Returns all stored locks by file, as the process before this one left them.
    fn load(&self) -> Vec<(Ino, Vec<RangeLock>)>;
}

/// The place from which locks are granted: the memory of one session, or records that sessions
/// share. The module `locks` has the diagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Location {
    /// Not known: no lock is granted until the location is found.
    Unknown,
    /// In the memory of this session, which is the granter: the only session of the volume that
    /// grants locks.
    Memory,
    /// In records that this session shares with others. `sessions` is a number that grows when a
    /// session of the volume may have begun or ended, as it was when the location was found; if it
    /// has grown, the location must be found again.
    Records { sessions: u64 },
}

/// The locks that programs of one mount hold on files, and the requests that wait for locks.
#[derive(Debug)]
pub struct Locks {
    /// This value, for tasks that outlive a call.
    pub(super) me: Weak<Locks>,
    /// The hook that flushes the files of this mount before other mounts get locks.
    pub(super) before_sharing: BeforeSharing,
    pub(super) volume: Arc<Volume>,
    /// The time limit of an operation while the store does not answer.
    pub(super) io_timeout: Duration,
    pub(super) tasks: TaskTracker,
    /// The location of locks (this session's memory, or shared records). Held for reading while a
    /// lock is granted or released, and for writing while the location changes. Lock order: this,
    /// then a record lock, then `tables`.
    pub(super) location: tokio::sync::RwLock<Location>,
    tables: Mutex<Tables>,
}

/// The locks of all files, and the files whose lock records need a rewrite.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// The locks and waiters of each file that has any.
    pub(super) files: HashMap<Ino, FileTable>,
    /// Files whose lock records may contain locks of this session.
    pub(super) in_records: HashSet<Ino>,
    /// Files whose lock records may differ from the locks held, each with the time until which the
    /// record is rewritten.
    pub(super) doubtful: HashMap<Ino, Instant>,
    /// The mutexes that serialise commits of each file's lock record.
    pub(super) record_locks: HashMap<Ino, Weak<tokio::sync::Mutex<()>>>,
    /// True if the task is running that publishes the locks in memory when another session asks for
    /// locks.
    pub(super) answering: bool,
    /// True if the task is running that rewrites records which may differ from the locks held.
    pub(super) repairing: bool,
    /// The last known data version of each file with locks: a number that grows with each commit of
    /// its content.
    versions: HashMap<Ino, u64>,
    /// The storage of the held locks for the next worker (process of the mount); `None` if no
    /// worker follows.
    ledger: Option<Arc<dyn LockLedger>>,
}

/// A change of the locks of a file.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// Takes a lock. The number is that of the waiting request for which it is taken; `None` for a
    /// request that does not wait.
    Lock(RangeLock, Option<u64>),
    /// Releases the locks of an owner on the bytes `start..=last`: those of flock(2) if `flock` is
    /// true, otherwise those of fcntl(2).
    Unlock { owner: u64, flock: bool, start: u64, last: u64 },
    /// Gives up a lock that was granted to a program that does not wait any more. The list has the
    /// locks that its owner had on that range before the grant, and gets back.
    Restore(RangeLock, Vec<RangeLock>),
}

/// The result of a change of the locks of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// The change was made.
    Done,
    /// Another program of this mount holds a conflicting lock.
    BlockedHere,
    /// A program of another mount holds a conflicting lock.
    BlockedElsewhere,
    /// The change was not made, because locks are not where they were (this session's memory, or
    /// shared records). Find their location, and try again.
    Relocated,
}

/// The byte of a file whose lock in the ledger is no lock: its owner is the data version of the
/// file, a number that grows with each commit of its content. No program can lock this byte.
const VERSION_BYTE: u64 = u64::MAX - 3;

/// Returns the pseudo-lock by which the ledger stores a data version of a file.
fn version_mark(version: u64) -> RangeLock {
    let (kind, pid, flock) = (RangeLockKind::Shared, 0, false);
    RangeLock { start: VERSION_BYTE, last: VERSION_BYTE, kind, owner: version, pid, flock }
}

/// The locks that programs held on one file under the previous worker (process of the mount), whose
/// session has ended.
#[derive(Debug)]
pub(crate) struct InheritedLocks {
    pub(crate) ino: Ino,
    pub(crate) held: Vec<RangeLock>,
    /// The data version that the file had while these locks were held: a number that grows with
    /// each commit of its content. `None` if it is not known.
    pub(crate) version: Option<u64>,
}

impl Tables {
    /// Changes the locks and waiters of a file, and stores the held locks in the ledger if they
    /// differ. Returns the result of `change`.
    pub(super) fn change<T>(&mut self, ino: Ino, change: impl FnOnce(&mut FileTable) -> T) -> T {
        let table = self.files.entry(ino).or_default();
        let before = self.ledger.as_ref().map(|_| table.held().to_vec());
        let done = change(table);
        let is_changed = before.is_some_and(|before| before != table.held());
        // A file without locks needs no data version.
        if table.held().is_empty() {
            self.versions.remove(&ino);
        }
        if table.is_empty() {
            self.files.remove(&ino);
        }
        if is_changed {
            self.update_ledger(ino);
        }
        done
    }

    /// Stores the held locks of a file, and its data version, in the ledger.
    fn update_ledger(&self, ino: Ino) {
        let Some(ledger) = &self.ledger else { return };
        let mut held = self.held(ino);
        held.extend(self.versions.get(&ino).map(|version| version_mark(*version)));
        ledger.store(ino, &held);
    }

    /// Returns the locks that programs of this mount hold on a file.
    pub(super) fn held(&self, ino: Ino) -> Vec<RangeLock> {
        self.files.get(&ino).map(|table| table.held().to_vec()).unwrap_or_default()
    }
}

impl Locks {
    /// Returns the locks of a mount. Locks that the previous worker (process of the mount) left in
    /// the ledger count as held.
    pub(crate) fn new(
        before_sharing: BeforeSharing,
        volume: &Arc<Volume>,
        io_timeout: Duration,
        ledger: Option<Arc<dyn LockLedger>>,
    ) -> Arc<Locks> {
        let kept = ledger.as_ref().map(|ledger| ledger.load()).unwrap_or_default();
        let locks = Arc::new_cyclic(|me| Locks {
            me: me.clone(),
            before_sharing,
            volume: Arc::clone(volume),
            io_timeout,
            tasks: TaskTracker::new(),
            location: tokio::sync::RwLock::new(Location::Unknown),
            tables: Mutex::new(Tables { ledger, ..Tables::default() }),
        });
        locks.import_kept(kept);
        locks
    }

    /// Takes over the locks and data versions of files that the ledger has.
    fn import_kept(&self, kept: Vec<(Ino, Vec<RangeLock>)>) {
        let is_mark = |lock: &RangeLock| lock.start == VERSION_BYTE;
        for (ino, kept) in kept {
            let (marks, held) = kept.into_iter().partition::<Vec<_>, _>(is_mark);
            let mut tables = self.tables();
            tables.versions.extend(marks.first().map(|mark| (ino, mark.owner)));
            drop(tables);
            self.import(vec![(ino, held)]);
        }
    }

    /// Notes the data version of a file with locks, a number that grows with each commit of its
    /// content. Does nothing for a file without locks. If the session ends, the next worker uses it
    /// to find out whether another session has changed the file since.
    pub(crate) fn note_version(&self, ino: Ino, version: u64) {
        let mut tables = self.tables();
        if tables.held(ino).is_empty() || tables.versions.insert(ino, version) == Some(version) {
            return;
        }
        tables.update_ledger(ino);
    }

    /// Removes all locks that the previous worker (process of the mount) left from the tables, and
    /// returns them. Used if the session of that worker has ended, because its locks have ended
    /// too.
    pub(crate) fn take_inherited(&self) -> Vec<InheritedLocks> {
        let mut tables = self.tables();
        tables.in_records.clear();
        let files: Vec<Ino> = tables.files.keys().copied().collect();
        let take = |ino: Ino| {
            let (held, version) = (tables.held(ino), tables.versions.get(&ino).copied());
            tables.change(ino, |table| table.set_held(Vec::new()));
            InheritedLocks { ino, held, version }
        };
        files.into_iter().map(take).collect()
    }

    pub(super) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    /// Returns true if the range lock `requested` would deadlock: the holder of a conflicting lock
    /// waits, directly or through others, for a lock of `requested.owner`. As on a local disk,
    /// flock locks are ignored. The search stops at [`DEADLOCK_OWNERS_MAX`] owners.
    pub(super) fn is_deadlock(&self, ino: Ino, requested: &RangeLock) -> bool {
        let holders = |ino: Ino, requested: &RangeLock| -> Vec<u64> {
            let table = self.files.get(&ino);
            table.map_or_else(Vec::new, |table| table.conflicting_owners(requested).collect())
        };
        if requested.flock {
            return false;
        }
        let (mut pending, mut seen) = (holders(ino, requested), HashSet::new());
        while let Some(owner) = pending.pop() {
            if owner == requested.owner {
                return true;
            }
            // Each owner once: waits can form a circle that does not contain `requested.owner`.
            if !seen.insert(owner) {
                continue;
            }
            if seen.len() > DEADLOCK_OWNERS_MAX {
                return false;
            }
            for (ino, table) in &self.files {
                pending.extend(table.waited_for(owner).flat_map(|waited| holders(*ino, waited)));
            }
        }
        false
    }

    /// Computes a change of the locks of a file, without making it. Returns the locks held after
    /// it, and the new lock among them if there is one; or the reason why it cannot be made now.
    /// Fails with `ENOLCK` if the file would have too many locks.
    #[expect(clippy::type_complexity, reason = "three outcomes, of which one is an error")]
    pub(super) fn plan_change(
        &mut self,
        ino: Ino,
        change: &Change,
    ) -> Result<Result<(Vec<RangeLock>, Option<RangeLock>), Changed>, Errno> {
        let table = self.files.entry(ino).or_default();
        let after = match change {
            Change::Unlock { owner, flock, start, last } => {
                Ok(Ok((table.without(*owner, *flock, *start, *last), None)))
            }
            Change::Restore(lock, before) => Ok(Ok((table.restored(lock, before), None))),
            // The waiter gave up.
            Change::Lock(_, Some(number))
                if table.wait_state(*number) != Some(WaitState::Reserved) =>
            {
                Ok(Err(Changed::BlockedHere))
            }
            Change::Lock(requested, None) if table.has_conflict(requested) => {
                Ok(Err(Changed::BlockedHere))
            }
            Change::Lock(requested, _) => match table.with(requested) {
                after if after.len() > LOCKS_PER_FILE_MAX => Err(Errno::NOLCK),
                after => Ok(Ok((after, Some(*requested)))),
            },
        };
        if table.is_empty() {
            self.files.remove(&ino);
        }
        after
    }

    /// Computes and makes a change of the locks of a file, while this session grants locks from its
    /// memory.
    pub(super) fn apply_in_memory(&mut self, ino: Ino, change: &Change) -> Result<Changed, Errno> {
        match self.plan_change(ino, change)? {
            Ok((after, _)) => {
                self.apply(ino, change, after);
                Ok(Changed::Done)
            }
            Err(changed) => Ok(changed),
        }
    }

    /// Makes a change of the locks of a file: sets the held locks to `after`. Returns false, and
    /// changes nothing, if the waiter has given up.
    pub(super) fn apply(&mut self, ino: Ino, change: &Change, after: Vec<RangeLock>) -> bool {
        self.change(ino, |table| {
            if let Change::Lock(_, Some(number)) = change {
                return table.grant(*number, after);
            }
            table.set_held(after);
            true
        })
    }

    /// Makes a release of locks although it could not be committed to the file's lock record. This
    /// session then holds less than the record says, so the record is marked as doubtful and is
    /// rewritten later. Does nothing for a change that takes a lock.
    pub(super) fn release_unwritten(&mut self, ino: Ino, change: &Change) {
        if matches!(change, Change::Lock(..)) {
            return;
        }
        if let Ok(Ok((after, _))) = self.plan_change(ino, change) {
            self.change(ino, |table| table.set_held(after));
        }
        self.mark_doubtful(ino);
    }
}

impl Tables {
    /// Marks the lock record of a file as doubtful: it may differ from the locks held, and is
    /// rewritten for 30 seconds.
    pub(super) fn mark_doubtful(&mut self, ino: Ino) {
        self.in_records.insert(ino);
        self.doubtful.insert(ino, Instant::now() + DOUBT_DURATION);
    }

    /// Returns all held locks by file. Files without locks are included if their lock records may
    /// still list locks of this session.
    pub(super) fn locks_to_publish(&self) -> Vec<(Ino, Vec<RangeLock>)> {
        let held = self.files.iter().filter(|(_, table)| !table.held().is_empty());
        let mut files: Vec<Ino> =
            held.map(|(ino, _)| *ino).chain(self.in_records.iter().copied()).collect();
        files.sort_unstable();
        files.dedup();
        files.into_iter().map(|ino| (ino, self.held(ino))).collect()
    }
}

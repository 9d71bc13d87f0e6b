//! What is known of locks: the tables of all files, and where locks are.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use record::{Ino, LOCKS_PER_FILE_MAX, RangeLock, RangeLockKind};
use rustix::io::Errno;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use volume::Volume;

use super::table::{FileTable, WaitState};

/// For how long a record is looked after that a plan may change late.
const DOUBT_LASTS: Duration = Duration::from_secs(30);

/// The most owners that a search for a deadlock looks at.
const DEADLOCK_OWNERS_MAX: usize = 64;

/// What is done before programs of other mounts may get locks that were let go of in memory.
pub(crate) struct BeforeSharing(pub(crate) Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>);

impl fmt::Debug for BeforeSharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BeforeSharing")
    }
}

/// Where the locks that are held outlive the process.
pub(crate) trait LockLedger: Send + Sync + fmt::Debug {
    /// These are held of a file now, and no others.
    fn store(&self, ino: Ino, held: &[RangeLock]);

    /// All that are held, by file.
    fn load(&self) -> Vec<(Ino, Vec<RangeLock>)>;
}

/// Where locks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Location {
    /// Nobody knows.
    Unknown,
    /// In the memory of this session.
    Memory,
    /// In records that this session shares, as of so many changes of sessions.
    Records { sessions: u64 },
}

/// Locks of the programs of one mount.
#[derive(Debug)]
pub struct Locks {
    pub(super) me: Weak<Locks>,
    /// Whose programs these are. What they have written becomes content before others get locks.
    pub(super) before_sharing: BeforeSharing,
    pub(super) volume: Arc<Volume>,
    pub(super) io_timeout: Duration,
    pub(super) tasks: TaskTracker,
    /// Where locks are. Held for reading while one is granted or let go of.
    pub(super) location: tokio::sync::RwLock<Location>,
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) files: HashMap<Ino, FileTable>,
    /// Files of which a record may have a part of this session's, whatever it holds.
    pub(super) in_records: HashSet<Ino>,
    /// Files whose records may not say what is held, and until when that is looked after.
    pub(super) doubtful: HashMap<Ino, Instant>,
    /// Who changes a file's record takes turns with others here.
    pub(super) record_locks: HashMap<Ino, Weak<tokio::sync::Mutex<()>>>,
    /// Whether a task answers others who want locks.
    pub(super) answering: bool,
    /// Whether a task writes what is doubtful.
    pub(super) repairing: bool,
    /// Data versions of files with locks, as this mount knew them last.
    versions: HashMap<Ino, u64>,
    /// Told of what is held, for the process that may follow.
    ledger: Option<Arc<dyn LockLedger>>,
}

/// What becomes of what is held of a file.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// A lock is taken, for one that waits under a number, or for one that does not wait.
    Lock(RangeLock, Option<u64>),
    /// An owner lets go of a range.
    Unlock { owner: u64, flock: bool, start: u64, last: u64 },
    /// A lock that was granted is given up. Its owner held these before.
    Restore(RangeLock, Vec<RangeLock>),
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    Done,
    /// A lock of this mount is in the way.
    BlockedHere,
    /// A lock of another mount is in the way.
    BlockedElsewhere,
    /// Locks are not where they were thought to be.
    Relocated,
}

/// The byte whose kept lock says the data version of the file. No lock on it is ever asked for.
const VERSION_BYTE: u64 = u64::MAX - 3;

/// The kept lock that says a data version.
fn version_mark(version: u64) -> RangeLock {
    let (kind, pid, flock) = (RangeLockKind::Shared, 0, false);
    RangeLock { start: VERSION_BYTE, last: VERSION_BYTE, kind, owner: version, pid, flock }
}

/// The locks that a process left, and the data version of their file.
#[derive(Debug)]
pub(crate) struct InheritedLocks {
    pub(crate) ino: Ino,
    pub(crate) held: Vec<RangeLock>,
    pub(crate) version: Option<u64>,
}

impl Tables {
    /// Changes the table of a file.
    pub(super) fn change<T>(&mut self, ino: Ino, change: impl FnOnce(&mut FileTable) -> T) -> T {
        let table = self.files.entry(ino).or_default();
        let before = self.ledger.as_ref().map(|_| table.held().to_vec());
        let done = change(table);
        let is_changed = before.is_some_and(|before| before != table.held());
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

    fn update_ledger(&self, ino: Ino) {
        let Some(ledger) = &self.ledger else { return };
        let mut held = self.held(ino);
        held.extend(self.versions.get(&ino).map(|version| version_mark(*version)));
        ledger.store(ino, &held);
    }

    pub(super) fn held(&self, ino: Ino) -> Vec<RangeLock> {
        self.files.get(&ino).map(|table| table.held().to_vec()).unwrap_or_default()
    }
}

impl Locks {
    /// Those that were held by the process before this one, whose session goes on.
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

    /// Takes over what the ledger has kept.
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

    /// Notes the data version that a file with locks has. If the session ends, it shows whether another
    /// session has changed the file since.
    pub(crate) fn note_version(&self, ino: Ino, version: u64) {
        let mut tables = self.tables();
        if tables.held(ino).is_empty() || tables.versions.insert(ino, version) == Some(version) {
            return;
        }
        tables.update_ledger(ino);
    }

    /// Takes all locks out of the tables: those of a process whose session has ended.
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
    /// Whether a program of this mount that waited for a lock of a range would wait for itself: whoever
    /// has what is in its way waits, in turn, for what it has itself. Whole files are not looked at, as
    /// on a local disk, nor more than [`DEADLOCK_OWNERS_MAX`] owners.
    pub(super) fn is_deadlock(&self, ino: Ino, asked: &RangeLock) -> bool {
        let holders = |ino: Ino, asked: &RangeLock| -> Vec<u64> {
            let table = self.files.get(&ino);
            table.map_or_else(Vec::new, |table| table.conflicting_owners(asked).collect())
        };
        if asked.flock {
            return false;
        }
        let (mut left, mut seen) = (holders(ino, asked), HashSet::new());
        while let Some(owner) = left.pop() {
            if owner == asked.owner {
                return true;
            }
            if !seen.insert(owner) {
                continue;
            }
            if seen.len() > DEADLOCK_OWNERS_MAX {
                return false;
            }
            for (ino, table) in &self.files {
                left.extend(table.waited_for(owner).flat_map(|waited| holders(*ino, waited)));
            }
        }
        false
    }

    /// What is held once a change is made, and the lock that is new by it; or why it cannot be made.
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
            // Whoever has left asks for nothing any more.
            Change::Lock(_, Some(number))
                if table.wait_state(*number) != Some(WaitState::Reserved) =>
            {
                Ok(Err(Changed::BlockedHere))
            }
            Change::Lock(asked, None) if table.has_conflict(asked) => Ok(Err(Changed::BlockedHere)),
            Change::Lock(asked, _) => match table.with(asked) {
                after if after.len() > LOCKS_PER_FILE_MAX => Err(Errno::NOLCK),
                after => Ok(Ok((after, Some(*asked)))),
            },
        };
        if table.is_empty() {
            self.files.remove(&ino);
        }
        after
    }

    /// Makes a change in memory.
    pub(super) fn apply_in_memory(&mut self, ino: Ino, change: &Change) -> Result<Changed, Errno> {
        match self.plan_change(ino, change)? {
            Ok((after, _)) => {
                self.apply(ino, change, after);
                Ok(Changed::Done)
            }
            Err(changed) => Ok(changed),
        }
    }

    /// This is held now, unless who waited for it has left. Answers whether it is.
    pub(super) fn apply(&mut self, ino: Ino, change: &Change, after: Vec<RangeLock>) -> bool {
        self.change(ino, |table| {
            if let Change::Lock(_, Some(number)) = change {
                return table.grant(*number, after);
            }
            table.set_held(after);
            true
        })
    }

    /// Lets go of what is to be let go of although it cannot be written now. That is too little held
    /// here, and too much elsewhere until it is written.
    pub(super) fn release_unwritten(&mut self, ino: Ino, change: &Change) {
        if matches!(change, Change::Lock(..)) {
            return;
        }
        if let Ok(Ok((after, _))) = self.plan_change(ino, change) {
            self.change(ino, |table| table.set_held(after));
        }
        self.doubt(ino);
    }
}

impl Tables {
    /// A file's record may not say what is held.
    pub(super) fn doubt(&mut self, ino: Ino) {
        self.in_records.insert(ino);
        self.doubtful.insert(ino, Instant::now() + DOUBT_LASTS);
    }

    /// All that is held, and all that records may say is held.
    pub(super) fn to_publish(&self) -> Vec<(Ino, Vec<RangeLock>)> {
        let held = self.files.iter().filter(|(_, table)| !table.held().is_empty());
        let mut files: Vec<Ino> =
            held.map(|(ino, _)| *ino).chain(self.in_records.iter().copied()).collect();
        files.sort_unstable();
        files.dedup();
        files.into_iter().map(|ino| (ino, self.held(ino))).collect()
    }
}

//! Taking and releasing locks, in memory or in records.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::sync::{Arc, Weak};
use std::time::Duration;

use record::{Ino, RangeLock};
use rustix::io::Errno;
use volume::{ConflictSearch, LockWatch, SetLocksResult, VolumeError};

use super::state::{Change, Changed, Location, Locks};
use super::table::{FileTable, WaitState};
use crate::retry::retry_until_deadline;

/// The maximum number of waiters for locks of one file. Further lock requests that would wait fail
/// with `ENOLCK`.
const LOCKS_WAITED_FOR_MAX: usize = 1 << 16;

/// The time for which a waiter for a lock that another mount holds waits for a notification. After
/// it, the waiter tries again.
const RECHECK_INTERVAL: Duration = Duration::from_secs(2);

impl Locks {
    /// Returns a held lock that conflicts with `requested`; `None` if there is none. Its `pid` is 0
    /// if a program of another mount holds it.
    pub(crate) async fn conflicting(
        &self,
        ino: Ino,
        requested: &RangeLock,
    ) -> Result<Option<RangeLock>, Errno> {
        loop {
            let held = self.tables().change(ino, |table| table.conflicting_held(requested));
            if held.is_some() {
                return Ok(held);
            }
            if *self.current_location().await? == Location::Memory {
                return Ok(None);
            }
            match retry_until_deadline(self.io_timeout, || self.volume.find_lock(ino, requested))
                .await?
            {
                ConflictSearch::Free => return Ok(None),
                ConflictSearch::Conflict(held) => {
                    return Ok(Some(RangeLock { pid: 0, ..held.lock }));
                }
                ConflictSearch::Elsewhere => self.forget_location().await,
            }
        }
    }

    /// Takes a lock for its owner without waiting. Fails with `EAGAIN` if it conflicts with a lock
    /// of another owner, here or on another mount.
    pub(crate) async fn try_lock(&self, ino: Ino, requested: RangeLock) -> Result<(), Errno> {
        match self.change(ino, Change::Lock(requested, None)).await? {
            Changed::Done | Changed::Relocated => Ok(()),
            Changed::BlockedHere | Changed::BlockedElsewhere => Err(Errno::AGAIN),
        }
    }

    /// Takes a lock, and waits until it is free. Fails with `EDEADLK` if programs of this mount
    /// would wait for each other in a circle, and with `ENOLCK` if there are too many waiters or
    /// locks. If the future, or the returned grant, is dropped before [`LockGrant::keep`], the lock
    /// is given up.
    pub(crate) async fn lock(
        &self,
        ino: Ino,
        requested: RangeLock,
    ) -> Result<LockGrant<'_>, Errno> {
        let (number, wake) = {
            let mut tables = self.tables();
            if tables.files.get(&ino).is_some_and(|t| t.waiting() >= LOCKS_WAITED_FOR_MAX) {
                return Err(Errno::NOLCK);
            }
            // Checked before the waiter is added, so that it does not count itself.
            if tables.is_deadlock(ino, &requested) {
                return Err(Errno::DEADLK);
            }
            tables.change(ino, |table| table.wait(requested))
        };
        // From here on, dropping this future removes the waiter and its lock.
        let grant = LockGrant { locks: self, ino, requested, number };
        let mut watch: Option<LockWatch> = None;
        loop {
            let state = self.tables().files.get(&ino).and_then(|table| table.wait_state(number));
            match (state, &mut watch) {
                (None, _) => return Err(Errno::NOLCK),
                (Some(WaitState::Granted), _) => return Ok(grant),
                (Some(WaitState::BlockedHere), _) => wake.notified().await,
                (Some(WaitState::BlockedElsewhere), Some(watch)) => {
                    tokio::select! {
                        () = watch.changed() => {}
                        () = wake.notified() => {}
                        // A session that ends sends no notification.
                        () = tokio::time::sleep(RECHECK_INTERVAL) => {}
                    }
                    self.tables().change(ino, |table| table.recheck(number));
                }
                (Some(WaitState::Reserved | WaitState::BlockedElsewhere), _) => {
                    let watch = watch.get_or_insert_with(|| self.volume.lock_notices().watch(ino));
                    // Before the attempt: a notification that comes during it must not be lost.
                    watch.mark_seen();
                    let change = Change::Lock(requested, Some(number));
                    self.change(ino, change).await?;
                }
            }
        }
    }

    /// Releases the locks of one owner on the bytes `start..=last` of a file. `flock` selects its
    /// locks of flock(2), otherwise those of fcntl(2). Takes no round trip if the owner holds none
    /// of it.
    pub(crate) async fn unlock(
        &self,
        ino: Ino,
        owner: u64,
        flock: bool,
        start: u64,
        last: u64,
    ) -> Result<(), Errno> {
        if !self.holds(ino, owner, flock, start..=last) {
            return Ok(());
        }
        self.change(ino, Change::Unlock { owner, flock, start, last }).await.map(|_changed| ())
    }

    /// Returns the number of lock requests of this mount's programs that wait, for all files.
    pub fn waiting(&self) -> usize {
        self.tables().files.values().map(FileTable::waiting).sum()
    }

    /// Returns true if an owner holds a lock on any byte of the range: a lock of flock(2) if
    /// `flock` is true, otherwise one of fcntl(2).
    pub(crate) fn holds(
        &self,
        ino: Ino,
        owner: u64,
        flock: bool,
        range: RangeInclusive<u64>,
    ) -> bool {
        let is_of = |held: &RangeLock| {
            held.owner == owner
                && held.flock == flock
                && held.start <= *range.end()
                && *range.start() <= held.last
        };
        self.tables().files.get(&ino).is_some_and(|table| table.held().iter().any(is_of))
    }

    /// Returns true if programs of other mounts may get a lock that is released here. Then dirty
    /// data must be flushed before the release.
    pub(crate) async fn is_shared(&self) -> bool {
        *self.location.read().await != Location::Memory
    }

    /// Returns true if this session keeps its locks in records that it shares with other sessions,
    /// and not in its own memory.
    pub(crate) async fn is_in_records(&self) -> bool {
        matches!(*self.location.read().await, Location::Records { .. })
    }

    /// Returns all held locks by file, for another process that continues this session. Files
    /// without locks are included if their lock records may list locks of this session; the next
    /// process corrects these records.
    pub fn export(&self) -> Vec<(Ino, Vec<RangeLock>)> {
        let tables = self.tables();
        let held = tables.files.iter().filter(|(_, table)| !table.held().is_empty());
        let files: HashSet<Ino> =
            held.map(|(ino, _)| *ino).chain(tables.in_records.iter().copied()).collect();
        files.into_iter().map(|ino| (ino, tables.held(ino))).collect()
    }

    /// Takes over the locks that another process of this session exported. Call this before any
    /// other operation.
    pub fn import(&self, files: Vec<(Ino, Vec<RangeLock>)>) {
        let mut tables = self.tables();
        for (ino, held) in files {
            tables.in_records.insert(ino);
            tables.change(ino, |table| table.set_held(held));
        }
    }

    /// Changes the locks of a file: in the memory of this session, or by a commit of the file's
    /// lock record, which sessions share.
    async fn change(&self, ino: Ino, change: Change) -> Result<Changed, Errno> {
        loop {
            let location = match self.current_location().await {
                Ok(location) => location,
                Err(error) => {
                    // A release must not fail: the program does not repeat it. The record is
                    // corrected later.
                    self.tables().release_unwritten(ino, &change);
                    self.repair_doubtful_soon();
                    return Err(error);
                }
            };
            // The guard is held, so the locks stay in memory until the change is applied.
            if *location == Location::Memory {
                return self.tables().apply_in_memory(ino, &change);
            }
            drop(location);
            let Some(me) = self.me.upgrade() else { return Err(Errno::IO) };
            // A task of its own: a commit that has begun must settle even if the caller stops
            // waiting.
            let change = change.clone();
            let changing = self.tasks.spawn(async move { me.change_in_records(ino, change).await });
            match changing.await.unwrap_or(Err(Errno::IO))? {
                Changed::Relocated => {}
                changed @ (Changed::Done | Changed::BlockedHere | Changed::BlockedElsewhere) => {
                    return Ok(changed);
                }
            }
        }
    }

    /// Changes this session's locks in the lock record of a file, which sessions share. The future
    /// must run to its end. If its waiter has given up in the meantime, the lock is released again.
    async fn change_in_records(&self, ino: Ino, change: Change) -> Result<Changed, Errno> {
        let location = self.location.read().await;
        if !matches!(*location, Location::Records { .. }) {
            return Ok(Changed::Relocated);
        }
        let record_lock = self.record_lock(ino);
        let locked = record_lock.lock().await;
        let (after, requested) = match self.tables().plan_change(ino, &change)? {
            Ok(after) => after,
            Err(changed) => return Ok(changed),
        };
        match self.set_in_records(ino, &after, requested.as_ref()).await {
            Ok(SetLocksResult::Done) => {
                if self.tables().apply(ino, &change, after) {
                    return Ok(Changed::Done);
                }
                // Committed, but the waiter gave up meanwhile: write the record without the lock.
                let held = self.tables().held(ino);
                self.set_in_records(ino, &held, None).await.map(|_set| Changed::Done)
            }
            Ok(SetLocksResult::Conflict(_)) => {
                if let Change::Lock(_, Some(number)) = change {
                    self.tables().change(ino, |table| table.set_blocked_elsewhere(number));
                }
                Ok(Changed::BlockedElsewhere)
            }
            Ok(SetLocksResult::TooMany) => Err(Errno::NOLCK),
            Ok(SetLocksResult::Elsewhere) => {
                // Drop the guards first: forgetting the location waits for all of them.
                drop((locked, location));
                self.forget_location().await;
                Ok(Changed::Relocated)
            }
            Err(error) => {
                self.tables().release_unwritten(ino, &change);
                self.repair_doubtful_soon();
                Err(error)
            }
        }
    }

    /// Commits `own`, all locks of this session on a file, to the file's lock record. `requested`
    /// is the new one among them, which must not conflict with locks of other sessions. The caller
    /// holds the mutex of the record. If the commit fails or its outcome is unknown, the record is
    /// *doubtful*: it may differ from the locks held, and is rewritten later.
    async fn set_in_records(
        &self,
        ino: Ino,
        own: &[RangeLock],
        requested: Option<&RangeLock>,
    ) -> Result<SetLocksResult, Errno> {
        // Before the commit: from now on the record may list locks of this session.
        self.tables().in_records.insert(ino);
        let set = async || match self.volume.set_locks(ino, own, requested).await {
            // The write contains all locks that are held, so it may be repeated.
            Err(VolumeError::Unknown(why)) => {
                self.tables().mark_doubtful(ino);
                Err(VolumeError::Unavailable(why))
            }
            set => set,
        };
        let set = retry_until_deadline(self.io_timeout, set).await;
        let mut tables = self.tables();
        match &set {
            // The record certainly lists no lock of this session any more.
            Ok(SetLocksResult::Done) if own.is_empty() && !tables.doubtful.contains_key(&ino) => {
                tables.in_records.remove(&ino);
            }
            Err(_) => tables.mark_doubtful(ino),
            Ok(_) => {}
        }
        let doubts = !tables.doubtful.is_empty();
        drop(tables);
        if doubts {
            self.repair_doubtful_soon();
        }
        set
    }

    /// Returns the mutex that this session holds while it commits the lock record of a file, so
    /// that its commits do not overtake each other. The caller holds the lock of the location,
    /// which comes first in the lock order (`docs/internals/locks.md`).
    pub(super) fn record_lock(&self, ino: Ino) -> Arc<tokio::sync::Mutex<()>> {
        debug_assert!(self.location.try_write().is_err(), "the location is locked first");
        let mut tables = self.tables();
        tables.record_locks.retain(|_, lock| lock.strong_count() > 0);
        if let Some(lock) = tables.record_locks.get(&ino).and_then(Weak::upgrade) {
            return lock;
        }
        let lock = Arc::<tokio::sync::Mutex<()>>::default();
        tables.record_locks.insert(ino, Arc::downgrade(&lock));
        lock
    }
}

/// A request that waits for a lock, and later the lock that it got. Dropping it gives up both, so
/// that a program that was interrupted does not keep the lock.
#[derive(Debug)]
pub(crate) struct LockGrant<'a> {
    locks: &'a Locks,
    ino: Ino,
    requested: RangeLock,
    number: u64,
}

impl LockGrant<'_> {
    /// Leaves the lock with its owner, so that it is not given up when this is dropped. Call this
    /// just before the reply.
    pub(crate) fn keep(self) {
        self.locks.tables().change(self.ino, |table| table.remove_granted(self.number));
    }
}

impl Drop for LockGrant<'_> {
    fn drop(&mut self) {
        let (ino, requested) = (self.ino, self.requested);
        let granted = self.locks.tables().change(ino, |table| table.give_up(self.number));
        if let (Some(before), Some(locks)) = (granted, self.locks.me.upgrade()) {
            let restore = Change::Restore(requested, before);
            self.locks.tasks.spawn(async move {
                // If the commit fails now, the repair task tries it again.
                let _restored = locks.change(ino, restore).await;
            });
        }
    }
}

//! Taking locks and letting go of them, wherever they are.

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

/// The most locks of one file that are waited for.
const LOCKS_WAITED_FOR_MAX: usize = 1 << 16;

/// How long one that waits for a lock of another mount waits for a notice before it looks again.
const RECHECK_INTERVAL: Duration = Duration::from_secs(2);

impl Locks {
    /// The lock that is in the way of another one. One of another mount has no process.
    pub(crate) async fn conflicting(
        &self,
        ino: Ino,
        asked: &RangeLock,
    ) -> Result<Option<RangeLock>, Errno> {
        loop {
            let held = self.tables().change(ino, |table| table.conflicting_held(asked));
            if held.is_some() {
                return Ok(held);
            }
            if *self.current_location().await? == Location::Memory {
                return Ok(None);
            }
            match retry_until_deadline(self.io_timeout, || self.volume.find_lock(ino, asked))
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

    /// Takes a lock, or fails with EAGAIN.
    pub(crate) async fn try_lock(&self, ino: Ino, asked: RangeLock) -> Result<(), Errno> {
        match self.change(ino, Change::Lock(asked, None)).await? {
            Changed::Done | Changed::Relocated => Ok(()),
            Changed::BlockedHere | Changed::BlockedElsewhere => Err(Errno::AGAIN),
        }
    }

    /// Takes a lock when it can be had, or fails with EDEADLK. Dropped before, leaves no trace; nor
    /// does what it answers, if that is dropped before [`LockGrant::keep`].
    pub(crate) async fn lock(&self, ino: Ino, asked: RangeLock) -> Result<LockGrant<'_>, Errno> {
        let (number, wake) = {
            let mut tables = self.tables();
            if tables.files.get(&ino).is_some_and(|t| t.waiting() >= LOCKS_WAITED_FOR_MAX) {
                return Err(Errno::NOLCK);
            }
            if tables.is_deadlock(ino, &asked) {
                return Err(Errno::DEADLK);
            }
            tables.change(ino, |table| table.wait(asked))
        };
        let grant = LockGrant { locks: self, ino, asked, number };
        let mut watch: Option<LockWatch> = None;
        loop {
            let turn = self.tables().files.get(&ino).and_then(|table| table.wait_state(number));
            match (turn, &mut watch) {
                (None, _) => return Err(Errno::NOLCK),
                (Some(WaitState::Granted), _) => return Ok(grant),
                (Some(WaitState::BlockedHere), _) => wake.notified().await,
                (Some(WaitState::BlockedElsewhere), Some(watch)) => {
                    tokio::select! {
                        () = watch.changed() => {}
                        () = wake.notified() => {}
                        () = tokio::time::sleep(RECHECK_INTERVAL) => {}
                    }
                    self.tables().change(ino, |table| table.recheck(number));
                }
                (Some(WaitState::Reserved | WaitState::BlockedElsewhere), _) => {
                    let watch = watch.get_or_insert_with(|| self.volume.lock_notices().watch(ino));
                    watch.mark_seen();
                    let change = Change::Lock(asked, Some(number));
                    self.change(ino, change).await?;
                }
            }
        }
    }

    /// Lets an owner go of a range of a file. Costs nothing where it holds none of it.
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

    /// How many wait for a lock.
    pub fn waiting(&self) -> usize {
        self.tables().files.values().map(FileTable::waiting).sum()
    }

    /// Whether an owner holds any of a range of a file.
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

    /// Whether programs of other mounts may get what is let go of here.
    pub(crate) async fn is_shared(&self) -> bool {
        *self.location.read().await != Location::Memory
    }

    /// Returns true if this session shares locks with others.
    pub(crate) async fn is_in_records(&self) -> bool {
        matches!(*self.location.read().await, Location::Records { .. })
    }

    /// All that is held, file by file, and the files of which records may say that something is: what
    /// another process needs that goes on with this session.
    pub fn export(&self) -> Vec<(Ino, Vec<RangeLock>)> {
        let tables = self.tables();
        let held = tables.files.iter().filter(|(_, table)| !table.held().is_empty());
        let files: HashSet<Ino> =
            held.map(|(ino, _)| *ino).chain(tables.in_records.iter().copied()).collect();
        files.into_iter().map(|ino| (ino, tables.held(ino))).collect()
    }

    /// Takes over what another process of this session has exported, before anything else is done.
    pub fn import(&self, files: Vec<(Ino, Vec<RangeLock>)>) {
        let mut tables = self.tables();
        for (ino, held) in files {
            tables.in_records.insert(ino);
            tables.change(ino, |table| table.set_held(held));
        }
    }

    /// Changes what is held of a file, wherever locks are.
    async fn change(&self, ino: Ino, change: Change) -> Result<Changed, Errno> {
        loop {
            let location = match self.current_location().await {
                Ok(location) => location,
                Err(error) => {
                    self.tables().release_unwritten(ino, &change);
                    self.repair_doubtful_soon();
                    return Err(error);
                }
            };
            if *location == Location::Memory {
                return self.tables().apply_in_memory(ino, &change);
            }
            drop(location);
            let Some(me) = self.me.upgrade() else { return Err(Errno::IO) };
            let change = change.clone();
            let changing = self.tasks.spawn(async move { me.change_in_records(ino, change).await });
            match changing.await.unwrap_or(Err(Errno::IO))? {
                Changed::Relocated => {}
                changed => return Ok(changed),
            }
        }
    }

    /// Changes what this session has in a file's record. Must run to its end: whoever waits for it may
    /// have left, and then has the lock no longer.
    async fn change_in_records(&self, ino: Ino, change: Change) -> Result<Changed, Errno> {
        let location = self.location.read().await;
        if !matches!(*location, Location::Records { .. }) {
            return Ok(Changed::Relocated);
        }
        let record_lock = self.record_lock(ino);
        let locked = record_lock.lock().await;
        let (after, asked) = match self.tables().plan_change(ino, &change)? {
            Ok(after) => after,
            Err(changed) => return Ok(changed),
        };
        match self.set_in_records(ino, &after, asked.as_ref()).await {
            Ok(SetLocksResult::Done) => {
                if self.tables().apply(ino, &change, after) {
                    return Ok(Changed::Done);
                }
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
                // Others wait for their turns as long as this one lasts, and are waited for.
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

    /// Writes what this session holds of a file, in its turn, while locks are in records. If that was
    /// in vain, or nobody knows, the record is looked after later.
    async fn set_in_records(
        &self,
        ino: Ino,
        own: &[RangeLock],
        asked: Option<&RangeLock>,
    ) -> Result<SetLocksResult, Errno> {
        self.tables().in_records.insert(ino);
        let set = async || match self.volume.set_locks(ino, own, asked).await {
            // What is written is all that is held, so it may be written again.
            Err(VolumeError::Unknown(why)) => {
                self.tables().doubt(ino);
                Err(VolumeError::Unavailable(why))
            }
            set => set,
        };
        let set = retry_until_deadline(self.io_timeout, set).await;
        let mut tables = self.tables();
        match &set {
            Ok(SetLocksResult::Done) if own.is_empty() && !tables.doubtful.contains_key(&ino) => {
                tables.in_records.remove(&ino);
            }
            Err(_) => tables.doubt(ino),
            Ok(_) => {}
        }
        let doubts = !tables.doubtful.is_empty();
        drop(tables);
        if doubts {
            self.repair_doubtful_soon();
        }
        set
    }

    /// What those take turns at who change a file's record.
    pub(super) fn record_lock(&self, ino: Ino) -> Arc<tokio::sync::Mutex<()>> {
        let mut tables = self.tables();
        tables.record_locks.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = tables.record_locks.get(&ino).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::<tokio::sync::Mutex<()>>::default();
        tables.record_locks.insert(ino, Arc::downgrade(&turn));
        turn
    }
}

/// A wait for a lock, and then the lock; both are given up when it is dropped.
#[derive(Debug)]
pub(crate) struct LockGrant<'a> {
    locks: &'a Locks,
    ino: Ino,
    asked: RangeLock,
    number: u64,
}

impl LockGrant<'_> {
    /// The lock is its owner's, who is about to be told.
    pub(crate) fn keep(self) {
        self.locks.tables().change(self.ino, |table| table.remove_granted(self.number));
    }
}

impl Drop for LockGrant<'_> {
    fn drop(&mut self) {
        let (ino, asked) = (self.ino, self.asked);
        let granted = self.locks.tables().change(ino, |table| table.give_up(self.number));
        if let (Some(before), Some(locks)) = (granted, self.locks.me.upgrade()) {
            let restore = Change::Restore(asked, before);
            self.locks.tasks.spawn(async move {
                // What cannot be written now is written later.
                let _restored = locks.change(ino, restore).await;
            });
        }
    }
}

//! Locks of programs on files, across sessions.
//!
//! A session that is the only one that uses locks keeps them in memory, as their *granter*. When
//! another session wants locks, the granter publishes its locks in the store, and from then on all
//! sessions use the store. For example, a second mount starts and a program on it calls `flock`:
//! the first mount publishes its locks before the call returns.

use std::sync::Arc;

use namespace::{
    BeginLocking, ConflictSearch, FindLock, FindLockRequests, LockUse, PublishLocks, SetLocks,
    SetLocksResult,
};
use record::{Ino, RangeLock};
use session::LockNotices;
use tokio_util::sync::CancellationToken;

use crate::{Volume, VolumeError};

/// Most locks that one plan publishes.
const LOCKS_PUBLISHED_MAX: usize = 4_096;

/// Most files whose locks one plan publishes.
const FILES_PUBLISHED_MAX: usize = 256;

impl Volume {
    /// Returns the registry of tasks that wait for changes of locks in the store.
    pub fn lock_notices(&self) -> &Arc<LockNotices> {
        self.session.lock_notices()
    }

    /// Returns a token that is cancelled when the volume closes.
    pub fn closing(&self) -> &CancellationToken {
        self.session.closing()
    }

    /// Returns true if this session has ended. Then its locks block no program any more.
    pub fn has_ended(&self) -> bool {
        self.session.has_ended()
    }

    /// Finds out where the locks of the volume are kept, for a session that wants to use some: in
    /// the memory of one session or in records. If no other session uses locks, this session keeps
    /// them in its memory from now on: see [`BeginLocking`].
    pub async fn begin_locking(&self) -> Result<LockUse, VolumeError> {
        let count = self.lock_notices().next_write();
        self.session.run(&BeginLocking { count }).await
    }

    /// Returns true if this session keeps the locks in memory and another session waits for it to
    /// publish them in the store.
    pub async fn has_lock_askers(&self) -> Result<bool, VolumeError> {
        self.session.run(&FindLockRequests).await
    }

    /// Publishes all locks that this session keeps in memory, so that the sessions share them in
    /// the store from then on. Returns false if this session was not the granter, which is the
    /// session that keeps the locks in memory. From the call until its answer no lock may be
    /// granted from memory. After an error none may be granted before [`Volume::begin_locking`] has
    /// said that they are still in memory.
    pub async fn publish_locks(
        &self,
        files: &[(Ino, Vec<RangeLock>)],
    ) -> Result<bool, VolumeError> {
        let mut rest = files;
        loop {
            let (now, later) = rest.split_at(fitting(rest));
            let count = self.lock_notices().next_write();
            // The last plan hands the granting over. Before it the other sessions still wait.
            let publish = PublishLocks { files: now, last: later.is_empty(), count };
            if !self.session.run(&publish).await? {
                return Ok(false);
            }
            if later.is_empty() {
                return Ok(true);
            }
            rest = later;
        }
    }

    /// Replaces all locks of this session on a file by `own`, in the record that it shares with
    /// other sessions. `asked` is the one among them that the session did not hold before; `None`
    /// if it only releases locks.
    pub async fn set_locks(
        &self,
        ino: Ino,
        own: &[RangeLock],
        asked: Option<&RangeLock>,
    ) -> Result<SetLocksResult, VolumeError> {
        let count = self.lock_notices().next_write();
        self.session.run(&SetLocks { ino, own, requested: asked, count }).await
    }

    /// Finds a lock of another session that conflicts with `asked`.
    pub async fn find_lock(
        &self,
        ino: Ino,
        asked: &RangeLock,
    ) -> Result<ConflictSearch, VolumeError> {
        self.session.run(&FindLock { ino, requested: asked }).await
    }
}

/// Returns how many of these files fit into one plan.
fn fitting(files: &[(Ino, Vec<RangeLock>)]) -> usize {
    let mut locks = 0;
    let fits = |(_, held): &&(Ino, Vec<RangeLock>)| {
        locks += held.len();
        locks <= LOCKS_PUBLISHED_MAX
    };
    files.iter().take(FILES_PUBLISHED_MAX).take_while(fits).count()
}

//! Locks of programs on files, shared by sessions.

use std::sync::Arc;

use namespace::{
    BeginLocking, ConflictSearch, FindLock, FindLockRequests, LockUse, PublishLocks, SetLocks,
    SetLocksResult,
};
use record::{Ino, RangeLock};
use session::LockNotices;
use tokio_util::sync::CancellationToken;

use crate::{Volume, VolumeError};

/// Locks that one plan publishes: as many as those of some files, which are short.
const LOCKS_PUBLISHED_MAX: usize = 4_096;

/// Files whose locks one plan publishes.
const FILES_PUBLISHED_MAX: usize = 256;

impl Volume {
    /// Who waits for locks to change.
    pub fn lock_notices(&self) -> &Arc<LockNotices> {
        self.session.lock_notices()
    }

    /// Cancelled when the volume closes.
    pub fn closing(&self) -> &CancellationToken {
        self.session.closing()
    }

    /// Whether this session has ended, so that nothing which it holds keeps anybody out any more.
    pub fn has_ended(&self) -> bool {
        self.session.has_ended()
    }

    /// Finds out where locks are kept, for a session that wants to use some; see [`BeginLocking`].
    pub async fn begin_locking(&self) -> Result<LockUse, VolumeError> {
        let count = self.lock_notices().next_write();
        self.session.run(&BeginLocking { count }).await
    }

    /// Whether another session waits for this one to publish the locks that it keeps in memory.
    pub async fn has_lock_askers(&self) -> Result<bool, VolumeError> {
        self.session.run(&FindLockRequests).await
    }

    /// Publishes all locks that this session keeps in memory. Answers whether it was their granter.
    /// Until it has answered nobody may take one from memory, nor after an error before
    /// [`Volume::begin_locking`] has said that they are there.
    pub async fn publish_locks(
        &self,
        files: &[(Ino, Vec<RangeLock>)],
    ) -> Result<bool, VolumeError> {
        let mut rest = files;
        loop {
            let (now, later) = rest.split_at(fitting(rest));
            let count = self.lock_notices().next_write();
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

    /// Sets all that this session holds of a file, in the record that it shares with others. `asked`
    /// is the lock among them that it has not held before.
    pub async fn set_locks(
        &self,
        ino: Ino,
        own: &[RangeLock],
        asked: Option<&RangeLock>,
    ) -> Result<SetLocksResult, VolumeError> {
        let count = self.lock_notices().next_write();
        self.session.run(&SetLocks { ino, own, asked, count }).await
    }

    /// The lock of another session that is in the way of one.
    pub async fn find_lock(
        &self,
        ino: Ino,
        asked: &RangeLock,
    ) -> Result<ConflictSearch, VolumeError> {
        self.session.run(&FindLock { ino, asked }).await
    }
}

/// How many of these files fit into one plan.
fn fitting(files: &[(Ino, Vec<RangeLock>)]) -> usize {
    let mut locks = 0;
    let fits = |(_, held): &&(Ino, Vec<RangeLock>)| {
        locks += held.len();
        locks <= LOCKS_PUBLISHED_MAX
    };
    files.iter().take(FILES_PUBLISHED_MAX).take_while(fits).count()
}

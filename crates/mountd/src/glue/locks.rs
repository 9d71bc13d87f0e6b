//! Locks of programs on files: fcntl(2) and flock(2). For example, `F_SETLKW` becomes
//! `Files::lock`, which waits for locks of programs on other mounts, too.

use files::{RangeLock, RangeLockKind, Reach};
use fuse::{Errno, FileLock, LockKind, LockRequest, Reply};
use tokio_util::sync::CancellationToken;

use super::{Answer, Call, errno};

impl Call {
    /// Replies to SETLKW: waits for the lock. Replies `EINTR` if a signal interrupts the program,
    /// and `EIO` if the mount ends.
    pub(super) async fn lock(&self, request: LockRequest, reply: Reply) {
        let Some(wanted) = range_lock(&request) else {
            return match self.unlock(&request).await {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(errno(error)),
            };
        };
        let interrupted = CancellationToken::new();
        let interrupt = interrupted.clone();
        reply.on_interrupt(move || interrupt.cancel());
        tokio::select! {
            biased;
            locked = self.lock_committed(wanted) => match locked {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(errno(error)),
            },
            () = interrupted.cancelled() => reply.error(Errno::EINTR),
            () = self.gone.cancelled() => reply.error(Errno::EIO),
        }
    }

    /// Takes a lock, after the file is committed.
    async fn lock_committed(&self, wanted: RangeLock) -> Result<(), rustix::io::Errno> {
        drop(self.files.enter(Reach::Node(self.node())).await);
        self.files.lock(self.node(), wanted).await
    }

    /// Takes a lock without waiting, or releases one. Fails with `EAGAIN` if another lock
    /// conflicts.
    pub(super) async fn try_lock(
        &self,
        request: &LockRequest,
    ) -> Result<Answer, rustix::io::Errno> {
        match range_lock(request) {
            Some(wanted) => self.files.try_lock(self.node(), wanted).await?,
            None => self.unlock(request).await?,
        }
        Ok(Answer::Ok)
    }

    /// Releases the locks that the request's owner has in the request's range of the file. Parts of
    /// locks outside the range remain.
    async fn unlock(&self, request: &LockRequest) -> Result<(), rustix::io::Errno> {
        let LockRequest { owner, flock, lock, .. } = *request;
        self.files.unlock(self.node(), owner.0, flock, lock.start..=lock.end).await
    }

    /// Returns a lock that conflicts with the requested one, or an unlocked range if none does.
    pub(super) async fn conflicting_lock(
        &self,
        request: &LockRequest,
    ) -> Result<Answer, rustix::io::Errno> {
        let free = FileLock { kind: LockKind::Unlocked, ..request.lock };
        let Some(wanted) = range_lock(request) else { return Ok(Answer::Lock(free)) };
        let held = self.files.conflicting_lock(self.node(), &wanted).await?;
        Ok(Answer::Lock(held.map_or(free, |held| {
            let kind = match held.kind {
                RangeLockKind::Shared => LockKind::Shared,
                RangeLockKind::Exclusive => LockKind::Exclusive,
            };
            FileLock { start: held.start, end: held.last, kind, pid: held.pid }
        })))
    }
}

/// Returns the requested lock, or `None` for a release.
fn range_lock(request: &LockRequest) -> Option<RangeLock> {
    let kind = match request.lock.kind {
        LockKind::Shared => RangeLockKind::Shared,
        LockKind::Exclusive => RangeLockKind::Exclusive,
        LockKind::Unlocked => return None,
    };
    Some(RangeLock {
        start: request.lock.start,
        last: request.lock.end,
        kind,
        owner: request.owner.0,
        pid: request.lock.pid,
        flock: request.flock,
    })
}

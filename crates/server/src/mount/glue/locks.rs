//! Locks of programs on files.

use files::{RangeLock, RangeLockKind};
use fuse::{Errno, FileLock, LockKind, LockRequest, Reply};
use tokio_util::sync::CancellationToken;

use super::{Answer, Call, errno};

impl Call {
    /// Waits for a lock, unless the program is killed or interrupted.
    pub(super) async fn lock(&self, question: LockRequest, reply: Reply) {
        let Some(asked) = range_lock(&question) else {
            return match self.unlock(&question).await {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(errno(error)),
            };
        };
        let interrupted = CancellationToken::new();
        let interrupt = interrupted.clone();
        reply.on_interrupt(move || interrupt.cancel());
        tokio::select! {
            biased;
            locked = self.files.lock(self.node(), asked) => match locked {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(errno(error)),
            },
            () = interrupted.cancelled() => reply.error(Errno::EINTR),
            () = self.gone.cancelled() => reply.error(Errno::EIO),
        }
    }

    /// Takes a lock that can be had at once, or lets go of one.
    pub(super) async fn try_lock(
        &self,
        question: &LockRequest,
    ) -> Result<Answer, rustix::io::Errno> {
        match range_lock(question) {
            Some(asked) => self.files.try_lock(self.node(), asked).await?,
            None => self.unlock(question).await?,
        }
        Ok(Answer::Ok)
    }

    /// Lets an owner go of a range.
    async fn unlock(&self, question: &LockRequest) -> Result<(), rustix::io::Errno> {
        let LockRequest { owner, flock, lock, .. } = *question;
        self.files.unlock(self.node(), owner.0, flock, lock.start..=lock.end).await
    }

    /// The lock that is in the way of another one, or that there is none.
    pub(super) async fn conflicting_lock(
        &self,
        question: &LockRequest,
    ) -> Result<Answer, rustix::io::Errno> {
        let free = FileLock { kind: LockKind::Unlocked, ..question.lock };
        let Some(asked) = range_lock(question) else { return Ok(Answer::Lock(free)) };
        let held = self.files.conflicting_lock(self.node(), &asked).await?;
        Ok(Answer::Lock(held.map_or(free, |held| {
            let kind = match held.kind {
                RangeLockKind::Shared => LockKind::Shared,
                RangeLockKind::Exclusive => LockKind::Exclusive,
            };
            FileLock { start: held.start, end: held.last, kind, pid: held.pid }
        })))
    }
}

/// The lock that is asked for; none if one is let go of.
fn range_lock(question: &LockRequest) -> Option<RangeLock> {
    let kind = match question.lock.kind {
        LockKind::Shared => RangeLockKind::Shared,
        LockKind::Exclusive => RangeLockKind::Exclusive,
        LockKind::Unlocked => return None,
    };
    Some(RangeLock {
        start: question.lock.start,
        last: question.lock.end,
        kind,
        owner: question.owner.0,
        pid: question.lock.pid,
        flock: question.flock,
    })
}

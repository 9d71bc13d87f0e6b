//! Shared writable maps of files, beside other sessions of the volume.
//!
//! The kernel does not ask before a program changes a page of a shared map, and it writes the page
//! back as a whole. If two mounts mapped one file, each would overwrite what the other has written,
//! whatever locks their programs take. For example, two SQLite connections in WAL mode on two mounts
//! would lose commits that both had acknowledged. So one session at a time has maps of a file.
//!
//! A session claims a file before it lets a program map it, and lets go of it with the last handle
//! that may be mapped. The claim is a lock on a byte that no program can lock. So it is as certain as
//! every other lock: it costs no round trip while no other session wants locks, it is published before
//! another session gets locks, and it ends with its session.

use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use record::{RangeLock, RangeLockKind};
use tracing::debug;
use volume::Note;

use crate::files::Files;
use crate::open::{Handle, HandleId};

/// How long an open waits until it is known whether another session has claimed the file. An open
/// must not wait for long for a mount that does not answer.
const CLAIM_PATIENCE: Duration = Duration::from_secs(3);

/// The byte that stands for the maps of a file. Programs lock bytes below `1 << 63`.
const CLAIMED_BYTE: u64 = u64::MAX;

/// The claim of a session. Other sessions know it by the session, so all have one owner.
const CLAIM: RangeLock = RangeLock {
    start: CLAIMED_BYTE,
    last: CLAIMED_BYTE,
    kind: RangeLockKind::Exclusive,
    owner: u64::MAX,
    pid: 0,
    flock: false,
};

impl Files {
    /// Claims the maps of a file that was opened for reading and writing. Returns true if the handle
    /// may be mapped shared and writable. Returns false if another session has claimed the file, or if
    /// that is not known in time: then reads through the handle look for what others have written.
    pub async fn claim_map(&self, handle: HandleId) -> bool {
        let may_map = self.claim_in_time(handle).await;
        if !may_map && let Ok(handle) = self.open.handle(handle) {
            handle.uncached.store(true, Ordering::Relaxed);
        }
        may_map
    }

    async fn claim_in_time(&self, handle: HandleId) -> bool {
        let files = self.for_request(0, Note::none());
        let mut claim = Box::pin(async move { files.claim(handle).await });
        // A claim in memory is ready at once.
        if let Poll::Ready(claimed) = futures::poll!(&mut claim) {
            return claimed;
        }
        // The claim goes on if this wait ends: a lock that is being written cannot be taken back.
        let claim = self.tasks.spawn(claim);
        matches!(tokio::time::timeout(CLAIM_PATIENCE, claim).await, Ok(Ok(true)))
    }

    async fn claim(&self, id: HandleId) -> bool {
        let Ok(handle) = self.open.handle(id) else { return false };
        let mut mapped_by = handle.file.mapped_by.lock().await;
        // The program may have closed the file meanwhile.
        if self.open.handle(id).is_err() {
            return false;
        }
        if handle.may_map.load(Ordering::Relaxed) {
            return true;
        }
        let ino = handle.file.ino;
        if *mapped_by == 0
            && let Err(error) = self.locks.try_lock(ino, CLAIM).await
        {
            debug!(ino = ino.0, %error, "a file cannot be mapped here");
            return false;
        }
        *mapped_by += 1;
        handle.may_map.store(true, Ordering::Relaxed);
        true
    }

    /// Lets go of the claim if this was the last handle of its file that may be mapped.
    pub(crate) async fn end_claim(&self, handle: &Handle) {
        let mut mapped_by = handle.file.mapped_by.lock().await;
        if !handle.may_map.swap(false, Ordering::Relaxed) {
            return;
        }
        *mapped_by -= 1;
        if *mapped_by == 0 {
            let ino = handle.file.ino;
            let unlocked =
                self.locks.unlock(ino, CLAIM.owner, CLAIM.flock, CLAIM.start, CLAIM.last).await;
            if let Err(error) = unlocked {
                debug!(ino = ino.0, %error, "a claim of maps is let go of later");
            }
        }
    }

    /// Takes over the claims of the process before this one. Its handles of a claimed file may be
    /// mapped; a claim of a file that has no handles any more ends.
    pub(crate) async fn take_over_claims(&self) {
        let claims = |held: &[RangeLock]| held.iter().any(|lock| lock.start == CLAIM.start);
        let claimed = self.locks.export().into_iter().filter(|(_, held)| claims(held));
        for (ino, _) in claimed {
            let handles = self.open.handles().into_iter().filter(|it| it.file.ino == ino);
            let mut has_handles = false;
            for handle in handles {
                *handle.file.mapped_by.lock().await += 1;
                handle.may_map.store(true, Ordering::Relaxed);
                has_handles = true;
            }
            if !has_handles {
                let files = self.for_request(0, Note::none());
                self.spawn(async move {
                    let (owner, flock) = (CLAIM.owner, CLAIM.flock);
                    let _later =
                        files.locks.unlock(ino, owner, flock, CLAIM.start, CLAIM.last).await;
                });
            }
        }
    }
}

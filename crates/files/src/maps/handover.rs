//! Hand-over of a claim from one session to another. A claim is the right of one session to have
//! pages of a mapped file in the kernel's cache.
//!
//! The session that wants the claim takes a shared lock on the byte beside it, and waits for the
//! claim as for any lock. The holder is notified that the locks of the file changed, and hands
//! over:
//!
//! 1. It keeps the claim for its own programs for [`HELD_MIN`], so that they make progress.
//! 2. The kernel takes the pages from all maps, writes back the dirty ones, and drops them. A page
//!    that a program needs meanwhile is provided again, and then this step is repeated.
//! 3. All files of this mount are flushed, not only this one. For example, SQLite writes to its log
//!    file, and the map says where the log ends.
//! 4. The claim is released. The next holder first reads the file's record.

use std::sync::Arc;
use std::time::Duration;

use record::{Ino, RangeLock, RangeLockKind};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;
use tracing::debug;
use volume::Note;

use super::{CLAIM, CLAIMED_BYTE, JOINED, PAGES_TIMEOUT, RETRY_PAUSE, WANTED, WANTED_BYTE};
use crate::files::Files;
use crate::locks::LockGrant;
use crate::map_claim::Claim;
use crate::open::{Handle, OpenFile};

/// The minimum time that a session keeps a claim (its right to have pages of a mapped file) which
/// others want. With less, its programs would make no progress.
const HELD_MIN: Duration = Duration::from_millis(100);

/// The number of times that the kernel is asked to drop its pages of a file, if programs access
/// them again each time. After that, the hand-over fails and is retried after [`RETRY_PAUSE`].
const ATTEMPTS_MAX: usize = 16;

impl Files {
    /// Hands over claims (rights to have pages of mapped files in the kernel's cache) that other
    /// sessions want, until `end` is cancelled. One task runs this for the life of a mount.
    pub async fn hand_over_until(self: Arc<Self>, end: CancellationToken) {
        self.drain_until(&end);
        loop {
            let wanted = tokio::select! {
                biased;
                () = end.cancelled() => return,
                wanted = self.volume.lock_notices().wanted_claims() => wanted,
            };
            for ino in wanted {
                if let Some(file) = self.open.get(ino) {
                    let files = self.for_request(0, Note::none());
                    self.tasks.spawn(async move { files.hand_over(&file).await });
                }
            }
        }
    }

    /// Waits for the claim on the file of a handle, and takes it: the right of this session to have
    /// pages of the file in the kernel's cache. The handle counts as one that may be mapped from
    /// then on. The attempt continues if the caller stops waiting. Fails with `EIO` if another
    /// session does not hand it over in time.
    pub(super) async fn take_claim(&self, handle: &Arc<Handle>) -> Result<(), Errno> {
        let (files, handle) = (self.for_request(0, Note::none()), Arc::clone(handle));
        let taking = self.tasks.spawn(async move {
            let taken = files.take_claim_serialised(&handle).await;
            if let Err(error) = taken {
                debug!(ino = handle.file.ino.0, %error, "cannot get the claim on a file's maps");
            }
            taken
        });
        taking.await.unwrap_or(Err(Errno::IO))
    }

    /// Takes the claim as `Files::take_claim`, while no other operation changes the claim of the
    /// file.
    async fn take_claim_serialised(&self, handle: &Arc<Handle>) -> Result<(), Errno> {
        let (file, ino) = (&handle.file, handle.file.ino);
        self.wait_until_drained(file).await?;
        let _operation = file.maps.operation_lock.lock().await;
        if file.maps.is_held() {
            file.maps.join(&handle.may_map);
            return Ok(());
        }
        // Leave a mark for the next worker before waiting: its pages must wait for the claim too.
        self.locks.try_lock(ino, JOINED).await?;
        file.maps.join(&handle.may_map);
        match self.locks.try_lock(ino, CLAIM).await {
            Err(Errno::AGAIN) => {
                // The holder watches for this lock; without it, waiting for the claim would never
                // end.
                self.locks.try_lock(ino, WANTED).await?;
                let waiting = self.locks.lock(ino, CLAIM);
                let granted = tokio::time::timeout(PAGES_TIMEOUT, waiting).await;
                let granted = granted.unwrap_or(Err(Errno::IO)).map(LockGrant::keep);
                self.release_session_locks(ino, WANTED_BYTE..=WANTED_BYTE).await;
                granted?;
            }
            taken => taken?,
        }
        // Flush data written before the file was mapped here, and read what other sessions
        // committed.
        self.flush_file(file).await?;
        self.refresh_open(file).await?;
        self.claim_acquired(handle).await;
        Ok(())
    }

    /// Hands over the claim of a file (the right to have pages of it in the kernel's cache) if
    /// another session wants it. If the kernel does not drop its pages or the flush fails, the
    /// claim stays, and the hand-over is retried after a pause.
    async fn hand_over(&self, file: &Arc<OpenFile>) {
        // The operation that runs now checks for other sessions when it ends.
        let Ok(_operation) = file.maps.operation_lock.try_lock() else { return };
        let ino = file.ino;
        if !file.maps.is_held() || !self.is_wanted(ino).await {
            return;
        }
        // Without a minimum time, two busy sessions would pass the claim back and forth without
        // progress.
        if let Some(since) = file.maps.since() {
            tokio::time::sleep_until(since + HELD_MIN).await;
        }
        // The pages first, then the dirty data that they have become, then the lock.
        let is_free = self.take_pages_back(file).await
            && self.flush_all_and_check(file).await
            && self.locks.try_lock(ino, JOINED).await.is_ok();
        if is_free {
            self.volume.lock_notices().unclaim(ino);
            self.release_session_locks(ino, CLAIMED_BYTE..=CLAIMED_BYTE).await;
        } else {
            debug!(
                ino = ino.0,
                "cannot hand over the claim on a file's maps now; it will be retried"
            );
            // The claim stays. Try again after a pause, since no other event repeats the request.
            file.maps.set(Claim::Held);
            let files = self.for_request(0, Note::none());
            self.spawn(async move {
                tokio::time::sleep(RETRY_PAUSE).await;
                files.volume.lock_notices().claim_may_be_wanted(ino);
            });
        }
    }

    /// Returns true if another session waits for the claim on the file, the right to have pages of
    /// it in the kernel's cache.
    async fn is_wanted(&self, ino: Ino) -> bool {
        if !self.locks.is_shared().await {
            return false;
        }
        let requested = RangeLock { kind: RangeLockKind::Exclusive, ..WANTED };
        matches!(self.locks.conflicting(ino, &requested).await, Ok(Some(_)))
    }

    /// Has the kernel write back and drop all pages of a file. Returns false if the kernel does not
    /// answer, or if programs access pages again each time.
    async fn take_pages_back(&self, file: &OpenFile) -> bool {
        for _ in 0..ATTEMPTS_MAX {
            let accesses = file.maps.begin_ending();
            if !self.invalidate_cache(file.ino).await {
                return false;
            }
            // An access during the invalidation can have brought a page back.
            if file.maps.end(accesses) {
                return true;
            }
        }
        false
    }

    /// Flushes all files, that is, commits their dirty data. Returns false if the flush of `file`
    /// failed.
    async fn flush_all_and_check(&self, file: &Arc<OpenFile>) -> bool {
        // Descriptors of other files return the errors of their own flushes.
        let _reported = self.flush_all().await;
        self.flush_file(file).await.is_ok()
    }
}

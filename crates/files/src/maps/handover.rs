//! How the claim of a file's maps moves from session to session.
//!
//! The session that wants the claim sets a lock beside it and waits for the claim as for any lock. The
//! session that holds the claim hears of the change of the file's locks, and hands over:
//!
//! 1. It leaves the claim to its own programs for [`HELD_AT_LEAST`], so that they finish something.
//! 2. The kernel takes the pages from all maps, writes those that were changed, and drops them. A page
//!    that a program needs meanwhile is given once more, and then everything is repeated.
//! 3. What programs of this mount have written to any file becomes content. For example, SQLite writes
//!    to its log and says in the map where the log ends.
//! 4. It lets go of the claim. The next holder reads the file's record first.

use std::sync::Arc;
use std::time::Duration;

use record::{Ino, RangeLock, RangeLockKind};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;
use tracing::debug;
use volume::Note;

use super::{AGAIN_AFTER, CLAIM, CLAIMED_BYTE, JOINED, PAGES_TIMEOUT, WANTED, WANTED_BYTE};
use crate::files::Files;
use crate::locks::LockGrant;
use crate::map_claim::Claim;
use crate::open::{Handle, OpenFile};

/// How long a session keeps a claim that others want: less, and no program would get anything done.
const HELD_AT_LEAST: Duration = Duration::from_millis(100);

/// How often the pages of a file are taken back before its programs go on with them for a while.
const ROUNDS: usize = 16;

impl Files {
    /// Hands over what other sessions want, until `end`.
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

    /// Gets the claim for a handle that may be mapped from then on. It goes on if the wait for it ends.
    pub(super) async fn take_claim(&self, handle: &Arc<Handle>) -> Result<(), Errno> {
        let (files, handle) = (self.for_request(0, Note::none()), Arc::clone(handle));
        let taking = self.tasks.spawn(async move {
            let taken = files.take_claim_in_turn(&handle).await;
            if let Err(error) = taken {
                debug!(ino = handle.file.ino.0, %error, "the maps of a file are not to be had");
            }
            taken
        });
        taking.await.unwrap_or(Err(Errno::IO))
    }

    async fn take_claim_in_turn(&self, handle: &Arc<Handle>) -> Result<(), Errno> {
        let (file, ino) = (&handle.file, handle.file.ino);
        self.wait_until_drained(file).await?;
        let _turn = file.maps.operation_lock.lock().await;
        if file.maps.is_held() {
            file.maps.join(&handle.may_map);
            return Ok(());
        }
        self.locks.try_lock(ino, JOINED).await?;
        file.maps.join(&handle.may_map);
        match self.locks.try_lock(ino, CLAIM).await {
            Err(Errno::AGAIN) => {
                self.locks.try_lock(ino, WANTED).await?;
                let waiting = self.locks.lock(ino, CLAIM);
                let granted = tokio::time::timeout(PAGES_TIMEOUT, waiting).await;
                let granted = granted.unwrap_or(Err(Errno::IO)).map(LockGrant::keep);
                self.release_session_locks(ino, WANTED_BYTE..=WANTED_BYTE).await;
                granted?;
            }
            taken => taken?,
        }
        // Bytes that were written before the file was mapped here.
        self.flush_file(file).await?;
        self.refresh_open(file).await?;
        self.claim_acquired(handle).await;
        Ok(())
    }

    /// Lets go of the claim of a file if another session wants it.
    async fn hand_over(&self, file: &Arc<OpenFile>) {
        // The task that has the turn looks for sessions that want the claim when it ends.
        let Ok(_turn) = file.maps.operation_lock.try_lock() else { return };
        let ino = file.ino;
        if !file.maps.is_held() || !self.is_wanted(ino).await {
            return;
        }
        if let Some(since) = file.maps.since() {
            tokio::time::sleep_until(since + HELD_AT_LEAST).await;
        }
        let has_ended = self.take_pages_back(file).await
            && self.flush_all_but_failing(file).await
            && self.locks.try_lock(ino, JOINED).await.is_ok();
        if has_ended {
            self.volume.lock_notices().unclaim(ino);
            self.release_session_locks(ino, CLAIMED_BYTE..=CLAIMED_BYTE).await;
        } else {
            debug!(ino = ino.0, "the maps of a file cannot be handed over now");
            file.maps.set(Claim::Held);
            let files = self.for_request(0, Note::none());
            self.spawn(async move {
                tokio::time::sleep(AGAIN_AFTER).await;
                files.volume.lock_notices().claim_may_be_wanted(ino);
            });
        }
    }

    /// Returns true if another session waits for the claim.
    async fn is_wanted(&self, ino: Ino) -> bool {
        if !self.locks.is_shared().await {
            return false;
        }
        let asked = RangeLock { kind: RangeLockKind::Exclusive, ..WANTED };
        matches!(self.locks.conflicting(ino, &asked).await, Ok(Some(_)))
    }

    /// Takes all pages of a file back from the kernel, which first writes the changed ones.
    /// Returns false if the kernel does not answer, or programs need pages again and again.
    async fn take_pages_back(&self, file: &OpenFile) -> bool {
        for _ in 0..ROUNDS {
            let accesses = file.maps.begin_ending();
            if !self.invalidate_cache(file.ino).await {
                return false;
            }
            if file.maps.end(accesses) {
                return true;
            }
        }
        false
    }

    /// Makes everything that was written content. Returns false if that failed for this file.
    async fn flush_all_but_failing(&self, file: &Arc<OpenFile>) -> bool {
        // The descriptors of other files get the errors of their own flushes.
        let _reported = self.flush_all().await;
        self.flush_file(file).await.is_ok()
    }
}

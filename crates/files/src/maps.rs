//! Shared memory maps of files that several mounts may map.
//!
//! The kernel does not ask before a program changes a page of a shared map, and it writes back
//! whole pages. If two mounts mapped one file, each would overwrite the changes of the other,
//! even if their programs take locks. For example, two SQLite connections in WAL mode on two
//! mounts would lose commits that both had acknowledged.
//!
//! So only one session at a time may have cached pages of a file: the holder of the *claim*. The
//! claim is a lock on a byte that no program can lock. It takes no round trip while no other
//! session uses locks, it is published before another session gets locks, and it ends with its
//! session.
//!
//! - A session claims a file when a program opens it for reading and writing. If another session
//!   has the claim, reads and writes of the program bypass the kernel's page cache.
//! - If the kernel needs a page of a map for such a program, the session requests the claim with a
//!   lock on a second byte, and the page waits. See [`handover`].
//! - The holder then has the kernel write back and drop its pages, flushes them, and releases the
//!   claim. While it has no claim, its own pages wait.
//!
//! ```text
//!   Absent ──take_claim──▶ Held ──hand_over──▶ Ending ──pages dropped──▶ Absent
//!                           ▲                    │
//!                           └── a page was accessed, or the kernel or a store did not answer
//! ```

mod handover;
mod lost_session;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use record::{Ino, RangeLock, RangeLockKind};
use rustix::io::Errno;
use tracing::{debug, warn};
use volume::{Note, SESSION_SILENCE};

use crate::files::Files;
use crate::map_claim::{Claim, PageAccess};
use crate::open::{Handle, HandleId};

/// The time for which an open waits to learn whether another session has the claim on the file,
/// that is, the right to have pages of it in the kernel's cache. An open must not wait long for a
/// mount that does not answer.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(3);

/// The time for which a page request waits until this session has the claim on the file. It is
/// longer than the claim of a killed session lasts.
const PAGES_TIMEOUT: Duration = Duration::from_secs(90);

// An open gives up early; a page request waits until the session of a killed mount is fenced, and
// once more as long for the answer of the next holder.
const _: () = assert!(CLAIM_TIMEOUT.as_millis() < PAGES_TIMEOUT.as_millis());
const _: () = assert!(2 * SESSION_SILENCE.as_millis() < PAGES_TIMEOUT.as_millis());

/// The pause before the kernel is asked again for pages that it did not give back.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// The bytes of a file on which sessions take locks to agree about its maps: the claim, the request
/// for the claim, and the mark of a session that takes part. Programs can lock bytes below `1 <<
/// 63` only.
const CLAIMED_BYTE: u64 = u64::MAX;
const WANTED_BYTE: u64 = u64::MAX - 1;
const JOINED_BYTE: u64 = u64::MAX - 2;

/// Returns a lock on one byte that belongs to a session and not to a program. Other sessions
/// identify it by the session, so its owner is a constant.
const fn lock_of_session(byte: u64, kind: RangeLockKind) -> RangeLock {
    RangeLock { start: byte, last: byte, kind, owner: u64::MAX, pid: 0, flock: false }
}

/// The lock that is the claim: its session has the right to have pages of the file in the kernel's
/// cache.
const CLAIM: RangeLock = lock_of_session(CLAIMED_BYTE, RangeLockKind::Exclusive);
/// The lock by which a session shows that it waits for the claim (the right to have pages of the
/// file).
const WANTED: RangeLock = lock_of_session(WANTED_BYTE, RangeLockKind::Shared);
/// The lock by which a session marks a file whose claim passes between it and others. No lock
/// conflicts with it: it records for the next worker which files take part in hand-overs.
const JOINED: RangeLock = lock_of_session(JOINED_BYTE, RangeLockKind::Shared);

impl Files {
    /// Takes the claim on a file that was opened for reading and writing, that is, this session's
    /// right to have pages of it in the kernel's cache. Returns true if the kernel may cache its
    /// pages for this handle. Returns false if another session has the claim, or if that is not
    /// known within 3 seconds; then reads through the handle look for changes of other sessions.
    pub async fn claim_map(&self, handle: HandleId) -> bool {
        let may_map = self.claim_in_time(handle).await;
        if !may_map && let Ok(handle) = self.open.handle(handle) {
            handle.uncached.store(true, Ordering::Relaxed);
        }
        may_map
    }

    /// Returns true if another session has the claim (the right to have pages in the kernel's
    /// cache) on a file that was opened in another way than for reading and writing. Then reads
    /// through the handle look for changes of other sessions. A session that has not used locks
    /// does not ask: asking would make locks slower for all others.
    pub async fn is_claimed_elsewhere(&self, handle: HandleId) -> bool {
        if !self.locks.is_in_records().await {
            return false;
        }
        let Ok(handle) = self.open.handle(handle) else { return false };
        if handle.file.maps.is_held() {
            return false;
        }
        if handle.file.maps.is_draining() {
            handle.uncached.store(true, Ordering::Relaxed);
            return true;
        }
        let requested = self.locks.conflicting(handle.file.ino, &CLAIM);
        let requested = tokio::time::timeout(CLAIM_TIMEOUT, requested).await;
        let is_claimed = !matches!(requested, Ok(Ok(None)));
        if is_claimed {
            handle.uncached.store(true, Ordering::Relaxed);
        }
        is_claimed
    }

    /// Takes the claim on the file of a handle, as `Files::claim_map`. Returns false if another
    /// session has it or if that takes longer than `CLAIM_TIMEOUT`.
    async fn claim_in_time(&self, handle: HandleId) -> bool {
        let files = self.for_request(0, Note::none());
        let mut claim = Box::pin(async move { files.claim(handle).await });
        // A claim in memory is complete at the first poll.
        if let Poll::Ready(claimed) = futures::poll!(&mut claim) {
            return claimed;
        }
        // The claim continues if this wait ends: a commit that has begun cannot be cancelled.
        let claim = self.tasks.spawn(claim);
        matches!(tokio::time::timeout(CLAIM_TIMEOUT, claim).await, Ok(Ok(true)))
    }

    /// Takes the claim on the file of a handle, if no other session has it, and counts the handle
    /// as one that may be mapped. Returns false if the claim was not taken.
    async fn claim(&self, id: HandleId) -> bool {
        let Ok(handle) = self.open.handle(id) else { return false };
        let (ino, maps) = (handle.file.ino, &handle.file.maps);
        // The kernel still has old pages: a claim now would make them valid.
        if maps.is_draining() {
            return false;
        }
        let _operation = maps.operation_lock.lock().await;
        // The program may have closed the file in the meantime.
        if self.open.handle(id).is_err() {
            return false;
        }
        if !maps.is_held() {
            if let Err(error) = self.locks.try_lock(ino, CLAIM).await {
                debug!(ino = ino.0, %error, "another session holds the claim on a file's maps");
                return false;
            }
            self.claim_acquired(&handle).await;
        }
        maps.join(&handle.may_map);
        true
    }

    /// Notes that this session has got the claim on a file (the right to have pages of it in the
    /// kernel's cache), and listens for sessions that want it.
    async fn claim_acquired(&self, handle: &Handle) {
        let ino = handle.file.ino;
        handle.file.maps.set(Claim::Held);
        let version = handle.file.state.lock().await.data_version();
        version.into_iter().for_each(|version| self.locks.note_version(ino, version));
        self.volume.lock_notices().claim(ino);
        // Another session may have asked before this one had the claim.
        if self.locks.is_shared().await {
            self.volume.lock_notices().claim_may_be_wanted(ino);
        }
    }

    /// Ends the use of a file's claim by a handle that is closed. If no other handle of the file
    /// may be mapped, releases the claim, that is, this session's right to have pages of the file
    /// in the kernel's cache, so that other sessions can take it.
    pub(crate) async fn end_claim(&self, handle: &Handle) {
        let (ino, maps) = (handle.file.ino, &handle.file.maps);
        // A claim that is being taken for this handle completes first.
        let _operation = maps.operation_lock.lock().await;
        if maps.leave(&handle.may_map) {
            maps.set(Claim::Absent);
            self.volume.lock_notices().unclaim(ino);
            self.release_session_locks(ino, JOINED_BYTE..=CLAIMED_BYTE).await;
        }
    }

    /// Has the kernel write back the changed pages of all files that programs map shared. Call this
    /// before an unmount, which discards them.
    pub async fn write_back_maps(&self) {
        let files = self.open.all();
        let mapped = files.iter().filter(|file| file.maps.is_joined());
        let written = mapped.map(|file| self.invalidate_cache(file.ino));
        if futures::future::join_all(written).await.contains(&false) {
            warn!("the kernel did not write back all pages of shared maps");
        }
    }

    /// Releases this session's own locks on some of the bytes by which sessions agree about the
    /// maps of a file. If this fails, it is retried in the background.
    async fn release_session_locks(&self, ino: Ino, bytes: std::ops::RangeInclusive<u64>) {
        let (owner, flock) = (CLAIM.owner, CLAIM.flock);
        let unlocked = self.locks.unlock(ino, owner, flock, *bytes.start(), *bytes.end()).await;
        if let Err(error) = unlocked {
            debug!(ino = ino.0, %error, "cannot release a claim on maps now; it will be retried");
        }
    }

    /// Takes over the claims of the previous worker (process of the mount), that is, the session's
    /// rights to have pages of files in the kernel's cache. The handles of a claimed file count as
    /// mapped. A claim on a file without handles is released. If there were claims or locks at all,
    /// handles of other files may have been refused a claim, so requests for their pages wait for
    /// one.
    pub(crate) async fn take_over_claims(&self) {
        let exported = self.locks.export();
        let has = |held: &[RangeLock], byte: u64| held.iter().any(|lock| lock.start == byte);
        for handle in self.open.handles() {
            let (ino, maps) = (handle.file.ino, &handle.file.maps);
            let held = exported.iter().find(|(of, _)| *of == ino).map_or(&[][..], |(_, held)| held);
            // The previous worker held the claim, and the session continues: so does the claim.
            if has(held, CLAIMED_BYTE) {
                maps.join(&handle.may_map);
                self.claim_acquired(&handle).await;
            } else if has(held, JOINED_BYTE) {
                maps.join(&handle.may_map);
            }
            // Its open may have been refused the claim, and the kernel cannot be asked: assume so.
            if !has(held, CLAIMED_BYTE) && !exported.is_empty() {
                handle.uncached.store(true, Ordering::Relaxed);
            }
        }
        for (ino, held) in exported {
            let is_of_maps = held.iter().any(|lock| lock.start >= JOINED_BYTE);
            if is_of_maps && self.open.get(ino).is_none() {
                let files = self.for_request(0, Note::none());
                self.spawn(async move {
                    files.release_session_locks(ino, JOINED_BYTE..=CLAIMED_BYTE).await;
                });
            }
        }
    }

    /// Waits until this session may have pages of an open file in the kernel's cache, and counts
    /// one read or write as a use of them. Keep the returned access until the kernel is answered.
    /// `fills` is true if the kernel reads pages for its cache. If several sessions map the file,
    /// this waits until no other session has pages of it.
    ///
    /// # Errors
    /// `EIO` if another session does not hand over its pages in time.
    pub async fn access_pages(&self, handle: HandleId, fills: bool) -> Result<PageAccess, Errno> {
        // The operation itself fails if the handle does not exist.
        let Ok(handle) = self.open.handle(handle) else { return Ok(PageAccess::unlimited()) };
        self.access(&handle, fills).await
    }

    /// Waits until this session may have pages of an open file in the kernel's cache, as
    /// `Files::access_pages` does, for a handle that was found already.
    pub(crate) async fn access(
        &self,
        handle: &Arc<Handle>,
        fills: bool,
    ) -> Result<PageAccess, Errno> {
        let (maps, began) = (&handle.file.maps, tokio::time::Instant::now());
        let needs = || {
            let joins = fills && handle.uncached.load(Ordering::Relaxed);
            joins && !handle.may_map.load(Ordering::Relaxed)
        };
        loop {
            if !needs()
                && let Some(access) = maps.access()
            {
                return Ok(access);
            }
            if began.elapsed() >= PAGES_TIMEOUT {
                return Err(Errno::IO);
            }
            self.take_claim(handle).await?;
        }
    }
}

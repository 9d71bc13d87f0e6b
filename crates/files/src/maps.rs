//! Shared maps of files, beside other sessions of the volume.
//!
//! The kernel does not ask before a program changes a page of a shared map, and it writes the page
//! back as a whole. If two mounts mapped one file, each would overwrite what the other has written,
//! whatever locks their programs take. For example, two SQLite connections in WAL mode on two mounts
//! would lose commits that both had acknowledged.
//!
//! So one session at a time has the pages of a file: it holds the *claim*. The claim is a lock on a
//! byte that no program can lock. It costs no round trip while no other session wants locks, it is
//! published before another session gets locks, and it ends with its session.
//!
//! - A session claims a file when a program opens it for reading and writing. If another session has
//!   the claim, reads and writes of the program pass by the kernel's page cache.
//! - If the kernel needs a page of a map for such a program, the session asks for the claim, with a
//!   lock on a second byte, and the page waits. See [`handover`].
//! - A session that is asked takes its pages back from the kernel, which writes the changed ones,
//!   makes them content, and lets go of the claim. While it has no claim, its own pages wait.
//!
//! ```text
//!   Absent ──take_claim──▶ Held ──hand_over──▶ Ending ──pages gone──▶ Absent
//!                           ▲                    │
//!                           └── a page came, or the kernel or a store did not answer
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
use volume::Note;

use crate::files::Files;
use crate::map_claim::{Claim, PageAccess};
use crate::open::{Handle, HandleId};

/// How long an open waits until it is known whether another session has claimed the file. An open
/// must not wait for long for a mount that does not answer.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(3);

/// How long a page waits for the claim. Longer than a session that was killed keeps it.
const PAGES_TIMEOUT: Duration = Duration::from_secs(90);

/// The pause before the kernel is asked once more for pages that it did not give back.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// The bytes that stand for the maps of a file. Programs lock bytes below `1 << 63`.
const CLAIMED_BYTE: u64 = u64::MAX;
const WANTED_BYTE: u64 = u64::MAX - 1;
const JOINED_BYTE: u64 = u64::MAX - 2;

/// A lock that stands for a session. Other sessions know it by the session, so all have one owner.
const fn lock_of_session(byte: u64, kind: RangeLockKind) -> RangeLock {
    RangeLock { start: byte, last: byte, kind, owner: u64::MAX, pid: 0, flock: false }
}

/// The claim of a session.
const CLAIM: RangeLock = lock_of_session(CLAIMED_BYTE, RangeLockKind::Exclusive);
/// A session waits for the claim.
const WANTED: RangeLock = lock_of_session(WANTED_BYTE, RangeLockKind::Shared);
/// A session takes turns at the claim with others. Nothing waits for this lock: it tells the process
/// that follows which files take turns.
const JOINED: RangeLock = lock_of_session(JOINED_BYTE, RangeLockKind::Shared);

impl Files {
    /// Claims the maps of a file that was opened for reading and writing. Returns true if the kernel
    /// may keep pages of it for the handle. Returns false if another session has claimed the file, or
    /// if that is not known in time: then reads through the handle look for what others have written.
    pub async fn claim_map(&self, handle: HandleId) -> bool {
        let may_map = self.claim_in_time(handle).await;
        if !may_map && let Ok(handle) = self.open.handle(handle) {
            handle.uncached.store(true, Ordering::Relaxed);
        }
        may_map
    }

    /// Returns true if another session has the maps of a file that was not opened for reading and
    /// writing. Then reads through the handle look for what the others have written. A session that has
    /// not used locks does not ask: that would make locks dearer for all others.
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
        let asked = self.locks.conflicting(handle.file.ino, &CLAIM);
        let asked = tokio::time::timeout(CLAIM_TIMEOUT, asked).await;
        let is_claimed = !matches!(asked, Ok(Ok(None)));
        if is_claimed {
            handle.uncached.store(true, Ordering::Relaxed);
        }
        is_claimed
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
        matches!(tokio::time::timeout(CLAIM_TIMEOUT, claim).await, Ok(Ok(true)))
    }

    async fn claim(&self, id: HandleId) -> bool {
        let Ok(handle) = self.open.handle(id) else { return false };
        let (ino, maps) = (handle.file.ino, &handle.file.maps);
        if maps.is_draining() {
            return false;
        }
        let _turn = maps.operation_lock.lock().await;
        // The program may have closed the file meanwhile.
        if self.open.handle(id).is_err() {
            return false;
        }
        if !maps.is_held() {
            if let Err(error) = self.locks.try_lock(ino, CLAIM).await {
                debug!(ino = ino.0, %error, "another session has the maps of a file");
                return false;
            }
            self.claim_acquired(&handle).await;
        }
        maps.join(&handle.may_map);
        true
    }

    /// The session has the claim of a file from now on.
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

    /// Lets go of the claim if this was the last handle of its file that may be mapped.
    pub(crate) async fn end_claim(&self, handle: &Handle) {
        let (ino, maps) = (handle.file.ino, &handle.file.maps);
        // A claim that is under way for this handle ends first.
        let _turn = maps.operation_lock.lock().await;
        if maps.leave(&handle.may_map) {
            maps.set(Claim::Absent);
            self.volume.lock_notices().unclaim(ino);
            self.release_session_locks(ino, JOINED_BYTE..=CLAIMED_BYTE).await;
        }
    }

    /// Has the kernel write back the pages that programs have changed in maps. Comes before the end of a
    /// mount, which takes the pages away.
    pub async fn write_back_maps(&self) {
        let files = self.open.all();
        let mapped = files.iter().filter(|file| file.maps.is_joined());
        let written = mapped.map(|file| self.invalidate_cache(file.ino));
        if futures::future::join_all(written).await.contains(&false) {
            warn!("the kernel has not written back all pages of maps");
        }
    }

    /// Lets go of the locks of the session on some of the bytes that stand for maps.
    async fn release_session_locks(&self, ino: Ino, bytes: std::ops::RangeInclusive<u64>) {
        let (owner, flock) = (CLAIM.owner, CLAIM.flock);
        let unlocked = self.locks.unlock(ino, owner, flock, *bytes.start(), *bytes.end()).await;
        if let Err(error) = unlocked {
            debug!(ino = ino.0, %error, "a claim of maps is let go of later");
        }
    }

    /// Takes over the claims of the process before this one. Its handles of a claimed file may be
    /// mapped; a claim of a file that has no handles any more ends. Handles of other files may have
    /// been refused a claim, so their pages wait for one.
    pub(crate) async fn take_over_claims(&self) {
        let exported = self.locks.export();
        let has = |held: &[RangeLock], byte: u64| held.iter().any(|lock| lock.start == byte);
        for handle in self.open.handles() {
            let (ino, maps) = (handle.file.ino, &handle.file.maps);
            let held = exported.iter().find(|(of, _)| *of == ino).map_or(&[][..], |(_, held)| held);
            if has(held, CLAIMED_BYTE) {
                maps.join(&handle.may_map);
                self.claim_acquired(&handle).await;
            } else if has(held, JOINED_BYTE) {
                maps.join(&handle.may_map);
            }
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

    /// Access to the pages of an open file, for as long as the returned value lives: for a read or a
    /// write, and until the kernel is answered. `fills` is true if the kernel reads pages of its cache.
    /// If several sessions map the file, this waits until no other session has pages of it.
    ///
    /// # Errors
    /// `EIO` if another session does not let go of its pages in time.
    pub async fn access_pages(&self, handle: HandleId, fills: bool) -> Result<PageAccess, Errno> {
        // The operation itself fails if the handle does not exist.
        let Ok(handle) = self.open.handle(handle) else { return Ok(PageAccess::unlimited()) };
        self.access(&handle, fills).await
    }

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

//! Takeover of locks and cached pages from a worker whose session has ended.
//!
//! The locks and claims of a session end with it. The next worker begins another session, takes the
//! locks again, and checks whether the file has the same data version. If both succeed, programs
//! notice nothing. Otherwise another session may have held a conflicting lock, while programs of
//! this mount still believed that they held theirs:
//!
//! - If a program held a lock on the file, or had dirty data in it, the file is *lost*: the data is
//!   dropped, and all inherited handles fail with `EIO` until they are closed.
//! - In every case the kernel gives back its pages of the file, and writes back the dirty ones
//!   first. These writes are refused, and the file is lost: each is a whole page that would
//!   overwrite bytes of another session.
//!
//! For example, a virtual machine is paused for an hour while SQLite on it has a database open. If
//! no other machine has changed the database, SQLite goes on. If one has, SQLite gets `EIO` and
//! opens the database again.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use record::{Ino, RangeLock};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};
use volume::Note;

use super::{JOINED_BYTE, PAGES_TIMEOUT, RETRY_PAUSE, WANTED_BYTE};
use crate::files::Files;
use crate::locks::InheritedLocks;
use crate::open::{HandleId, OpenFile};

/// The interval at which a request for a page checks whether the kernel has dropped the pages that
/// it got under an ended session.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Files whose locks could not be taken again after the session had ended. Each has true if it is
/// lost: its uncommitted data is dropped, and the handles that programs have fail with `EIO`.
#[derive(Debug, Default)]
pub(crate) struct LostClaims(Vec<(Arc<OpenFile>, bool)>);

impl Files {
    /// Takes the locks of the previous worker (process of the mount) again if its session has
    /// ended, because locks end with their session. Returns the files for which that failed. Runs
    /// before any of `files`, the restored open files, is in the table, so that nothing is flushed
    /// meanwhile.
    pub(crate) async fn retake_locks(&self, files: &HashMap<Ino, Arc<OpenFile>>) -> LostClaims {
        let mut lost = LostClaims::default();
        if self.volume.is_session_resumed() {
            return lost;
        }
        for inherited in self.locks.take_inherited() {
            let Some(file) = files.get(&inherited.ino) else { continue };
            if self.retake(&inherited).await {
                let version = inherited.version.into_iter();
                version.for_each(|version| self.locks.note_version(inherited.ino, version));
                continue;
            }
            let mut state = file.state.lock().await;
            // Data or locks that programs rely on may conflict with another session.
            let is_lost = state.is_dirty() || inherited.held.iter().any(is_program_lock);
            if is_lost {
                state.drop_unflushed();
                self.end_log(&mut state);
            }
            drop(state);
            // In every case: cached pages may be older than the changes of other sessions.
            file.maps.begin_draining();
            lost.0.push((Arc::clone(file), is_lost));
        }
        lost
    }

    /// Takes the locks that programs and the previous session held on one file again. Returns
    /// false, and holds none of them, if another session holds a conflicting lock or the file has
    /// changed.
    async fn retake(&self, inherited: &InheritedLocks) -> bool {
        let mut succeeded = true;
        // The request for a claim ended with the worker that waited for it.
        for lock in inherited.held.iter().filter(|lock| lock.start != WANTED_BYTE) {
            succeeded = succeeded && self.locks.try_lock(inherited.ino, *lock).await.is_ok();
        }
        if succeeded && let Some(version) = inherited.version {
            let found = self.retry_until_deadline(|| self.volume.find_node(inherited.ino)).await;
            succeeded = match found {
                Ok(node) => node.inode.file().is_some_and(|file| file.data_version == version),
                // The file is deleted, so no data of another session can be overwritten.
                Err(error) => error == Errno::STALE,
            };
        }
        if !succeeded {
            for RangeLock { owner, flock, start, last, .. } in &inherited.held {
                // Releasing a lock that was not taken does nothing.
                let _done = self.locks.unlock(inherited.ino, *owner, *flock, *start, *last).await;
            }
        }
        succeeded
    }

    /// Makes the handles of lost files fail with `EIO`: files whose locks or uncommitted data were
    /// lost with the session. Runs after all handles are in the table.
    pub(crate) fn fail_lost(&self, lost: LostClaims) {
        for handle in self.open.handles().iter().filter(|handle| handle.file.maps.is_draining()) {
            // Count the handle as mapped, so that its page accesses wait until the old pages are
            // gone.
            handle.file.maps.join(&handle.may_map);
            handle.uncached.store(true, Ordering::Relaxed);
        }
        for (file, is_lost) in lost.0 {
            if is_lost {
                self.fail_handles(file.ino);
            } else {
                warn!(
                    ino = file.ino.0,
                    "the session ended: the kernel drops its cached pages of a file"
                );
            }
        }
    }

    /// Makes the handles of a file that programs got from earlier workers fail with `EIO`, and logs
    /// that once.
    fn fail_handles(&self, ino: Ino) {
        if self.open.fail_adopted(ino) {
            error!(
                ino = ino.0,
                "the session ended while programs had a file open: their locks and unflushed \
                 data are lost, and their handles fail with EIO"
            );
        }
    }

    /// Checks that the kernel may write back a page through a handle.
    ///
    /// # Errors
    /// `EIO` if the kernel got the page under a session that has ended. From then on all inherited
    /// handles of the file fail with `EIO`.
    pub fn check_written_back(&self, handle: HandleId) -> Result<(), Errno> {
        let handle = self.open.handle(handle)?;
        // The page may cover bytes that another session has written since.
        if handle.file.maps.is_draining() {
            self.fail_handles(handle.file.ino);
            return Err(Errno::IO);
        }
        Ok(())
    }

    /// Has the kernel write back and drop the pages that it got under an ended session, of each
    /// affected file. Repeats this until the kernel has done it or `end` is cancelled.
    pub(super) fn drain_until(&self, end: &CancellationToken) {
        for file in self.open.all().into_iter().filter(|file| file.maps.is_draining()) {
            let (files, end) = (self.for_request(0, Note::none()), end.clone());
            self.spawn(async move {
                while !end.is_cancelled() {
                    if files.invalidate_cache(file.ino).await {
                        return file.maps.end_draining();
                    }
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            });
        }
    }

    /// Waits until the kernel has no pages of the file that it got under an ended session.
    ///
    /// # Errors
    /// `EIO` if that takes too long.
    pub(super) async fn wait_until_drained(&self, file: &OpenFile) -> Result<(), Errno> {
        let until = tokio::time::Instant::now() + PAGES_TIMEOUT;
        while file.maps.is_draining() {
            if tokio::time::Instant::now() >= until {
                return Err(Errno::IO);
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
        Ok(())
    }
}

/// Returns true if a program took the lock, and not this session for its maps.
fn is_program_lock(lock: &RangeLock) -> bool {
    lock.start < JOINED_BYTE
}

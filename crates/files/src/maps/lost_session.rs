//! Locks and pages of a process whose session has ended.
//!
//! The locks of a session end with it, and so do its turns at maps. The process that follows begins
//! another session, takes the locks again, and looks whether the file is the same. If all of that
//! succeeds, programs notice nothing. Otherwise other sessions may have relied on locks that programs of
//! this mount still think they hold:
//!
//! - If a program held a lock of its own, or had written something that is not content yet, the file is
//!   *lost*: the data is dropped, and all handles of that time fail with `EIO` until they are closed.
//! - In any case the kernel gives its pages of the file back. It writes changed ones first. These are
//!   refused, and the file is lost, because each is a whole page over bytes of another session.
//!
//! For example, a virtual machine is paused for an hour while SQLite on it has a database open. If
//! nothing else has changed the database, it goes on. If another machine has, SQLite gets `EIO` and opens
//! the database again.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use record::{Ino, RangeLock};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};
use volume::Note;

use super::{AGAIN_AFTER, JOINED_BYTE, PAGES_TIMEOUT, WANTED_BYTE};
use crate::files::Files;
use crate::locks::InheritedLocks;
use crate::open::{HandleId, OpenFile};

/// How often a page looks whether the kernel has given back the pages of before.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Files whose locks could not be taken again.
#[derive(Debug, Default)]
pub(crate) struct LostClaims(Vec<(Arc<OpenFile>, bool)>);

impl Files {
    /// Takes the locks of the process before this one again, if its session has ended. Comes before any
    /// file is in the table, so that nothing is flushed meanwhile.
    pub(crate) async fn retake_locks(&self, files: &HashMap<Ino, Arc<OpenFile>>) -> LostClaims {
        let mut lost = LostClaims::default();
        if self.volume.is_session_resumed() {
            return lost;
        }
        for left in self.locks.take_inherited() {
            let Some(file) = files.get(&left.ino) else { continue };
            if self.retake(&left).await {
                left.version.into_iter().for_each(|it| self.locks.note_version(left.ino, it));
                continue;
            }
            let mut state = file.state.lock().await;
            let is_lost = state.is_dirty() || left.held.iter().any(is_of_program);
            if is_lost {
                state.drop_unflushed();
                self.end_log(&mut state);
            }
            drop(state);
            file.maps.begin_draining();
            lost.0.push((Arc::clone(file), is_lost));
        }
        lost
    }

    /// Takes the locks of a file again. Returns false, and holds none of them, if another session is in
    /// the way, or if the file has changed.
    async fn retake(&self, left: &InheritedLocks) -> bool {
        let mut succeeded = true;
        for lock in left.held.iter().filter(|lock| lock.start != WANTED_BYTE) {
            succeeded = succeeded && self.locks.try_lock(left.ino, *lock).await.is_ok();
        }
        if succeeded && let Some(version) = left.version {
            let found = self.retry_until_deadline(|| self.volume.find_node(left.ino)).await;
            succeeded = match found {
                Ok(node) => node.inode.file().is_some_and(|file| file.data_version == version),
                // Nothing of another session can be overwritten.
                Err(error) => error == Errno::STALE,
            };
        }
        if !succeeded {
            for RangeLock { owner, flock, start, last, .. } in &left.held {
                // A lock that was not taken is not there to be let go of.
                let _done = self.locks.unlock(left.ino, *owner, *flock, *start, *last).await;
            }
        }
        succeeded
    }

    /// Has the handles of lost files fail. Comes when all handles are in the table.
    pub(crate) fn fail_lost(&self, lost: LostClaims) {
        for handle in self.open.handles().iter().filter(|handle| handle.file.maps.is_draining()) {
            handle.file.maps.join(&handle.may_map);
            handle.uncached.store(true, Ordering::Relaxed);
        }
        for (file, is_lost) in lost.0 {
            if is_lost {
                self.fail_handles(file.ino);
            } else {
                warn!(ino = file.ino.0, "the session ended: the kernel gives back pages of a file");
            }
        }
    }

    fn fail_handles(&self, ino: Ino) {
        if self.open.fail_adopted(ino) {
            error!(
                ino = ino.0,
                "the session ended while programs had a file open: their locks and what they wrote last \
                 are lost, and their handles fail"
            );
        }
    }

    /// Checks that the kernel may write back a page through a handle.
    ///
    /// # Errors
    /// `EIO` if the page is of the time of a session that has ended.
    pub fn check_written_back(&self, handle: HandleId) -> Result<(), Errno> {
        let handle = self.open.handle(handle)?;
        if handle.file.maps.is_draining() {
            self.fail_handles(handle.file.ino);
            return Err(Errno::IO);
        }
        Ok(())
    }

    /// Has the kernel give back pages of files whose turns are lost, until `end`.
    pub(super) fn drain_until(&self, end: &CancellationToken) {
        for file in self.open.all().into_iter().filter(|file| file.maps.is_draining()) {
            let (files, end) = (self.for_request(0, Note::none()), end.clone());
            self.spawn(async move {
                while !end.is_cancelled() {
                    if files.invalidate_cache(file.ino).await {
                        return file.maps.end_draining();
                    }
                    tokio::time::sleep(AGAIN_AFTER).await;
                }
            });
        }
    }

    /// Waits until the kernel has no pages of a session that has ended.
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

/// Returns true if a program has asked for the lock.
fn is_of_program(lock: &RangeLock) -> bool {
    lock.start < JOINED_BYTE
}

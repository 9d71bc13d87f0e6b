//! The location of locks, which is the memory of one session or records that sessions share:
//! finding it, publishing the locks in memory to records, and repairing records that may differ
//! from the locks held.

use std::sync::Arc;
use std::time::Duration;

use record::Ino;
use rustix::io::Errno;
use tokio::sync::RwLockReadGuard;
use tokio::time::Instant;
use tracing::{debug, warn};
use volume::{LockUse, VolumeError};

use super::state::{Location, Locks};
use crate::retry::retry_until_deadline;

/// The time for which a session that asked another one to publish its locks waits for a
/// notification. After it, the session checks again: the other one, which grants locks from its
/// memory, may have ended without one.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The pause between two attempts to rewrite records that may differ from the locks held, or to
/// publish the locks in memory to records.
const DOUBT_PAUSE: Duration = Duration::from_secs(1);

impl Locks {
    /// Returns the location of locks: the memory of this session, or records that sessions share.
    /// It cannot change while the returned guard is held. Waits until another session has published
    /// the locks that it keeps in memory. Fails with `EIO` after `io_timeout` or if this session
    /// has ended, and with `ENOLCK` if too many sessions use locks.
    pub(super) async fn current_location(&self) -> Result<RwLockReadGuard<'_, Location>, Errno> {
        let began = Instant::now();
        loop {
            // No commit of an ended session succeeds, so its locks exclude no other session.
            if self.volume.has_ended() {
                return Err(Errno::IO);
            }
            let location = self.location.read().await;
            match *location {
                Location::Memory => return Ok(location),
                Location::Records { sessions } if sessions == self.session_changes() => {
                    return Ok(location);
                }
                Location::Records { .. } | Location::Unknown => {}
            }
            drop(location);
            let mut keeping = self.volume.lock_notices().watch_keeping();
            if self.find_location().await? {
                continue;
            }
            if began.elapsed() >= self.io_timeout {
                warn!(
                    "another session holds the volume's locks in memory and does not publish them"
                );
                return Err(Errno::IO);
            }
            let _notice = tokio::time::timeout(RECHECK_INTERVAL, keeping.changed()).await;
        }
    }

    fn session_changes(&self) -> u64 {
        self.volume.lock_notices().session_changes()
    }

    /// Finds out from the store whether locks are in the memory of this session or in records that
    /// sessions share. Returns false if another session still keeps them in memory.
    async fn find_location(&self) -> Result<bool, Errno> {
        let mut location = self.location.write().await;
        let sessions = self.session_changes();
        let known = match *location {
            Location::Memory => true,
            Location::Records { sessions: seen } => seen == sessions,
            Location::Unknown => false,
        };
        if known {
            return Ok(true);
        }
        // The store decides which sessions are alive. Until it has answered, the location counts as
        // unknown.
        let before = std::mem::replace(&mut *location, Location::Unknown);
        let begin = async || match self.volume.begin_locking().await {
            // The next attempt writes other bytes, so the guards of this one fail if it arrives
            // late.
            Err(VolumeError::Unknown(why)) => Err(VolumeError::Unavailable(why)),
            begun => begun,
        };
        self.start_answering();
        match retry_until_deadline(self.io_timeout, begin).await? {
            LockUse::InMemory => {
                debug!("this session keeps the volume's locks in memory");
                *location = Location::Memory;
            }
            LockUse::InRecords => {
                // While the location was unknown, commits may have failed halfway: rewrite all
                // records.
                if before == Location::Unknown {
                    let mut tables = self.tables();
                    let files = tables.locks_to_publish();
                    files.iter().for_each(|(ino, _)| tables.mark_doubtful(*ino));
                }
                *location = Location::Records { sessions };
                drop(location);
                self.repair_doubtful_soon();
            }
            LockUse::Requested => return Ok(false),
            LockUse::TooMany => return Err(Errno::NOLCK),
        }
        Ok(true)
    }

    /// Sets the location of locks to unknown, because a commit showed that it has changed. The next
    /// operation finds it again.
    pub(super) async fn forget_location(&self) {
        *self.location.write().await = Location::Unknown;
    }

    /// Commits the locks in this session's memory to records if another session asks for locks.
    /// From then on both sessions grant locks by commits of these records.
    async fn publish_if_asked(&self) -> Result<(), VolumeError> {
        if !self.volume.has_lock_askers().await? {
            return Ok(());
        }
        // Exclusive: no lock is granted or released while the table is published.
        let mut location = self.location.write().await;
        if std::mem::replace(&mut *location, Location::Unknown) != Location::Memory
            && self.volume.begin_locking().await? != LockUse::InMemory
        {
            return Ok(());
        }
        let sessions = self.session_changes();
        // Locks released in memory did not flush their files. Flush now, before others get them.
        (self.before_sharing.0)().await;
        let files = {
            let mut tables = self.tables();
            let files = tables.locks_to_publish();
            // Publishing can commit in part, so mark the files before it.
            tables.in_records.extend(files.iter().map(|(ino, _)| *ino));
            files
        };
        if self.volume.publish_locks(&files).await? {
            debug!(files = files.len(), "this session shares the volume's locks in records");
            let mut tables = self.tables();
            let tables = &mut *tables;
            tables
                .in_records
                .retain(|ino| tables.files.get(ino).is_some_and(|table| !table.held().is_empty()));
            *location = Location::Records { sessions };
        }
        Ok(())
    }

    /// Starts the task that commits the locks in memory to records when another session asks for
    /// locks. It runs until the volume closes. Does nothing if it runs already.
    fn start_answering(&self) {
        {
            let mut tables = self.tables();
            if std::mem::replace(&mut tables.answering, true) {
                return;
            }
        }
        let (me, closing) = (self.me.clone(), self.volume.closing().clone());
        let mut keeping = self.volume.lock_notices().watch_keeping();
        self.tasks.spawn(async move {
            loop {
                // Before the check: a request that comes after it wakes the wait below.
                keeping.mark_unchanged();
                let Some(locks) = me.upgrade() else { return };
                let answered = locks.publish_if_asked().await;
                drop(locks);
                let pause = async {
                    match answered {
                        Ok(()) => keeping.changed().await.is_ok(),
                        Err(error) => {
                            debug!(%error, "cannot publish locks; it will be retried");
                            tokio::time::sleep(DOUBT_PAUSE).await;
                            true
                        }
                    }
                };
                tokio::select! {
                    () = closing.cancelled() => return,
                    goes_on = pause => if !goes_on { return },
                }
            }
        });
    }

    /// Starts the task that rewrites doubtful lock records, which may differ from the locks held
    /// because a commit failed or its outcome is unknown. It runs until none is left. Does nothing
    /// if it runs already.
    pub(super) fn repair_doubtful_soon(&self) {
        {
            let mut tables = self.tables();
            if tables.doubtful.is_empty() || std::mem::replace(&mut tables.repairing, true) {
                return;
            }
        }
        let (me, closing) = (self.me.clone(), self.volume.closing().clone());
        self.tasks.spawn(async move {
            loop {
                tokio::select! {
                    () = closing.cancelled() => return,
                    () = tokio::time::sleep(DOUBT_PAUSE) => {}
                }
                let Some(locks) = me.upgrade() else { return };
                if !locks.repair().await {
                    return;
                }
            }
        });
    }

    /// Rewrites each doubtful lock record once with the locks that are held. Returns true if any
    /// record may still differ from them, because the rewrite failed or an earlier commit may still
    /// arrive.
    async fn repair(self: Arc<Self>) -> bool {
        let doubtful: Vec<(Ino, Instant)> =
            self.tables().doubtful.iter().map(|(ino, until)| (*ino, *until)).collect();
        for (ino, until) in doubtful {
            // If locks are in memory, the records are rewritten when they are published.
            let Ok(location) = self.current_location().await else { break };
            let record_lock = self.record_lock(ino);
            let _locked = record_lock.lock().await;
            let held = self.tables().held(ino);
            if *location != Location::Memory
                && (self.volume.set_locks(ino, &held, None).await.is_err()
                    || until > Instant::now())
            {
                continue;
            }
            let mut tables = self.tables();
            tables.doubtful.remove(&ino);
            if *location != Location::Memory && held.is_empty() {
                tables.in_records.remove(&ino);
            }
        }
        let mut tables = self.tables();
        tables.repairing = !tables.doubtful.is_empty();
        tables.repairing
    }
}

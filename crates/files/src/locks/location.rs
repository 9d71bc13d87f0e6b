//! Where locks are: finding out, handing over, and mending what is in doubt.

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

/// How long a session that has asked for locks waits for a notice before it looks again: the granter may
/// have ended.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The pause between two tries at what is in doubt.
const DOUBT_PAUSE: Duration = Duration::from_secs(1);

impl Locks {
    /// Where locks are, certainly, for as long as what this returns is held. Waits for another session
    /// to publish what it keeps in memory.
    pub(super) async fn current_location(&self) -> Result<RwLockReadGuard<'_, Location>, Errno> {
        let began = Instant::now();
        loop {
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
                warn!("another session keeps the volume's locks and does not publish them");
                return Err(Errno::IO);
            }
            let _notice = tokio::time::timeout(RECHECK_INTERVAL, keeping.changed()).await;
        }
    }

    fn session_changes(&self) -> u64 {
        self.volume.lock_notices().session_changes()
    }

    /// Finds out where locks are. Answers whether this session can use them there.
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
        // Whether a session of others lives is asked of the store, and everything that holds of the
        // place from here on.
        let before = std::mem::replace(&mut *location, Location::Unknown);
        let begin = async || match self.volume.begin_locking().await {
            // It is written in other bytes the next time, so that the first can do nothing later.
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
                if before == Location::Unknown {
                    let mut tables = self.tables();
                    let files = tables.to_publish();
                    files.iter().for_each(|(ino, _)| tables.doubt(*ino));
                }
                *location = Location::Records { sessions };
                drop(location);
                self.repair_doubtful_soon();
            }
            LockUse::Asked => return Ok(false),
            LockUse::TooMany => return Err(Errno::NOLCK),
        }
        Ok(true)
    }

    /// Locks are not where they were thought to be.
    pub(super) async fn forget_location(&self) {
        *self.location.write().await = Location::Unknown;
    }

    /// Publishes what is kept in memory, if somebody waits for that.
    async fn publish_if_asked(&self) -> Result<(), VolumeError> {
        if !self.volume.has_lock_askers().await? {
            return Ok(());
        }
        // Nobody takes a lock meanwhile, nor lets go of one.
        let mut location = self.location.write().await;
        if std::mem::replace(&mut *location, Location::Unknown) != Location::Memory
            && self.volume.begin_locking().await? != LockUse::InMemory
        {
            return Ok(());
        }
        let sessions = self.session_changes();
        // Locks that were let go of in memory did not make what was written under them content.
        (self.before_sharing.0)().await;
        let files = {
            let mut tables = self.tables();
            let files = tables.to_publish();
            // It may happen in part.
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

    /// Sees to it that others who want locks are answered, until the volume closes.
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
                keeping.mark_unchanged();
                let Some(locks) = me.upgrade() else { return };
                let answered = locks.publish_if_asked().await;
                drop(locks);
                let pause = async {
                    match answered {
                        Ok(()) => keeping.changed().await.is_ok(),
                        Err(error) => {
                            debug!(%error, "locks could not be published");
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

    /// Writes records that may not say what is held, until they certainly do.
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

    /// Writes each record in doubt once. Answers whether any is left.
    async fn repair(self: Arc<Self>) -> bool {
        let doubtful: Vec<(Ino, Instant)> =
            self.tables().doubtful.iter().map(|(ino, until)| (*ino, *until)).collect();
        for (ino, until) in doubtful {
            // Whoever has a lock in memory writes what is in doubt when it publishes it.
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

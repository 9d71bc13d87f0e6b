//! Where locks are: finding out, handing over, and mending what is in doubt.

use std::sync::Arc;
use std::time::Duration;

use record::Ino;
use rustix::io::Errno;
use tokio::sync::RwLockReadGuard;
use tokio::time::Instant;
use tracing::{debug, warn};
use volume::{LockUse, VolumeError};

use super::state::{Locks, Place};
use crate::patience::patiently;

/// How long a session that has asked for locks waits for a notice before it looks again: the granter may
/// have ended.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The pause between two tries at what is in doubt.
const DOUBT_PAUSE: Duration = Duration::from_secs(1);

impl Locks {
    /// Where locks are, certainly, for as long as what this returns is held. Waits for another session
    /// to publish what it keeps in memory.
    pub(super) async fn in_use(&self) -> Result<RwLockReadGuard<'_, Place>, Errno> {
        let began = Instant::now();
        loop {
            if self.volume.has_ended() {
                return Err(Errno::IO);
            }
            let place = self.place.read().await;
            match *place {
                Place::Memory => return Ok(place),
                Place::Records { sessions } if sessions == self.session_changes() => {
                    return Ok(place);
                }
                Place::Records { .. } | Place::Unknown => {}
            }
            drop(place);
            let mut keeping = self.volume.lock_notices().watch_keeping();
            if self.find_place().await? {
                continue;
            }
            if began.elapsed() >= self.io_timeout {
                warn!("another session keeps the volume's locks and does not publish them");
                return Err(Errno::IO);
            }
            let _notice = tokio::time::timeout(LOOK_AGAIN, keeping.changed()).await;
        }
    }

    fn session_changes(&self) -> u64 {
        self.volume.lock_notices().session_changes()
    }

    /// Finds out where locks are. Answers whether this session can use them there.
    async fn find_place(&self) -> Result<bool, Errno> {
        let mut place = self.place.write().await;
        let sessions = self.session_changes();
        let known = match *place {
            Place::Memory => true,
            Place::Records { sessions: seen } => seen == sessions,
            Place::Unknown => false,
        };
        if known {
            return Ok(true);
        }
        // Whether a session of others lives is asked of the store, and everything that holds of the
        // place from here on.
        let before = std::mem::replace(&mut *place, Place::Unknown);
        let begin = async || match self.volume.begin_locking().await {
            // It is written in other bytes the next time, so that the first can do nothing later.
            Err(VolumeError::Unknown(why)) => Err(VolumeError::Unavailable(why)),
            begun => begun,
        };
        self.answer_from_now_on();
        match patiently(self.io_timeout, begin).await? {
            LockUse::InMemory => {
                debug!("this session keeps the volume's locks in memory");
                *place = Place::Memory;
            }
            LockUse::InRecords => {
                if before == Place::Unknown {
                    let mut tables = self.tables();
                    let files = tables.to_publish();
                    files.iter().for_each(|(ino, _)| tables.doubt(*ino));
                }
                *place = Place::Records { sessions };
                drop(place);
                self.look_after_doubts();
            }
            LockUse::Asked => return Ok(false),
            LockUse::TooMany => return Err(Errno::NOLCK),
        }
        Ok(true)
    }

    /// Locks are not where they were thought to be.
    pub(super) async fn lost_place(&self) {
        *self.place.write().await = Place::Unknown;
    }

    /// Publishes what is kept in memory, if somebody waits for that.
    async fn answer_askers(&self) -> Result<(), VolumeError> {
        if !self.volume.has_lock_askers().await? {
            return Ok(());
        }
        // Nobody takes a lock meanwhile, nor lets go of one.
        let mut place = self.place.write().await;
        if std::mem::replace(&mut *place, Place::Unknown) != Place::Memory
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
            *place = Place::Records { sessions };
        }
        Ok(())
    }

    /// Sees to it that others who want locks are answered, until the volume closes.
    fn answer_from_now_on(&self) {
        {
            let mut tables = self.tables();
            if std::mem::replace(&mut tables.answers, true) {
                return;
            }
        }
        let (me, closing) = (self.me.clone(), self.volume.closing().clone());
        let mut keeping = self.volume.lock_notices().watch_keeping();
        self.tasks.spawn(async move {
            loop {
                keeping.mark_unchanged();
                let Some(locks) = me.upgrade() else { return };
                let answered = locks.answer_askers().await;
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
    pub(super) fn look_after_doubts(&self) {
        {
            let mut tables = self.tables();
            if tables.doubtful.is_empty() || std::mem::replace(&mut tables.mends, true) {
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
                if !locks.mend().await {
                    return;
                }
            }
        });
    }

    /// Writes each record in doubt once. Answers whether any is left.
    async fn mend(self: Arc<Self>) -> bool {
        let doubtful: Vec<(Ino, Instant)> =
            self.tables().doubtful.iter().map(|(ino, until)| (*ino, *until)).collect();
        for (ino, until) in doubtful {
            // Whoever has a lock in memory writes what is in doubt when it publishes it.
            let Ok(place) = self.in_use().await else { break };
            let turn = self.turn(ino);
            let _turn = turn.lock().await;
            let held = self.tables().held(ino);
            if *place != Place::Memory
                && (self.volume.set_locks(ino, &held, None).await.is_err()
                    || until > Instant::now())
            {
                continue;
            }
            let mut tables = self.tables();
            tables.doubtful.remove(&ino);
            if *place != Place::Memory && held.is_empty() {
                tables.in_records.remove(&ino);
            }
        }
        let mut tables = self.tables();
        tables.mends = !tables.doubtful.is_empty();
        tables.mends
    }
}

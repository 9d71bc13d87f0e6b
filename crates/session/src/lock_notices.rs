//! Notifications for tasks that wait for changes of file locks.
//!
//! A notification says only that locks may have changed, so its receiver reads them again. It comes
//! within about [`crate::FEED_INTERVAL`] of a change by any session. It also comes when sessions
//! begin or end, since the locks of an ended session block no program. For example, a program waits
//! in `fcntl(F_SETLKW)` on one mount. A program on another mount unlocks the file, and within about
//! 100 ms the first mount tries again.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use record::key::space;
use record::{Ino, Timestamp};
use store::Key;
use tokio::sync::{Notify, watch};

/// The registry of tasks that wait for changes of file locks, and of the files whose map claim this
/// session holds: the right to let its kernel keep pages of mappings.
#[derive(Debug)]
pub struct LockNotices {
    /// Files with waiting tasks: a version that grows with each change, and the number of waits.
    files: Mutex<HashMap<Ino, (watch::Sender<u64>, u64)>>,
    /// Files for which this session holds the map claim, the lock that lets its kernel keep pages
    /// of mappings.
    claims: Mutex<Claims>,
    /// Notified when the locks of a claimed file may have changed.
    claims_changed: Notify,
    /// A version that grows when the locks of files may have moved between a session's memory and
    /// the store.
    keeping: watch::Sender<u64>,
    /// Grows when sessions have begun or ended, and at each gap in the change feed.
    sessions: AtomicU64,
    /// The number that the next written lock record gets.
    writes: AtomicU64,
}

/// The files whose map claim this session holds: the right to let its kernel keep pages of
/// mappings.
#[derive(Debug, Default)]
struct Claims {
    claimed: HashSet<Ino>,
    /// Those claimed files whose lock records may have changed, so that another session may want
    /// the claim.
    changed: HashSet<Ino>,
}

/// One task's wait for changes of the locks of one file.
#[derive(Debug)]
pub struct LockWatch {
    notices: Arc<LockNotices>,
    ino: Ino,
    changes: watch::Receiver<u64>,
}

impl LockNotices {
    /// Creates the registry of waits for locks. The numbers of lock records begin at the current
    /// time in nanoseconds, so a resumed session uses none of its previous process again.
    pub(crate) fn new(now: Timestamp) -> Arc<LockNotices> {
        Arc::new(LockNotices {
            files: Mutex::default(),
            claims: Mutex::default(),
            claims_changed: Notify::new(),
            keeping: watch::Sender::new(0),
            sessions: AtomicU64::new(0),
            writes: AtomicU64::new(u64::try_from(now.0).unwrap_or(0)),
        })
    }

    fn files(&self) -> MutexGuard<'_, HashMap<Ino, (watch::Sender<u64>, u64)>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to wait for changes of a file's locks. Changes after this call are not missed.
    pub fn watch(self: &Arc<Self>, ino: Ino) -> LockWatch {
        let mut files = self.files();
        let (sender, watches) = files.entry(ino).or_insert_with(|| (watch::Sender::new(0), 0));
        *watches += 1;
        LockWatch { notices: Arc::clone(self), ino, changes: sender.subscribe() }
    }

    fn claims(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that this session holds the map claim of a file: the right to let its kernel keep
    /// pages of mappings of the file.
    pub fn claim(&self, ino: Ino) {
        self.claims().claimed.insert(ino);
    }

    /// Records that this session no longer holds the map claim of a file, its right to let the
    /// kernel keep pages of mappings.
    pub fn unclaim(&self, ino: Ino) {
        let mut claims = self.claims();
        claims.claimed.remove(&ino);
        claims.changed.remove(&ino);
    }

    /// Records that another session may want the map claim of a file: the right to let its kernel
    /// keep pages of mappings. Wakes `wanted_claims`. Does nothing if this session does not hold
    /// the claim.
    pub fn claim_may_be_wanted(&self, ino: Ino) {
        let mut claims = self.claims();
        if claims.claimed.contains(&ino) {
            claims.changed.insert(ino);
            self.claims_changed.notify_one();
        }
    }

    /// Waits until other sessions may want map claims that this session holds, that is, its rights
    /// to let the kernel keep pages of mapped files. Returns these files; the caller checks each.
    pub async fn wanted_claims(&self) -> Vec<Ino> {
        loop {
            let changed: Vec<Ino> = self.claims().changed.drain().collect();
            if !changed.is_empty() {
                return changed;
            }
            self.claims_changed.notified().await;
        }
    }

    /// Returns a receiver that changes when the locks of files may have moved between a session's
    /// memory and the store.
    pub fn watch_keeping(&self) -> watch::Receiver<u64> {
        self.keeping.subscribe()
    }

    /// Returns a number that grows when sessions have begun or ended, as far as this session knows.
    /// It also grows at a gap in the change feed, which may hide such a change.
    pub fn session_changes(&self) -> u64 {
        self.sessions.load(Ordering::SeqCst)
    }

    /// Returns a number for a lock record that this session is about to write. No other lock record
    /// of the session has it.
    pub fn next_write(&self) -> u64 {
        self.writes.fetch_add(1, Ordering::Relaxed)
    }

    /// Handles a notification that the record of `key` changed: wakes the waits for the locks of
    /// its file if it is a lock record.
    pub(crate) fn notified(&self, key: &Key) {
        match key.space() {
            space::LOCKS => {
                let ino = Ino(key.partition());
                if let Some((sender, _)) = self.files().get(&ino) {
                    sender.send_modify(|changes| *changes += 1);
                }
                self.claim_may_be_wanted(ino);
            }
            space::LOCK_KEEPING => self.keeping.send_modify(|changes| *changes += 1),
            _ => {}
        }
    }

    /// Notifies all waits for locks, because any lock may have changed or sessions have begun or
    /// ended.
    pub(crate) fn notify_all(&self) {
        self.sessions.fetch_add(1, Ordering::SeqCst);
        for (sender, _) in self.files().values() {
            sender.send_modify(|changes| *changes += 1);
        }
        {
            let mut claims = self.claims();
            let Claims { claimed, changed } = &mut *claims;
            changed.extend(claimed.iter().copied());
        }
        self.claims_changed.notify_one();
        self.keeping.send_modify(|changes| *changes += 1);
    }
}

impl LockWatch {
    /// Marks all changes of the file's locks so far as seen, so that `changed` waits for a later
    /// one.
    pub fn mark_seen(&mut self) {
        self.changes.mark_unchanged();
    }

    /// Waits until the file's locks may have changed since the last call of `mark_seen` or
    /// `changed`, or since the wait began.
    pub async fn changed(&mut self) {
        // This wait keeps the sender alive, so an error is not possible.
        let _sent = self.changes.changed().await;
    }
}

impl Drop for LockWatch {
    fn drop(&mut self) {
        let mut files = self.notices.files();
        if let Some((_, watches)) = files.get_mut(&self.ino) {
            *watches -= 1;
            if *watches == 0 {
                files.remove(&self.ino);
            }
        }
    }
}

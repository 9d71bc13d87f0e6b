//! Who waits for locks of files to change, and is told by the feed.
//!
//! A notice says only that something may have changed: whoever gets one looks. It comes within about
//! [`crate::FEED_INTERVAL`] of the change, whoever made it, and also when sessions begin or end, since
//! the locks of one that has ended are in nobody's way.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use record::key::space;
use record::{Ino, Timestamp};
use store::Key;
use tokio::sync::{Notify, watch};

/// Waits for locks to change.
#[derive(Debug)]
pub struct LockNotices {
    /// Files whose locks are waited for, and for how many.
    files: Mutex<HashMap<Ino, (watch::Sender<u64>, u64)>>,
    /// Files whose maps this session has.
    claims: Mutex<Claims>,
    /// Notified when the locks of one of those may have changed.
    claims_changed: Notify,
    /// Notified when locks may be kept elsewhere than before.
    keeping: watch::Sender<u64>,
    /// How often sessions have begun or ended.
    sessions: AtomicU64,
    /// Counts what is written about locks.
    writes: AtomicU64,
}

/// Files whose maps this session has.
#[derive(Debug, Default)]
struct Claims {
    claimed: HashSet<Ino>,
    /// Those whose locks may have changed.
    changed: HashSet<Ino>,
}

/// A wait for the locks of one file.
#[derive(Debug)]
pub struct LockWatch {
    notices: Arc<LockNotices>,
    ino: Ino,
    changes: watch::Receiver<u64>,
}

impl LockNotices {
    /// Nobody waits yet. Writes are counted from the time on: no process of the session has counted
    /// so far before.
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

    /// Begins to wait for the locks of a file. Whoever looks at them after this misses no change.
    pub fn watch(self: &Arc<Self>, ino: Ino) -> LockWatch {
        let mut files = self.files();
        let (sender, watches) = files.entry(ino).or_insert_with(|| (watch::Sender::new(0), 0));
        *watches += 1;
        LockWatch { notices: Arc::clone(self), ino, changes: sender.subscribe() }
    }

    fn claims(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This session has the maps of a file from now on.
    pub fn claim(&self, ino: Ino) {
        self.claims().claimed.insert(ino);
    }

    /// This session does not have the maps of a file any more.
    pub fn unclaim(&self, ino: Ino) {
        let mut claims = self.claims();
        claims.claimed.remove(&ino);
        claims.changed.remove(&ino);
    }

    /// Another session may want the maps of a file. Does nothing if this session does not have them.
    pub fn claim_may_be_wanted(&self, ino: Ino) {
        let mut claims = self.claims();
        if claims.claimed.contains(&ino) {
            claims.changed.insert(ino);
            self.claims_changed.notify_one();
        }
    }

    /// Waits until other sessions may want the maps of files that this session has. Returns the files.
    pub async fn wanted_claims(&self) -> Vec<Ino> {
        loop {
            let changed: Vec<Ino> = self.claims().changed.drain().collect();
            if !changed.is_empty() {
                return changed;
            }
            self.claims_changed.notified().await;
        }
    }

    /// Begins to wait for a change of where locks are kept.
    pub fn watch_keeping(&self) -> watch::Receiver<u64> {
        self.keeping.subscribe()
    }

    /// How often sessions have begun or ended, as far as this session knows.
    pub fn session_changes(&self) -> u64 {
        self.sessions.load(Ordering::SeqCst)
    }

    /// A number for something that is written about locks, which no other of this session has.
    pub fn next_write(&self) -> u64 {
        self.writes.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes a notification that a record changed.
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

    /// Anything may have changed, or other sessions have begun or ended.
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
    /// Takes what has changed so far for seen.
    pub fn mark_seen(&mut self) {
        self.changes.mark_unchanged();
    }

    /// Waits until something may have changed since the last look.
    pub async fn changed(&mut self) {
        // The sender goes with the last watch.
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

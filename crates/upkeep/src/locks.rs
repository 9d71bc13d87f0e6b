//! Removes file locks of sessions that have ended.
//!
//! A lock of an ended session has no effect: each reader of a file's lock record ignores it. But
//! the records remain until a program locks the file again. So after sessions have ended, this task
//! scans all lock records once. For example, a mount is killed while programs hold 1,000 locks;
//! other sessions ignore these locks at once, and this task deletes their records within about a
//! minute.

use std::collections::HashSet;
use std::sync::Weak;
use std::time::Duration;

use namespace::{EndLocking, ForgetLocks};
use record::key::space;
use record::{FileLocks, Ino, Nonce};
use session::{ObservedSession, Priority, VolumeError, other_sessions, scan};
use tracing::debug;

use crate::upkeep::Upkeep;

/// The interval of checks whether sessions have started or ended.
const LOOK_INTERVAL: Duration = Duration::from_mins(1);

impl Upkeep {
    /// Removes the file locks of sessions that have ended from the lock records. Returns the number
    /// of files that had such locks. Fails with the errors of the store.
    pub async fn remove_ended_locks(&self) -> Result<u64, VolumeError> {
        let session = &self.session;
        let mut holders: Vec<(Ino, Vec<Nonce>)> = Vec::new();
        let throttling = Some((session.throttle(), Priority::Background));
        let walk = |key: store::Key, value: store::Value| {
            // A record that cannot be decoded is left as it is; fsck reports it.
            if let Ok(locks) = FileLocks::decode(&key, &value) {
                let sessions = locks.held.iter().map(|held| held.session).collect();
                holders.push((Ino(key.partition()), sessions));
            }
            Ok(())
        };
        scan::walk_throttled(&**session.store(), throttling, space::LOCKS, walk).await?;
        // The sessions are read after the locks, so a session that is missing here and has a lock
        // there has ended.
        let others = other_sessions(&**session.store(), session.nonce()).await?;
        let mut living: HashSet<Nonce> =
            others.into_iter().map(|ObservedSession { nonce, .. }| nonce).collect();
        living.insert(session.nonce());
        let mut forgotten = 0;
        for (ino, sessions) in holders {
            if !sessions.iter().all(|session| living.contains(session)) {
                let count = session.lock_notices().next_write();
                session.run(&ForgetLocks { ino, count }).await?;
                forgotten += 1;
            }
        }
        // Last, so that the record that announces locks exists while any lock does.
        session.run(&EndLocking).await?;
        Ok(forgotten)
    }
}

/// Removes the locks of ended sessions, until the volume is closed.
pub(crate) async fn run_lock_cleaner(upkeep: Weak<Upkeep>) {
    let mut looked = None;
    loop {
        let Some(alive) = upkeep.upgrade() else { return };
        let closing = alive.session.closing().clone();
        let changes = alive.session.lock_notices().session_changes();
        if looked != Some(changes) {
            match alive.remove_ended_locks().await {
                Ok(_forgotten) => looked = Some(changes),
                Err(error) => {
                    debug!(%error, "locks of ended sessions were not removed; retrying later");
                }
            }
        }
        drop(alive);
        tokio::select! {
            () = closing.cancelled() => return,
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
        }
    }
}

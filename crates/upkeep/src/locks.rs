//! Locks of sessions that have ended.
//!
//! They count for nothing, and whoever meets them leaves them out. Nobody may meet them for long, so
//! after sessions have ended their locks are looked for once.

use std::collections::HashSet;
use std::sync::Weak;
use std::time::Duration;

use namespace::{EndLocking, ForgetLocks};
use record::key::space;
use record::{FileLocks, Ino, Nonce};
use session::{ObservedSession, Priority, VolumeError, other_sessions, scan};
use tracing::debug;

use crate::upkeep::Upkeep;

/// How often it is asked whether sessions have begun or ended.
const LOOK_INTERVAL: Duration = Duration::from_mins(1);

impl Upkeep {
    /// Takes away locks of sessions that have ended. Answers of how many files.
    pub async fn forget_locks(&self) -> Result<u64, VolumeError> {
        let session = &self.session;
        let mut holders: Vec<(Ino, Vec<Nonce>)> = Vec::new();
        let throttling = Some((session.throttle(), Priority::Background));
        let walk = |key: store::Key, value: store::Value| {
            // What cannot be read is a finding of a check, and excludes whom it excludes.
            if let Ok(locks) = FileLocks::decode(&key, &value) {
                let sessions = locks.held.iter().map(|held| held.session).collect();
                holders.push((Ino(key.partition()), sessions));
            }
            Ok(())
        };
        scan::walk_throttled(&**session.store(), throttling, space::LOCKS, walk).await?;
        // Whoever began later has no lock among these.
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
        session.run(&EndLocking).await?;
        Ok(forgotten)
    }
}

/// Takes locks away of sessions that have ended, for as long as the volume lives.
pub(crate) async fn forget_always(upkeep: Weak<Upkeep>) {
    let mut looked = None;
    loop {
        let Some(alive) = upkeep.upgrade() else { return };
        let closing = alive.session.closing().clone();
        let changes = alive.session.lock_notices().session_changes();
        if looked != Some(changes) {
            match alive.forget_locks().await {
                Ok(_forgotten) => looked = Some(changes),
                Err(error) => debug!(%error, "locks of ended sessions stay for now"),
            }
        }
        drop(alive);
        tokio::select! {
            () = closing.cancelled() => return,
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
        }
    }
}

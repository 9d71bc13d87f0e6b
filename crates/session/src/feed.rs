//! The listener: reads the store's change feed and invalidates cached data that other gateways
//! changed.
//!
//! Ten times a second the task asks the store for the keys that were written since its last
//! position. For each key that another session wrote:
//!
//! - the record cache drops its entry, so that operations seldom learn of a change by a refused
//!   commit;
//! - the watch (the mount of this process) is notified, to invalidate kernel caches;
//! - if it belongs to an account, user, policy or ring key, these are read again;
//! - if it belongs to a lock, tasks that wait for locks look again;
//! - if it is a session's record, [`crate::peers`] ends the authority.
//!
//! Only the last one has to be exact. The others save time: a hint may be old, because a commit
//! checks it by its guards. If the store no longer has all changes since the position (a *gap*),
//! everything is invalidated.
//!
//! For example, gateway B overwrites the object `a`. Within about 100 ms gateway A drops its
//! entries of the dentry and of the old inode, and its next GET of `a` plans with fresh records.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use record::key::space;
use runtime::Moment;
use store::{Changes, Key, MetaStore, Plan, Position, Space, StoreError};
use tokio::sync::{Notify, watch};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::lock_notices::LockNotices;
use crate::meters::Meters;
use crate::peers::Peers;
use crate::records::{self, RecordCache};
use crate::state::SessionState;
use crate::times::FEED_INTERVAL;
use crate::watch::Watches;

/// The spaces whose changes are reported as changes of access.
const ACCESS_SPACES: [Space; 4] = [space::ACCOUNT, space::USER, space::POLICY, space::RING];

/// The limit of keys in [`SelfWrites`]: this session wrote them, and the feed has not reported
/// them.
const SELF_WRITES_MAX: usize = 65_536;

/// The writes of this session that the feed has not reported yet.
///
/// The feed reports a gateway's own changes as well, and the gateway must not drop the records that
/// it has just learned from its own commits. So each key is counted when a plan that writes it is
/// sent. A reported change is another session's only if the count of its key is zero.
#[derive(Debug, Default)]
pub(crate) struct SelfWrites {
    counts: Mutex<HashMap<Key, u32>>,
}

impl SelfWrites {
    fn counts(&self) -> MutexGuard<'_, HashMap<Key, u32>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the keys of this session's plan, which is about to be sent, so that the feed's report
    /// of them is not taken for another session's change.
    pub(crate) fn sent(&self, plan: &Plan) {
        let mut counts = self.counts();
        if counts.len() >= SELF_WRITES_MAX {
            // Some entries will be dropped although only this session changed them, which costs a
            // read each.
            counts.clear();
        }
        for key in cached_keys(plan) {
            *counts.entry(key.clone()).or_default() += 1;
        }
    }

    /// Uncounts the keys of a plan that did not commit, because the feed will not report them.
    pub(crate) fn dropped(&self, plan: &Plan) {
        let mut counts = self.counts();
        for key in cached_keys(plan) {
            decrement(&mut counts, key);
        }
    }

    /// Handles the feed's report that the record of `key` changed. Returns true if the change is
    /// counted as this session's own.
    fn notified(&self, key: &Key) -> bool {
        decrement(&mut self.counts(), key)
    }

    fn clear(&self) {
        self.counts().clear();
    }
}

fn decrement(counts: &mut HashMap<Key, u32>, key: &Key) -> bool {
    let Some(count) = counts.get_mut(key) else { return false };
    *count -= 1;
    if *count == 0 {
        counts.remove(key);
    }
    true
}

/// Returns the keys of a plan's writes whose records the record cache may have.
fn cached_keys(plan: &Plan) -> impl Iterator<Item = &Key> {
    plan.changed_records().filter(|key| records::is_cached_space(key.space()))
}

/// The task that reads the store's change feed and passes each change to the caches of this
/// process.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) store: Arc<dyn MetaStore>,
    pub(crate) state: Arc<SessionState>,
    pub(crate) records: Arc<RecordCache>,
    pub(crate) peers: Peers,
    pub(crate) self_writes: Arc<SelfWrites>,
    pub(crate) meters: Arc<Meters>,
    /// The registered watch (of a mount), which is notified of names and nodes that other sessions
    /// changed.
    pub(crate) watches: Arc<Watches>,
    /// Changed when accounts, users or policies may have changed.
    pub(crate) access: watch::Sender<u64>,
    /// Notified when another session has begun or ended.
    pub(crate) sessions: Arc<Notify>,
    pub(crate) lock_notices: Arc<LockNotices>,
    /// The position in the feed up to which all changes have been delivered.
    pub(crate) position: Position,
}

impl Listener {
    /// Returns the current position of the change feed. If the listener starts there, it is
    /// notified of every change to a record that is read after this call.
    pub(crate) async fn begin(store: &dyn MetaStore) -> Result<Position, StoreError> {
        match store.changes(None).await? {
            Changes::Notified { next, .. } | Changes::Gap { next } => Ok(next),
        }
    }

    /// Reads the change feed until the volume closes. While the store does not answer, the position
    /// in the feed stays, so no change is lost.
    pub(crate) async fn run(mut self, closing: CancellationToken) {
        let mut ticks = tokio::time::interval(FEED_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut failing = false;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = closing.cancelled() => return,
            }
            // The time before the question: changes that commit while the answer is on its way are
            // not in it.
            let asked = Moment::now();
            match self.store.changes(Some(&self.position)).await {
                Ok(changes) => {
                    // The changes are applied before authority and validity are extended, which
                    // rely on them.
                    self.apply(changes);
                    self.peers.feed_checked(asked);
                    self.watches.feed_checked(asked);
                    self.peers.check(&*self.store).await;
                    failing = false;
                }
                // The first failure has ended the authority already, and one log line is enough.
                Err(_) if failing => {}
                Err(error) => {
                    debug!(%error, "cannot read the change feed");
                    // A store that comes back may have lost commits that it had acknowledged, for
                    // example those of a session's record.
                    self.peers.assume_unknown_peers();
                    self.state.suspect_loss();
                    failing = true;
                }
            }
        }
    }

    fn apply(&mut self, changes: Changes) {
        match changes {
            Changes::Notified { keys, next } => {
                self.position = next;
                let (mut access, mut sessions) = (false, false);
                let mut others = Vec::new();
                for key in &keys {
                    access |= ACCESS_SPACES.contains(&key.space());
                    if self.peers.notified(key) {
                        self.sessions.notify_one();
                        sessions = true;
                    }
                    if records::is_cached_space(key.space()) && !self.self_writes.notified(key) {
                        self.records.forget(key);
                        self.meters.notified.add(1);
                        others.push(key);
                    }
                }
                self.watches.notified(others.into_iter());
                // Entries are dropped first, so that a task that is woken here does not plan with
                // an old one.
                keys.iter().for_each(|key| self.lock_notices.notified(key));
                if sessions {
                    self.lock_notices.notify_all();
                }
                if access {
                    self.access.send_modify(|version| *version += 1);
                }
            }
            // The missing entries may be of any record, so everything that depends on the feed
            // starts anew.
            Changes::Gap { next } => {
                warn!("gap in the change feed: all cached records are dropped");
                self.position = next;
                self.peers.assume_unknown_peers();
                self.state.suspect_loss();
                self.sessions.notify_one();
                self.self_writes.clear();
                self.records.clear();
                self.watches.all_changed();
                self.lock_notices.notify_all();
                self.meters.gaps.add(1);
                self.access.send_modify(|version| *version += 1);
            }
        }
    }
}

#[cfg(test)]
mod tests;

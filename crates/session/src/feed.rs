//! Listening to what other gateways change.
//!
//! A task asks the store now and then what changed. Hints that others made stale are forgotten, so
//! that operations seldom have to find out by a refused commit, and whoever keeps users and
//! policies is notified to read them again. None of this needs to be right: a hint may be stale at
//! any time, and a commit checks what it took from one.
//!
//! What has to be right is who else is there: see [`crate::peers`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use record::key::space;
use runtime::Moment;
use store::{Changes, Key, MetaStore, Plan, Position, StoreError, Write};
use tokio::sync::{Notify, watch};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::lock_notices::LockNotices;
use crate::meters::Meters;
use crate::peers::Peers;
use crate::records::{self, RecordCache};
use crate::watch::Watches;

/// How often the store is asked what changed.
pub const FEED_INTERVAL: Duration = Duration::from_millis(100);

/// How many keys of our own are remembered until the feed notifies of them.
const SELF_WRITES_MAX: usize = 65_536;

/// What this session wrote itself and has not been notified of yet.
///
/// The feed notifies a gateway of its own changes too, and it should not forget what it has just
/// learnt by writing it. So each key is counted when a plan that writes it is sent, and a change is
/// taken for somebody else's only if the count does not cover it.
#[derive(Debug, Default)]
pub(crate) struct SelfWrites {
    counts: Mutex<HashMap<Key, u32>>,
}

impl SelfWrites {
    fn counts(&self) -> MutexGuard<'_, HashMap<Key, u32>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A plan is about to be sent.
    pub(crate) fn sent(&self, plan: &Plan) {
        let mut counts = self.counts();
        if counts.len() >= SELF_WRITES_MAX {
            // Some hints are then forgotten for nothing.
            counts.clear();
        }
        for key in cached_keys(plan) {
            *counts.entry(key.clone()).or_default() += 1;
        }
    }

    /// No notification will come of a plan that was sent, because it did not happen.
    pub(crate) fn dropped(&self, plan: &Plan) {
        let mut counts = self.counts();
        for key in cached_keys(plan) {
            decrement(&mut counts, key);
        }
    }

    /// Takes a notification of a change. Answers whether it is one of our own.
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

/// The keys of a plan whose records are remembered.
fn cached_keys(plan: &Plan) -> impl Iterator<Item = &Key> {
    plan.writes.iter().filter_map(|write| match write {
        Write::Put(key, _) | Write::Delete(key) if records::is_cached_space(key.space()) => {
            Some(key)
        }
        _ => None,
    })
}

/// The task that listens.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) store: Arc<dyn MetaStore>,
    pub(crate) records: Arc<RecordCache>,
    pub(crate) peers: Peers,
    pub(crate) self_writes: Arc<SelfWrites>,
    pub(crate) meters: Arc<Meters>,
    /// Told of names and nodes that others have changed.
    pub(crate) watches: Arc<Watches>,
    /// Notified when users or policies may have changed.
    pub(crate) access: watch::Sender<u64>,
    /// Notified when another session has begun or ended.
    pub(crate) sessions: Arc<Notify>,
    pub(crate) lock_notices: Arc<LockNotices>,
    /// Up to where notifications of changes have come.
    pub(crate) position: Position,
}

impl Listener {
    /// The position to begin with. Whatever is read after this is covered by the feed.
    pub(crate) async fn begin(store: &dyn MetaStore) -> Result<Position, StoreError> {
        match store.changes(None).await? {
            Changes::Notified { next, .. } | Changes::Gap { next } => Ok(next),
        }
    }

    /// Listens until the volume closes. While the store does not answer, nothing is missed: the
    /// position stays where it is.
    pub(crate) async fn run(mut self, closing: CancellationToken) {
        let mut ticks = tokio::time::interval(FEED_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut failing = false;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = closing.cancelled() => return,
            }
            let asked = Moment::now();
            match self.store.changes(Some(&self.position)).await {
                Ok(changes) => {
                    self.apply(changes);
                    self.peers.feed_checked(asked);
                    self.watches.feed_checked(asked);
                    self.peers.check(&*self.store).await;
                    failing = false;
                }
                Err(_) if failing => {}
                Err(error) => {
                    debug!(%error, "cannot ask what changed");
                    // A store that comes back may have forgotten what it had acknowledged.
                    self.peers.assume_peers();
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
                    access |= [space::ACCOUNT, space::USER, space::POLICY].contains(&key.space());
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
                // Whoever looks finds no hint that is older than the notice.
                keys.iter().for_each(|key| self.lock_notices.notified(key));
                if sessions {
                    self.lock_notices.notify_all();
                }
                if access {
                    self.access.send_modify(|version| *version += 1);
                }
            }
            Changes::Gap { next } => {
                warn!("more changed than the store remembers: forgetting all records");
                self.position = next;
                self.peers.assume_peers();
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

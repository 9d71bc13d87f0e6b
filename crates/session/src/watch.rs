//! Caches outside of this process, and their invalidation.
//!
//! The kernel of a mount caches names and attributes for as long as each answer allows. The mount
//! registers a [`NodeWatch`] here. Two rules keep the cached data true:
//!
//! - **Time.** Before a read, [`crate::Session::cache_validity`] returns how long its result may be
//!   cached: until the authority of the session ends, half a second at most (see [`crate::peers`]
//!   and [`crate::leases`]). If a peer may change records without notice it is zero, or with
//!   [`Coherence::Pushed`] it is [`PUSHED_CACHE_DURATION`].
//! - **Invalidation.** A change of this session is invalidated before its caller gets the answer.
//!   The [`NodeWatch`] is notified of each committed plan, and the answer waits until the watch has
//!   invalidated its caches, or until everything that was granted has expired. A change of a peer
//!   that gives notice is invalidated before the notice is acknowledged, thus before the change.
//!   With [`Coherence::Pushed`], a change of another session is invalidated when the feed reports
//!   it.
//!
//! While a batch of a peer is in flight, no result may be cached: it may be of before the batch,
//! and no second invalidation follows.
//!
//! For example, a program has called `stat` on a file, and the kernel may cache the size for 0.4 s.
//! An S3 client overwrites the file. The PUT is answered after the kernel has dropped the
//! attributes, so a `stat` after the PUT returns the new size.
//!
//! A watch is not notified of changes that were made through it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use record::Ino;
use record::key::space;
use runtime::Moment;
use store::{Key, Plan};
use tokio::sync::oneshot;

use crate::records::{Basis, SeqlockRead, orphaned};
use crate::times::{AUTHORITY_DURATION, PUSHED_CACHE_DURATION};

/// The time for which a cache may keep data beyond its validity: the kernel counts it in ticks, and
/// from when it stores the data.
const GRANT_GRACE: Duration = Duration::from_millis(100);

/// Consistency of caches outside of this process, such as the kernel's, while the session has peers
/// (other sessions of the volume).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coherence {
    /// Every change is visible at once, so nothing is cached.
    #[default]
    Strict,
    /// Data up to [`PUSHED_CACHE_DURATION`] old may be visible, while the store answers requests
    /// for its change feed.
    Pushed,
}

/// The time until which a cache outside of this process may keep data that was read from this
/// session.
#[derive(Clone, Copy, Debug, Default)]
pub struct CacheValidity {
    until: Option<Moment>,
    /// The state of the record cache when this was granted, if no other session could change
    /// records without notice then.
    pub(crate) seen: Option<SeqlockRead>,
    /// True if peers may change the data, and give notice before they do.
    pub(crate) is_leased: bool,
}

impl CacheValidity {
    /// Returns the remaining time; zero if the data may not be cached. It holds for a cache that
    /// does not store a result if it was invalidated after the request for the result.
    pub fn remaining(self) -> Duration {
        self.until.map_or(Duration::ZERO, Moment::remaining)
    }

    /// Returns the remaining time for a cache that may store a result although it was invalidated
    /// after the request for the result. This is zero if peers may change the data.
    pub fn remaining_if_unordered(self) -> Duration {
        if self.is_leased { Duration::ZERO } else { self.remaining() }
    }

    /// Returns the validity for data of which peers give no notice: zero if peers may change it.
    #[must_use]
    pub fn without_leases(self) -> CacheValidity {
        if self.is_leased { CacheValidity::default() } else { self }
    }

    /// Returns true if other sessions may change the cached data before it is invalidated.
    pub fn may_be_stale(self) -> bool {
        self.until.is_some() && self.seen.is_none()
    }
}

/// Names and nodes that changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeChanges {
    /// Directories and names in them, without a trailing slash: each was bound to another node, or
    /// removed.
    pub names: Vec<(Ino, Vec<u8>)>,
    /// Nodes whose attributes or content changed, including directories in which names changed.
    pub nodes: Vec<Ino>,
}

impl NodeChanges {
    /// Returns the names and nodes whose records have these keys. Other keys are ignored.
    fn from_keys<'k>(keys: impl Iterator<Item = &'k Key>) -> NodeChanges {
        let (mut names, mut nodes) = (BTreeSet::new(), BTreeSet::new());
        for key in keys {
            let ino = Ino(key.partition());
            match key.space() {
                space::INODE => drop(nodes.insert(ino)),
                // Its link count has changed.
                space::ORPHAN => nodes.extend(orphaned(key)),
                space::DENTRY => {
                    nodes.insert(ino);
                    let name = key.suffix();
                    let name = name.strip_suffix(b"/").unwrap_or(name);
                    if !name.is_empty() {
                        names.insert((ino, name.to_vec()));
                    }
                }
                _ => {}
            }
        }
        NodeChanges { names: names.into_iter().collect(), nodes: nodes.into_iter().collect() }
    }

    fn is_empty(&self) -> bool {
        self.names.is_empty() && self.nodes.is_empty()
    }
}

/// A component that lets caches outside of this process, such as the kernel's, keep names and
/// attributes, and invalidates them.
pub trait NodeWatch: fmt::Debug + Send + Sync {
    /// Invalidates these names and nodes, which were not changed through this watch. Sends `done`
    /// when the caches have dropped them. If `done` is dropped instead, the change waits until all
    /// granted times have expired. Must not block.
    fn changed(&self, changes: &NodeChanges, done: Option<oneshot::Sender<()>>);

    /// Invalidates these names and nodes, which a peer is going to change. Calls `done` when no
    /// cache answers with them any more, and none stores a result that was requested before. If
    /// `done` is dropped instead, the peer waits until all granted times have expired. Must not
    /// block.
    fn peer_changes(&self, changes: &NodeChanges, done: Acknowledge);

    /// Invalidates all cached names and nodes, because any record may have changed. Must not block.
    fn all_changed(&self);
}

/// Acknowledges the notice of a peer.
pub type Acknowledge = Box<dyn FnOnce() + Send>;

/// An invalidation for which the answer to a change waits.
#[derive(Debug)]
pub(crate) struct PendingInvalidation {
    done: oneshot::Receiver<()>,
    until: Moment,
}

impl PendingInvalidation {
    /// Waits until no outside cache has the old data: it was dropped, or its granted time has
    /// passed.
    pub(crate) async fn completed(self) {
        let waited = tokio::time::timeout(self.until.remaining(), self.done).await;
        if let Ok(Err(_dropped)) = waited {
            tokio::time::sleep(self.until.remaining()).await;
        }
    }
}

/// The registered watch (the component that invalidates outside caches), and the times until which
/// it may let them keep data.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    watch: RwLock<Option<Watch>>,
    times: Mutex<Times>,
}

/// A registered watch and the consistency that its caches need.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    pub(crate) watch: Arc<dyn NodeWatch>,
    pub(crate) coherence: Coherence,
}

#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// While the session has peers (other sessions): the time until which data may be cached,
    /// because the change feed has been read.
    feed_checked: Option<Moment>,
    /// The latest time until which the watch was permitted to let data be cached, and
    /// [`GRANT_GRACE`].
    granted: Option<Moment>,
    /// The number of batches of peers that are in flight or have an unknown outcome.
    peer_batches: usize,
    /// The time from which each lease was asked for with the mark that it may outlive its link.
    leases_outlive_links: Option<Moment>,
}

impl Times {
    /// Returns true if data may be cached that is read from now on under leases of all peers.
    fn may_grant_under_leases(&self) -> bool {
        self.peer_batches == 0 && self.leases_outlive_links.is_none_or(Moment::has_passed)
    }
}

impl Watches {
    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self) -> Option<Watch> {
        self.watch.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, watch: Option<Watch>) {
        *self.watch.write().unwrap_or_else(PoisonError::into_inner) = watch;
        // Leases that were asked for before, and perhaps without the mark, have ended then.
        self.times().leases_outlive_links = Some(Moment::now().after(AUTHORITY_DURATION));
    }

    /// Returns true if caches outside of this process may keep data that this session reads under a
    /// lease, also after the end of the process.
    pub(crate) fn may_outlive_links(&self) -> bool {
        self.watch().is_some() || self.granted().is_some()
    }

    /// Returns the registered watch and the latest time until which a watch may let data be cached,
    /// if that has not passed. The caches of a watch that was removed still keep their data until
    /// then.
    fn granted(&self) -> Option<(Option<Arc<dyn NodeWatch>>, Moment)> {
        let until = self.times().granted.filter(|until| !until.has_passed())?;
        Some((self.watch().map(|watch| watch.watch), until))
    }

    /// Returns the time until which the watch may let data be cached that is read from now on.
    /// `authority` is the time until which no other session changes records without notice, the
    /// state of the record cache, and the reason; `None` if another session may change records now.
    pub(crate) fn cache_validity(
        &self,
        authority: Option<(Moment, SeqlockRead, Basis)>,
    ) -> CacheValidity {
        let Some(Watch { coherence, .. }) = self.watch() else { return CacheValidity::default() };
        let mut times = self.times();
        let authority = authority.filter(|(_, _, basis)| match (basis, coherence) {
            (Basis::Alone, _) => true,
            (Basis::Leases, Coherence::Strict) => times.may_grant_under_leases(),
            // Peers do not wait for these caches.
            (Basis::Leases, Coherence::Pushed) => false,
        });
        let is_leased = authority.is_some_and(|(_, _, basis)| basis == Basis::Leases);
        let (authority, seen) = authority.map(|(until, seen, _)| (until, seen)).unzip();
        let until = match coherence {
            Coherence::Strict => authority,
            Coherence::Pushed => authority.or(times.feed_checked),
        };
        let until = until.filter(|until| !until.has_passed());
        if let Some(expires) = until.map(|until| until.after(GRANT_GRACE))
            && times.granted.is_none_or(|granted| granted.remaining() < expires.remaining())
        {
            times.granted = Some(expires);
        }
        CacheValidity { until, seen, is_leased }
    }

    /// Handles the notice of a peer's batch, which writes the records of these keys and is not sent
    /// to the store before `done` was called. Until [`Watches::peer_batches_ended`] no data may be
    /// cached.
    pub(crate) fn peer_batch_sent(&self, keys: &[Key], done: Acknowledge) {
        // Before the grants are read: a later grant sees the batch.
        self.times().peer_batches += 1;
        let Some((watch, _until)) = self.granted() else { return done() };
        let coherence = self.watch().map(|watch| watch.coherence);
        let changes = NodeChanges::from_keys(keys.iter());
        match (watch, coherence) {
            _ if changes.is_empty() => done(),
            (Some(_), Some(Coherence::Pushed)) => done(),
            (Some(watch), _) => watch.peer_changes(&changes, done),
            // Nothing invalidates the caches of a removed watch: the peer waits for their end.
            (None, _) => drop(done),
        }
    }

    /// Handles the end of `count` batches of peers.
    pub(crate) fn peer_batches_ended(&self, count: usize) {
        let mut times = self.times();
        times.peer_batches = times.peer_batches.saturating_sub(count);
    }

    /// Extends the time until which data may be cached while other sessions exist, because the
    /// change feed has delivered all changes up to the time `asked`.
    pub(crate) fn feed_checked(&self, asked: Moment) {
        self.times().feed_checked = Some(asked.after(PUSHED_CACHE_DURATION));
    }

    /// Invalidates the names and nodes that a committed plan of this session has changed in outside
    /// caches. The caller waits for the returned invalidation before it answers. Returns `None` if
    /// no cache can have old data of them.
    pub(crate) fn committed(&self, plan: &Plan) -> Option<PendingInvalidation> {
        // If nothing was granted lately, no cache can have old data, and the change need not wait.
        let (watch, until) = self.granted()?;
        let changes = NodeChanges::from_keys(plan.changed_records());
        if changes.is_empty() {
            return None;
        }
        let (done, completed) = oneshot::channel();
        // The watch is called before the change is answered, so that a reader after the answer
        // cannot meet old data.
        match watch {
            Some(watch) => watch.changed(&changes, Some(done)),
            // Nothing invalidates the caches of a removed watch: the change waits for their end.
            None => drop(done),
        }
        Some(PendingInvalidation { done: completed, until })
    }

    /// Invalidates the names and nodes in the records of these keys, which other sessions have
    /// changed. With [`Coherence::Strict`] no cache has them: the times of a session without peers
    /// end before the first change of a new session, and other changes were noticed before.
    pub(crate) fn notified<'k>(&self, keys: impl Iterator<Item = &'k Key>) {
        let is_pushed = |watch: &Watch| watch.coherence == Coherence::Pushed;
        if !self.watch().as_ref().is_some_and(is_pushed) {
            return;
        }
        let Some((Some(watch), _until)) = self.granted() else { return };
        let changes = NodeChanges::from_keys(keys);
        if !changes.is_empty() {
            watch.changed(&changes, None);
        }
    }

    /// Invalidates all cached names and nodes, because other sessions may have changed any record.
    pub(crate) fn all_changed(&self) {
        self.times().feed_checked = None;
        if let Some((Some(watch), _until)) = self.granted() {
            watch.all_changed();
        }
    }
}

#[cfg(test)]
mod tests;

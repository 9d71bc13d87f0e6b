//! What may be remembered outside of this process, and taking it back.
//!
//! Whoever shows the volume to others may let them remember what it was told: the kernel of a mount
//! remembers names and attributes, and asks again only when their time is over. Two rules keep that
//! true:
//!
//! - [`crate::Session::trust`] says until when what is read from now on may be remembered: for as long as
//!   this session relies on having no peers, half a second at most, see [`crate::peers`]. With peers
//!   it is not at all, or, if so wanted ([`Coherence::Pushed`]), for [`PUSHED_CACHE_DURATION`].
//! - What this session changes itself is taken back before its caller hears of it: a [`NodeWatch`] is
//!   told of each plan that was committed, and the answer waits until it has been heeded, or until
//!   all that was given out has run out. What others change is taken back when the feed tells of it.
//!
//! A watch is not told of changes that were made through it: it knows of them.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use record::Ino;
use record::key::space;
use runtime::Moment;
use store::{Key, Plan, Write};
use tokio::sync::oneshot;

use crate::records::SeqlockRead;

/// For how long what was read may be remembered elsewhere while there are peers, if it may: others'
/// changes take it back, most of them within [`crate::FEED_INTERVAL`].
pub const PUSHED_CACHE_DURATION: Duration = Duration::from_secs(1);

/// How true what others remember has to be while this session has peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coherence {
    /// They see every change at once, so that nothing is remembered.
    #[default]
    Strict,
    /// They may see what was so up to [`PUSHED_CACHE_DURATION`] before, as long as the feed is heard.
    Pushed,
}

/// Until when something may be remembered.
#[derive(Clone, Copy, Debug, Default)]
pub struct CacheValidity {
    until: Option<Moment>,
    /// What was current when this began, if nobody else could change it.
    pub(crate) seen: Option<SeqlockRead>,
}

impl CacheValidity {
    /// For how long from now on.
    pub fn left(self) -> Duration {
        self.until.map_or(Duration::ZERO, Moment::left)
    }

    /// Whether others may change meanwhile what is remembered, without its being taken back first.
    pub fn may_be_stale(self) -> bool {
        self.until.is_some() && self.seen.is_none()
    }
}

/// Names and nodes that changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeChanges {
    /// Directories, and names in them as file programs have them: bound to something else, or to
    /// nothing.
    pub names: Vec<(Ino, Vec<u8>)>,
    /// Nodes whose attributes or content changed, directories in which names did among them.
    pub nodes: Vec<Ino>,
}

impl NodeChanges {
    /// What the records under these keys say.
    fn from_keys<'k>(keys: impl Iterator<Item = &'k Key>) -> NodeChanges {
        let (mut names, mut nodes) = (BTreeSet::new(), BTreeSet::new());
        for key in keys {
            let ino = Ino(key.partition());
            match key.space() {
                space::INODE => drop(nodes.insert(ino)),
                // A node that is left to the reaper has lost its last name: its links change.
                space::ORPHAN => nodes.extend(orphan_ino(key)),
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

/// The node that the record under this key leaves to the reaper.
fn orphan_ino(key: &Key) -> Option<Ino> {
    key.suffix().try_into().ok().map(u64::from_be_bytes).map(Ino)
}

/// Whoever lets others remember what it was told.
pub trait NodeWatch: fmt::Debug + Send + Sync {
    /// These changed, and not through this watch. To be taken back; `done` is sent when they are. If
    /// it is dropped, whoever waits for it does so until all that was given out has run out. Must not
    /// wait.
    fn changed(&self, changes: &NodeChanges, done: Option<oneshot::Sender<()>>);

    /// Anything may have changed. Must not wait.
    fn all_changed(&self);
}

/// What is taken back before a change is answered.
#[derive(Debug)]
pub(crate) struct PendingInvalidation {
    done: oneshot::Receiver<()>,
    until: Moment,
}

impl PendingInvalidation {
    /// Waits until nobody remembers it any more.
    pub(crate) async fn completed(self) {
        let heeded = tokio::time::timeout(self.until.left(), self.done).await;
        if let Ok(Err(_dropped)) = heeded {
            tokio::time::sleep(self.until.left()).await;
        }
    }
}

/// Who watches, and until when what was given out lasts.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    watch: RwLock<Option<Watch>>,
    times: Mutex<Times>,
}

/// Who watches, and how true what they remember has to be.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    pub(crate) watch: Arc<dyn NodeWatch>,
    pub(crate) coherence: Coherence,
}

#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// Until when what follows from the feed may be remembered.
    feed_checked: Option<Moment>,
    /// Until when something may be remembered that was given out.
    granted: Option<Moment>,
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
    }

    /// Until when something may be remembered, of those who watch and have been given it.
    fn granted(&self) -> Option<(Arc<dyn NodeWatch>, Moment)> {
        let until = self.times().granted.filter(|until| !until.has_come())?;
        Some((self.watch()?.watch, until))
    }

    /// Until when what is read from now on may be remembered; `alone` says until when nobody else
    /// changes anything.
    pub(crate) fn cache_validity(&self, alone: Option<(Moment, SeqlockRead)>) -> CacheValidity {
        let Some(Watch { coherence, .. }) = self.watch() else { return CacheValidity::default() };
        let (alone, seen) = alone.unzip();
        let mut times = self.times();
        let until = match coherence {
            Coherence::Strict => alone,
            Coherence::Pushed => alone.or(times.feed_checked),
        };
        let until = until.filter(|until| !until.has_come());
        if let Some(until) = until
            && times.granted.is_none_or(|granted| granted.left() < until.left())
        {
            times.granted = Some(until);
        }
        CacheValidity { until, seen }
    }

    /// The feed has told of all that changed until `asked`.
    pub(crate) fn feed_checked(&self, asked: Moment) {
        self.times().feed_checked = Some(asked.after(PUSHED_CACHE_DURATION));
    }

    /// A plan was committed: what it changed is to be taken back.
    pub(crate) fn committed(&self, plan: &Plan) -> Option<PendingInvalidation> {
        let (watch, until) = self.granted()?;
        let keys = plan.writes.iter().filter_map(|write| match write {
            Write::Put(key, _) | Write::Delete(key) => Some(key),
            _ => None,
        });
        let changes = NodeChanges::from_keys(keys);
        if changes.is_empty() {
            return None;
        }
        let (done, completed) = oneshot::channel();
        watch.changed(&changes, Some(done));
        Some(PendingInvalidation { done: completed, until })
    }

    /// Others have changed records.
    pub(crate) fn notified<'k>(&self, keys: impl Iterator<Item = &'k Key>) {
        let Some((watch, _until)) = self.granted() else { return };
        let changes = NodeChanges::from_keys(keys);
        if !changes.is_empty() {
            watch.changed(&changes, None);
        }
    }

    /// Others may have changed anything.
    pub(crate) fn all_changed(&self) {
        self.times().feed_checked = None;
        if let Some((watch, _until)) = self.granted() {
            watch.all_changed();
        }
    }
}

#[cfg(test)]
mod tests;

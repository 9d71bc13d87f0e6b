//! Names that are rebound faster than the kernel can look them up and open them.
//!
//! The kernel looks up a name, and then opens the inode number that it got. If another client
//! rebinds the name in between, the open fails with `ESTALE`; the kernel looks up the name once
//! more and retries once. If that fails too, the program gets `ESTALE`, which a local disk never
//! returns. For example, a script replaces `status.json` by rename(2) a hundred times a second
//! while another one reads it.
//!
//! So a name that led to `ESTALE` is *watched*: each node to which it leads is pinned as if it were
//! open. A thread that got `ESTALE` before may open such a node although the name is already bound
//! to another one. It is a node that the name led to while the program's open(2) was running.
//!
//! Nothing is kept longer than [`KEPT_MAX_AGE`] and one flusher period, and at most [`KEPT_MAX`]
//! names and nodes are kept. Then the oldest one is dropped.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use record::Ino;
use volume::NodeName;

use crate::open::OpenFile;
use crate::stale_retries::RETRY_WITHIN;

/// The maximum number of watched names, and of pinned nodes. Each node may hold inline content in
/// memory.
const KEPT_MAX: usize = 64;

/// The time for which a name stays watched after the last `ESTALE` or retry concerned it, and a
/// node stays pinned after a watched name last led to it.
const KEPT_MAX_AGE: Duration = Duration::from_secs(10);

// The node of a watched name is still pinned when the thread that got `ESTALE` tries again.
const _: () = assert!(RETRY_WITHIN.as_millis() <= KEPT_MAX_AGE.as_millis());

/// The watched names (names that led to `ESTALE`, because other clients rebind them too fast), and
/// the pinned nodes to which they have led.
#[derive(Debug, Default)]
pub(crate) struct VolatileNames {
    /// False if both tables are empty: then lookups take no lock.
    any: AtomicBool,
    tables: Mutex<Tables>,
}

/// The watched names and the pinned nodes, each with the time at which it was last seen.
#[derive(Debug, Default)]
struct Tables {
    names: HashMap<NodeName, ((), Instant)>,
    nodes: HashMap<Ino, (Arc<OpenFile>, Instant)>,
}

impl VolatileNames {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches a name, because an open of the node that it led to got `ESTALE`: from now on each
    /// node to which it leads is pinned.
    pub(crate) fn watch(&self, name: NodeName) {
        insert(&mut self.tables().names, name, (), Instant::now());
        self.any.store(true, Ordering::Relaxed);
    }

    /// Returns true if a name is watched, so that each node to which it leads must be pinned.
    pub(crate) fn is_watched(&self, name: &NodeName) -> bool {
        self.any.load(Ordering::Relaxed) && self.tables().names.contains_key(name)
    }

    /// Pins a node to which a watched name has just led: keeps it as if it were open, so that an
    /// open that follows can succeed.
    pub(crate) fn keep(&self, file: OpenFile) {
        insert(&mut self.tables().nodes, file.ino, Arc::new(file), Instant::now());
    }

    /// Returns the node with this number if it is pinned.
    pub(crate) fn get(&self, ino: Ino) -> Option<Arc<OpenFile>> {
        self.find(ino, |_| true)
    }

    /// Returns a pinned node if a watched name led to it at or after `then`. Any thread may have
    /// done the lookup, since the kernel shares the result of one lookup among threads.
    pub(crate) fn get_since(&self, ino: Ino, then: Instant) -> Option<Arc<OpenFile>> {
        self.find(ino, |at| at >= then)
    }

    fn find(&self, ino: Ino, accepts: impl Fn(Instant) -> bool) -> Option<Arc<OpenFile>> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let tables = self.tables();
        tables.nodes.get(&ino).filter(|(_, at)| accepts(*at)).map(|(file, _)| Arc::clone(file))
    }

    /// Drops the watched names and pinned nodes that were last seen more than `KEPT_MAX_AGE` ago.
    pub(crate) fn expire(&self) {
        if !self.any.load(Ordering::Relaxed) {
            return;
        }
        let mut tables = self.tables();
        tables.names.retain(|_, ((), at)| at.elapsed() < KEPT_MAX_AGE);
        tables.nodes.retain(|_, (_, at)| at.elapsed() < KEPT_MAX_AGE);
        self.any.store(!tables.names.is_empty() || !tables.nodes.is_empty(), Ordering::Relaxed);
    }
}

/// Inserts an entry, or updates the time of the one that is there. Drops the oldest entry if the
/// table is full.
fn insert<K: Clone + Eq + Hash, V>(
    table: &mut HashMap<K, (V, Instant)>,
    key: K,
    value: V,
    at: Instant,
) {
    if table.len() >= KEPT_MAX && !table.contains_key(&key) {
        let oldest = table.iter().min_by_key(|(_, (_, at))| *at).map(|(key, _)| key.clone());
        oldest.map(|oldest| table.remove(&oldest));
    }
    let seen = &mut table.entry(key).or_insert((value, at)).1;
    *seen = at.max(*seen);
}

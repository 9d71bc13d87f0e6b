//! Names that lead elsewhere again and again.
//!
//! The kernel looks a name up and then asks for the node that it was told of. If another has taken the
//! name in between it is told so with ESTALE, looks the name up once more, and if that was in vain too
//! it is the program that is told: an error that no local disk knows. So of a name of which ESTALE was
//! told, what it is found to lead to is kept for a while as if it were open, and a thread that was told
//! ESTALE before and asks for that node is given it: it is what the name led to while the program's
//! call was under way.
//!
//! Nothing is kept for longer than [`KEPT_FOR`] and a turn, and never more than [`KEPT_MAX`]: then the
//! oldest goes.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use record::Ino;
use volume::NodeName;

use crate::open::OpenFile;

/// Names that are watched, and nodes that are kept: each may have a small content in memory.
const KEPT_MAX: usize = 64;

/// How long a name is watched and a node kept.
const KEPT_MAX_AGE: Duration = Duration::from_secs(5);

/// Names that are watched, and nodes that they have led to.
#[derive(Debug, Default)]
pub(crate) struct VolatileNames {
    /// Whether any name is watched, so that it costs nothing if none is.
    any: AtomicBool,
    tables: Mutex<Tables>,
}

/// Each with the time that it was last seen.
#[derive(Debug, Default)]
struct Tables {
    names: HashMap<NodeName, ((), Instant)>,
    nodes: HashMap<Ino, (Arc<OpenFile>, Instant)>,
}

impl VolatileNames {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// ESTALE is told of a node that was found by this name.
    pub(crate) fn watch(&self, name: NodeName) {
        insert(&mut self.tables().names, name, (), Instant::now());
        self.any.store(true, Ordering::Relaxed);
    }

    /// Whether what a name leads to is to be kept.
    pub(crate) fn is_watched(&self, name: &NodeName) -> bool {
        self.any.load(Ordering::Relaxed) && self.tables().names.contains_key(name)
    }

    /// Keeps what such a name was just found to lead to.
    pub(crate) fn keep(&self, file: OpenFile) {
        insert(&mut self.tables().nodes, file.ino, Arc::new(file), Instant::now());
    }

    /// What is kept of this node.
    pub(crate) fn get(&self, ino: Ino) -> Option<Arc<OpenFile>> {
        self.find(ino, |_| true)
    }

    /// What is kept of this node, if a name was found to lead to it since then. The kernel gives one
    /// thread what another one has asked for a moment before it.
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

    /// Lets go of what was seen too long ago.
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

/// Inserts what was seen at this time, unless it is there; then it has been seen again.
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

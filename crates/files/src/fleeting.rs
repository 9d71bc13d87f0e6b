//! Names that lead elsewhere again and again.
//!
//! The kernel looks a name up and then asks for the node that it was told of. If another has taken the
//! name in between it is told so with ESTALE, looks the name up once more, and if that was in vain too
//! it is the program that is told: an error that no local disk knows. So of a name of which ESTALE was
//! told, what it is found to lead to is kept for a while as if it were open, and whoever asks for that
//! node is given it: it is what the name led to while the program's call was under way.
//!
//! Nothing is kept for longer than two [turns](Fleeting::turn), and never more than [`KEPT_MAX`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use record::Ino;
use volume::NodeName;

use crate::open::OpenFile;

/// Names that are watched, and nodes that are kept: each may have a small content in memory.
const KEPT_MAX: usize = 64;

/// Names that are watched, and nodes that they have led to.
#[derive(Debug, Default)]
pub(crate) struct Fleeting {
    /// Whether any name is watched, so that it costs nothing if none is.
    any: AtomicBool,
    tables: Mutex<Tables>,
}

/// Each with whether it was there at the last turn.
#[derive(Debug, Default)]
struct Tables {
    names: HashMap<NodeName, bool>,
    nodes: HashMap<Ino, (Arc<OpenFile>, bool)>,
}

impl Fleeting {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// ESTALE is told of a node that was found by this name.
    pub(crate) fn missed(&self, name: NodeName) {
        let names = &mut self.tables().names;
        if names.len() < KEPT_MAX {
            names.insert(name, false);
            self.any.store(true, Ordering::Relaxed);
        }
    }

    /// Whether what a name leads to is to be kept.
    pub(crate) fn watches(&self, name: &NodeName) -> bool {
        self.any.load(Ordering::Relaxed) && self.tables().names.contains_key(name)
    }

    /// Keeps what such a name leads to.
    pub(crate) fn keep(&self, file: OpenFile) {
        let nodes = &mut self.tables().nodes;
        if nodes.len() < KEPT_MAX {
            nodes.entry(file.ino).or_insert_with(|| (Arc::new(file), false)).1 = false;
        }
    }

    /// What is kept of this node.
    pub(crate) fn of(&self, ino: Ino) -> Option<Arc<OpenFile>> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        self.tables().nodes.get(&ino).map(|(file, _)| Arc::clone(file))
    }

    /// Lets go of what was there at the last turn.
    pub(crate) fn turn(&self) {
        if !self.any.load(Ordering::Relaxed) {
            return;
        }
        let mut tables = self.tables();
        tables.names.retain(|_, was_there| !std::mem::replace(was_there, true));
        tables.nodes.retain(|_, (_, was_there)| !std::mem::replace(was_there, true));
        self.any.store(!tables.names.is_empty() || !tables.nodes.is_empty(), Ordering::Relaxed);
    }
}

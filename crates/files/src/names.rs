//! By which name a node was last found.
//!
//! The kernel speaks of a node by its number, and some changes must be made where its name is. What
//! is not remembered, or has become wrong, is answered with ESTALE, upon which the kernel looks the
//! name up anew. So a bounded memory is enough.

use quick_cache::sync::Cache;
use record::Ino;
use volume::NodeName;

/// Nodes whose names are remembered.
const NAMES_MAX: usize = 1 << 17;

/// Names of nodes, the last one of each.
#[derive(Debug)]
pub(crate) struct KnownNames(Cache<Ino, NodeName>);

impl KnownNames {
    pub(crate) fn new() -> KnownNames {
        KnownNames(Cache::new(NAMES_MAX))
    }

    /// A node was found, or put, under a name.
    pub(crate) fn insert(&self, ino: Ino, name: &NodeName) {
        if self.0.peek(&ino).as_ref() != Some(name) {
            self.0.insert(ino, name.clone());
        }
    }

    /// A name of a node has gone.
    pub(crate) fn remove(&self, ino: Ino, name: &NodeName) {
        self.0.remove_if(&ino, |known| known == name);
    }

    /// The name by which a node was last found.
    pub(crate) fn get(&self, ino: Ino) -> Option<NodeName> {
        self.0.get(&ino)
    }
}

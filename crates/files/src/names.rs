//! The name by which each node was last found.
//!
//! The kernel identifies a node by its inode number, but some changes must be planned where its
//! name is. If a name is not known here, or is out of date, the operation fails with `ESTALE`; the
//! kernel then looks up the name again. So a bounded cache is sufficient.
//!
//! For example, after a restart this cache is empty, and the first open of each inode that the
//! kernel still knows gets one `ESTALE` and one lookup.

use quick_cache::sync::Cache;
use record::Ino;
use volume::NodeName;

/// The maximum number of nodes with a known name.
const NAMES_MAX: usize = 1 << 17;

/// The name (directory and name in it) by which each node was last found, as far as it is still
/// remembered.
#[derive(Debug)]
pub(crate) struct KnownNames(Cache<Ino, NodeName>);

impl KnownNames {
    /// Returns an empty cache of names.
    pub(crate) fn new() -> KnownNames {
        KnownNames(Cache::new(NAMES_MAX))
    }

    /// Notes that a node was found, created or renamed under a name.
    pub(crate) fn insert(&self, ino: Ino, name: &NodeName) {
        if self.0.peek(&ino).as_ref() != Some(name) {
            self.0.insert(ino, name.clone());
        }
    }

    /// Forgets the name by which a node was last found, if it is this one.
    pub(crate) fn remove(&self, ino: Ino, name: &NodeName) {
        self.0.remove_if(&ino, |known| known == name);
    }

    /// Returns the name by which a node was last found; `None` if it is not known any more.
    pub(crate) fn get(&self, ino: Ino) -> Option<NodeName> {
        self.0.get(&ino)
    }
}

//! Open directories: positions and pages of names.
//!
//! A position is the number of entries before it. A handle remembers the name at which each page
//! begins. So a directory of any size is read with little memory, and seekdir(3) to an earlier
//! position finds its page again. Names that are added or removed meanwhile do not repeat or hide
//! other names for a reader that reads on.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use record::Ino;
use volume::{CacheValidity, ListedName};

use crate::attributes::{NodeKind, NodeStat};

/// An entry of a directory.
#[derive(Clone, Debug)]
pub struct DirectoryEntry {
    /// The name.
    pub name: Vec<u8>,
    /// The inode number.
    pub ino: Ino,
    /// The type of the node. Special files may show as [`NodeKind::File`] if `attributes` is
    /// `None`.
    pub kind: NodeKind,
    /// The position of the next entry, that is, the number of entries up to and including this one.
    /// A program passes it to go on after this entry.
    pub next: u64,
    /// The attributes of the node, if they were read with the name and are complete.
    pub attributes: Option<NodeStat>,
    /// The time for which the kernel may cache the name and the attributes.
    pub cache_validity: CacheValidity,
}

/// The open directories.
#[derive(Debug)]
pub(crate) struct Directories {
    /// The number of the last handle that was given, and the state of each open directory by its
    /// handle.
    pub(crate) cursors: Mutex<(u64, HashMap<u64, Arc<Cursor>>)>,
}

impl Directories {
    /// Returns an empty table of open directories. The first handle gets the number `handle + 1`.
    pub(crate) fn from(handle: u64) -> Directories {
        Directories { cursors: Mutex::new((handle, HashMap::new())) }
    }
}

/// The state of one open directory: the position of its reader, as the pages of names that it has
/// read.
#[derive(Debug)]
pub(crate) struct Cursor {
    pub(crate) ino: Ino,
    /// The inode of the parent, which is the entry `..`. The root is its own parent.
    pub(crate) parent: Ino,
    pub(crate) pages: tokio::sync::Mutex<Pages>,
}

/// The pages of names that a handle of a directory has read.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    /// The name at which each page begins, by the position of its first entry. `None` is the
    /// beginning of the directory.
    pub(crate) beginnings: BTreeMap<u64, Option<Vec<u8>>>,
    /// The page of names that was read last; only this one is kept.
    pub(crate) page: Option<Page>,
}

/// Consecutive names of a directory, as read from the volume at once.
#[derive(Debug)]
pub(crate) struct Page {
    /// The position of its first name in the directory.
    pub(crate) position: u64,
    /// The time for which the kernel could cache its names when the page was read.
    pub(crate) cache_validity: CacheValidity,
    pub(crate) names: Vec<ListedName>,
    /// The name at which the next page begins; `None` if this is the last page.
    pub(crate) next: Option<Vec<u8>>,
}

impl Page {
    /// Returns the position after the last name of the page.
    pub(crate) fn end(&self) -> u64 {
        self.position + self.names.len() as u64
    }
}

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
    /// The position of the next entry.
    pub next: u64,
    /// The attributes of the node, if they were read with the name and are complete.
    pub attributes: Option<NodeStat>,
    /// How long the kernel may cache the name and the attributes.
    pub cache_validity: CacheValidity,
}

/// The open directories.
#[derive(Debug)]
pub(crate) struct Directories {
    pub(crate) cursors: Mutex<(u64, HashMap<u64, Arc<Cursor>>)>,
}

impl Directories {
    /// Returns an empty table. The first handle has the number `handle + 1`.
    pub(crate) fn from(handle: u64) -> Directories {
        Directories { cursors: Mutex::new((handle, HashMap::new())) }
    }
}

/// The state of an open directory.
#[derive(Debug)]
pub(crate) struct Cursor {
    pub(crate) ino: Ino,
    pub(crate) parent: Ino,
    pub(crate) pages: tokio::sync::Mutex<Pages>,
}

/// The pages that a handle has read.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    /// For the position of the first entry of each page: the name at which the page begins, `None`
    /// for the first page.
    pub(crate) beginnings: BTreeMap<u64, Option<Vec<u8>>>,
    /// The page that was read last.
    pub(crate) page: Option<Page>,
}

#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) position: u64,
    /// How long its names could be cached when the page was read.
    pub(crate) cache_validity: CacheValidity,
    pub(crate) names: Vec<ListedName>,
    pub(crate) next: Option<Vec<u8>>,
}

impl Page {
    pub(crate) fn end(&self) -> u64 {
        self.position + self.names.len() as u64
    }
}

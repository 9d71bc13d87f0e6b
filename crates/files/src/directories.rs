//! Reading directories: pages of names behind positions.
//!
//! A position counts the entries before it, and a handle remembers where in the directory each of its
//! pages begins. So a directory of any size is read in little memory, and going back to a position
//! finds the page again; names that came or went meanwhile do not repeat or hide others as long as one
//! reads on.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use record::Ino;
use volume::{CacheValidity, ListedName};

use crate::attributes::{NodeKind, NodeStat};

/// An entry of a directory.
#[derive(Clone, Debug)]
pub struct DirectoryEntry {
    /// Its name.
    pub name: Vec<u8>,
    /// The node's number.
    pub ino: Ino,
    /// What it is.
    pub kind: NodeKind,
    /// Where one reads on behind it.
    pub next: u64,
    /// Its attributes, if they are known.
    pub attributes: Option<NodeStat>,
    /// Until when all this may be remembered.
    pub cache_validity: CacheValidity,
}

/// Directories that somebody has open.
#[derive(Debug)]
pub(crate) struct Directories {
    pub(crate) cursors: Mutex<(u64, HashMap<u64, Arc<Cursor>>)>,
}

impl Directories {
    /// None is open. Handles have the numbers behind this one.
    pub(crate) fn from(handle: u64) -> Directories {
        Directories { cursors: Mutex::new((handle, HashMap::new())) }
    }
}

/// An open directory.
#[derive(Debug)]
pub(crate) struct Cursor {
    pub(crate) ino: Ino,
    pub(crate) parent: Ino,
    pub(crate) pages: tokio::sync::Mutex<Pages>,
}

/// What a handle has read.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    /// The position of the first name of each page, and where the page begins.
    pub(crate) beginnings: BTreeMap<u64, Option<Vec<u8>>>,
    /// The page that was read last, the position of its first name, and whether it is the last one.
    pub(crate) page: Option<Page>,
}

#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) position: u64,
    /// Until when its names could be remembered when it was read.
    pub(crate) cache_validity: CacheValidity,
    pub(crate) names: Vec<ListedName>,
    pub(crate) next: Option<Vec<u8>>,
}

impl Page {
    pub(crate) fn end(&self) -> u64 {
        self.position + self.names.len() as u64
    }
}

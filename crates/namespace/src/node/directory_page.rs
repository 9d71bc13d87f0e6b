//! Reading a directory with all its records.
//!
//! For example, a fork of a bucket reads each directory page by page, and needs the record of each
//! inode.

use record::key::CounterKind;
use record::{Dentry, Ino, key};
use store::{Key, Read, Value};

use super::{FoundNode, KnownInode};
use crate::Halt;
use crate::run::{Env, Planner, Step};
use crate::view::{View, after, decode};

/// A dentry (the binding of a name to an inode), and the inode that it binds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundName {
    /// The key of the dentry, with the directory and the name.
    pub key: Key,
    /// The dentry's bytes, for guards.
    pub value: Value,
    /// The dentry, decoded.
    pub dentry: Dentry,
    /// The record of the inode. `None` if the inode is missing.
    pub inode: Option<Value>,
}

impl BoundName {
    /// The name in its sorted form (see [`record::SortKey`]).
    pub fn sort_key(&self) -> &[u8] {
        self.key.suffix()
    }
}

/// A directory and some of its dentries, from one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryPage {
    /// The directory itself, with its attributes.
    pub directory: FoundNode,
    /// The dentries, in the order of their keys.
    pub names: Vec<BoundName>,
    /// The start of the next page; `None` if this is the last.
    pub next: Option<Vec<u8>>,
}

/// Reads a directory and a page of its dentries, with their inodes. One round trip.
///
/// Unlike [`crate::ReadNames`], it returns all dentries: also the S3 object `directory/`, and files
/// that a directory of the same name hides.
#[derive(Clone, Debug)]
pub struct ReadDirectoryPage<'a> {
    /// The inode number of the directory.
    pub directory: Ino,
    /// The start of the page: [`DirectoryPage::next`] of the page before, or `None` for the first
    /// page.
    pub from: Option<&'a [u8]>,
    /// The most dentries of the page.
    pub limit: u32,
}

impl Planner for ReadDirectoryPage<'_> {
    type Output = DirectoryPage;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<DirectoryPage>, Halt> {
        let (first, end) = key::dentries(self.directory);
        let start = self.from.map_or(first, |from| key::dentry(self.directory, from));
        let follow = Some(key::dentry_to_inode());
        let range = Read::Range { start, end, limit: self.limit, follow };
        // The counters are needed only for a directory. They are requested before the inode is
        // known to be one, to save a round trip.
        let counters = [CounterKind::Modified, CounterKind::Directories];
        let counters = counters.map(|kind| view.counter(&key::counter(self.directory, kind)));
        let entries = view.ranges(&[range]);
        let known = KnownInode::directory(view, self.directory)?;
        for counter in counters {
            counter?;
        }
        let directory = FoundNode::of(view, self.directory, known)?;
        let entries: Vec<_> = entries?.into_iter().flatten().collect();
        let full = entries.len() >= self.limit as usize;
        let next = entries.last().filter(|_| full).map(|last| after(&last.key).suffix().to_vec());
        let mut names = Vec::with_capacity(entries.len());
        for entry in entries {
            let dentry = decode(&entry.key, &entry.value, Dentry::decode)?;
            let inode = entry.target.whole().cloned();
            names.push(BoundName { key: entry.key, value: entry.value, dentry, inode });
        }
        Ok(Step::Done(DirectoryPage { directory, names, next }))
    }
}

//! All that a directory holds, as its records say it.

use record::key::CounterKind;
use record::{Dentry, Ino, key};
use store::{Key, Read, Value};

use super::{FoundNode, Known};
use crate::Halt;
use crate::run::{Env, Planner, Step};
use crate::view::{View, after, decode};

/// A dentry, and what it binds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundName {
    /// Its key.
    pub key: Key,
    /// Its bytes.
    pub value: Value,
    /// What these say.
    pub dentry: Dentry,
    /// The record of the inode that it binds.
    pub inode: Option<Value>,
}

impl BoundName {
    /// The name as it sorts.
    pub fn sort_key(&self) -> &[u8] {
        self.key.suffix()
    }
}

/// A directory, and some of its dentries, of one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryPage {
    /// The directory.
    pub directory: FoundNode,
    /// Dentries, in their order.
    pub names: Vec<BoundName>,
    /// Where the next page begins; none if this was the last.
    pub next: Option<Vec<u8>>,
}

/// Reads a directory and a page of its dentries with the inodes that they bind: one round trip.
///
/// Unlike [`crate::ReadNames`] this is all that stands there: also the object that stands for the
/// directory, and files behind directories of the same name.
#[derive(Clone, Debug)]
pub struct ReadDirectoryPage<'a> {
    /// The directory.
    pub directory: Ino,
    /// Where the page begins, as [`DirectoryPage::next`] said; at the first name if nowhere.
    pub from: Option<&'a [u8]>,
    /// The most dentries to read.
    pub limit: u32,
}

impl Planner for ReadDirectoryPage<'_> {
    type Output = DirectoryPage;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<DirectoryPage>, Halt> {
        let (first, end) = key::dentries(self.directory);
        let start = self.from.map_or(first, |from| key::dentry(self.directory, from));
        let follow = Some(key::dentry_to_inode());
        let range = Read::Range { start, end, limit: self.limit, follow };
        // Asked for together, though the first answer says what of it is needed.
        let counters = [CounterKind::Modified, CounterKind::Directories];
        let counters = counters.map(|kind| view.counter(&key::counter(self.directory, kind)));
        let entries = view.ranges(&[range]);
        let known = Known::directory(view, self.directory)?;
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

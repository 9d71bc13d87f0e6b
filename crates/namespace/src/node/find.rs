//! Finding a node by name or by number.

use record::key::CounterKind;
use record::{Ino, Inode, Kind, Timestamp, key};
use store::Value;

use super::{Known, NodeName};
use crate::run::{Env, Planner, Step};
use crate::view::View;
use crate::{FsError, Halt};

/// A file or directory as found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundNode {
    /// Its number.
    pub ino: Ino,
    /// What it is. A directory's times and links are here as of now.
    pub inode: Inode,
    /// The inode's record.
    pub record: Value,
    /// Of a directory.
    pub counts: Option<DirectoryCounts>,
}

/// What counters say of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectoryCounts {
    /// Directories in it.
    pub directories: u64,
}

impl FoundNode {
    /// Links as `st_nlink` has them.
    pub fn links(&self) -> u64 {
        match self.counts {
            Some(counts) => 2 + counts.directories,
            None => u64::from(self.inode.links()),
        }
    }

    /// What was just made.
    pub fn made(ino: Ino, inode: Inode) -> FoundNode {
        let record = inode.encode(&key::inode(ino));
        let is_directory = inode.kind() == Kind::Directory;
        FoundNode { ino, inode, record, counts: is_directory.then(DirectoryCounts::default) }
    }

    /// What is known of an inode, with what counters say of it if it is a directory.
    pub(super) fn of(view: &mut View<'_>, ino: Ino, known: Known) -> Result<FoundNode, Halt> {
        let Known { record, mut inode, .. } = known;
        if inode.kind() != Kind::Directory {
            return Ok(FoundNode { ino, inode, record, counts: None });
        }
        let modified = view.counter(&key::counter(ino, CounterKind::Modified));
        let directories = view.counter(&key::counter(ino, CounterKind::Directories));
        let (modified, directories) = (modified?, directories?);
        // Whoever sets the times clears the counter, so that what it says came later.
        if modified != 0 {
            let modified = Timestamp::from_micros(modified);
            inode.attributes.modified = modified;
            inode.attributes.status_changed = inode.attributes.status_changed.max(modified);
        }
        let directories = u64::try_from(directories).unwrap_or(0);
        Ok(FoundNode { ino, inode, record, counts: Some(DirectoryCounts { directories }) })
    }
}

/// Finds what a name is bound to. One round trip when nothing or a file is; of a directory that is
/// not remembered one more.
#[derive(Clone, Debug)]
pub struct FindName<'a> {
    /// Where.
    pub name: &'a NodeName,
}

impl Planner for FindName<'_> {
    type Output = FoundNode;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<FoundNode>, Halt> {
        let (bound, target) = self.name.find(view)?.ok_or(FsError::NoSuchKey)?;
        let ino = bound.dentry.ino;
        // A name and its inode are of one snapshot, unless they were pieced together from hints.
        // Then they are read anew.
        let record = target.ok_or(FsError::NoSuchKey)?;
        let known = Known::of(key::inode(ino), record)?;
        Ok(Step::Done(FoundNode::of(view, ino, known)?))
    }
}

/// Finds a node by its number, and whether it is left to the reaper: then its last name is gone,
/// though its record still has the links that it had. One round trip.
#[derive(Clone, Debug)]
pub struct FindNodeOrOrphan {
    /// The number.
    pub ino: Ino,
}

impl Planner for FindNodeOrOrphan {
    /// The node, and true if it is left to the reaper.
    type Output = (FoundNode, bool);

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<(FoundNode, bool)>, Halt> {
        // Both are asked for before either is looked at, so that they come in one round trip.
        let known = Known::find(view, self.ino);
        let orphan = view.record(&key::orphan(self.ino));
        let (known, orphan) = (known?, orphan?);
        Ok(Step::Done((FoundNode::of(view, self.ino, known)?, orphan.is_some())))
    }
}

/// Finds what has a number: one round trip.
#[derive(Clone, Debug)]
pub struct FindNode {
    /// The number.
    pub ino: Ino,
}

impl Planner for FindNode {
    type Output = FoundNode;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<FoundNode>, Halt> {
        let known = Known::find(view, self.ino)?;
        Ok(Step::Done(FoundNode::of(view, self.ino, known)?))
    }
}

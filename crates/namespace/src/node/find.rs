//! Finding a node by its name or by its inode number.
//!
//! For example, a mount answers `lookup` with [`FindName`] and `getattr` with [`FindNode`]. A
//! directory needs more than its inode: its modification time and its number of subdirectories are
//! counters, which are merged into the answer here.

use record::key::CounterKind;
use record::{Ino, Inode, Kind, Superseded, Timestamp, key};
use store::Value;

use super::{KnownInode, NodeName};
use crate::inode_state::is_named;
use crate::run::{Env, Planner, Step};
use crate::view::{View, decode};
use crate::{FsError, Halt};

/// A file, directory or other node with its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundNode {
    /// The inode number of the node.
    pub ino: Ino,
    /// The inode of the node. For a directory, the times already include those of its counters.
    pub inode: Inode,
    /// The bytes of the inode's record, for guards.
    pub record: Value,
    /// The counters of a directory; `None` for other nodes.
    pub counts: Option<DirectoryCounts>,
}

/// The counters of one directory that its answer contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectoryCounts {
    /// The number of subdirectories.
    pub directories: u64,
}

impl FoundNode {
    /// The number of links as `st_nlink` reports it. A directory has 2 and one for each
    /// subdirectory.
    pub fn links(&self) -> u64 {
        match self.counts {
            Some(counts) => 2 + counts.directories,
            None => u64::from(self.inode.links()),
        }
    }

    /// The answer for a node that was just created with this inode.
    pub fn made(ino: Ino, inode: Inode) -> FoundNode {
        let record = inode.encode(&key::inode(ino));
        let is_directory = inode.kind() == Kind::Directory;
        FoundNode { ino, inode, record, counts: is_directory.then(DirectoryCounts::default) }
    }

    /// Turns a known inode into an answer. For a directory, adds its counters: the number of
    /// subdirectories, and the time of the last change of a name.
    pub(super) fn of(view: &mut View<'_>, ino: Ino, known: KnownInode) -> Result<FoundNode, Halt> {
        let KnownInode { record, mut inode, .. } = known;
        if inode.kind() != Kind::Directory {
            return Ok(FoundNode { ino, inode, record, counts: None });
        }
        let modified = view.counter(&key::counter(ino, CounterKind::Modified));
        let directories = view.counter(&key::counter(ino, CounterKind::Directories));
        let (modified, directories) = (modified?, directories?);
        // A plan that sets the times of a directory clears this counter. So a value other than 0 is
        // later than the time in the inode.
        if modified != 0 {
            let modified = Timestamp::from_micros(modified);
            inode.attributes.modified = modified;
            inode.attributes.status_changed = inode.attributes.status_changed.max(modified);
        }
        let directories = u64::try_from(directories).unwrap_or(0);
        Ok(FoundNode { ino, inode, record, counts: Some(DirectoryCounts { directories }) })
    }
}

/// Finds the node that a name is bound to. Fails with `NoSuchKey` if the name is free. One round
/// trip if the name is free or bound to a file. A directory that is not cached takes one more, for
/// its counters.
#[derive(Clone, Debug)]
pub struct FindName<'a> {
    /// The name to find.
    pub name: &'a NodeName,
}

impl Planner for FindName<'_> {
    type Output = FoundNode;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<FoundNode>, Halt> {
        let (bound, target) = self.name.find(view)?.ok_or(FsError::NoSuchKey)?;
        let ino = bound.dentry.ino;
        // A dentry and its inode come from one snapshot, unless they are hints of different times.
        // In that case the error makes the run read both again.
        let record = target.ok_or(FsError::NoSuchKey)?;
        let known = KnownInode::of(key::inode(ino), record)?;
        Ok(Step::Done(FoundNode::of(view, ino, known)?))
    }
}

/// Finds a node by its number, and returns true with it if no name is bound to it any more. Either
/// it is an orphan, which the reaper will delete and whose inode still shows the number of links
/// that it had. Or it is a file that only version records bind: for example, a PUT has replaced its
/// key in a bucket with versions or a trash.
///
/// Fails with `Stale` if the node does not exist. One round trip; a directory that is not cached
/// takes one more, for its counters.
#[derive(Clone, Debug)]
pub struct FindUnlinked {
    /// The inode number of the node to find.
    pub ino: Ino,
}

impl Planner for FindUnlinked {
    /// The node, and true if no name is bound to it.
    type Output = (FoundNode, bool);

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<(FoundNode, bool)>, Halt> {
        // All records are requested before a result is used, so that they take one round trip.
        let known = KnownInode::find(view, self.ino);
        let orphan = view.record(&key::orphan(self.ino));
        let superseded = key::superseded(self.ino);
        let versions = view.record(&superseded);
        let found = FoundNode::of(view, self.ino, known?);
        let (orphan, versions, found) = (orphan?, versions?, found?);
        let versions = versions.map(|value| decode(&superseded, &value, Superseded::decode));
        let versions = versions.transpose()?;
        let only_versions = versions.is_some_and(|versions| !is_named(&found.inode, &versions));
        let is_unlinked = orphan.is_some() || only_versions;
        Ok(Step::Done((found, is_unlinked)))
    }
}

/// Finds a node by its number. Fails with `Stale` if it does not exist. One round trip; a directory
/// that is not cached takes one more, for its counters.
#[derive(Clone, Debug)]
pub struct FindNode {
    /// The inode number of the node to find.
    pub ino: Ino,
}

impl Planner for FindNode {
    type Output = FoundNode;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<FoundNode>, Halt> {
        let known = KnownInode::find(view, self.ino)?;
        Ok(Step::Done(FoundNode::of(view, self.ino, known)?))
    }
}

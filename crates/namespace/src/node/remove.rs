//! Removing names: `unlink` and `rmdir`.
//!
//! For example, a program removes one of two hard links: the plan deletes the dentry and decrements
//! the link count of the inode. If it removes the last one, the plan adds an orphan, and the reaper
//! deletes the inode and the blocks later.

use record::{Dentry, Ino, Kind, XattrPlace, key};
use store::{Guard, Plan, Write};

use super::counts::{self, Counts};
use super::{KnownInode, NodeName, keeping};
use crate::path::{self, Bound};
use crate::remove::empty_but;
use crate::run::{Env, Planner, Step};
use crate::unbind::Unbinding;
use crate::view::View;
use crate::{FsError, Halt};

/// The node whose name was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovedName {
    /// The inode number of the node whose name was removed.
    pub ino: Ino,
    /// The kind of the node whose name was removed.
    pub kind: Kind,
    /// True if the node whose name was removed has no other name.
    pub last: bool,
}

/// Removes a name from any node but a directory. One round trip if the name is cached. Fails with
/// `NoSuchKey` or `IsADirectory`.
#[derive(Clone, Debug)]
pub struct RemoveName<'a> {
    /// The name to remove.
    pub name: &'a NodeName,
}

impl Planner for RemoveName<'_> {
    type Output = RemovedName;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<RemovedName>, Halt> {
        let parent = KnownInode::parent(view, self.name.directory)?;
        let bound = self.name.bound(view)?.ok_or(FsError::NoSuchKey)?;
        if bound.is_directory() {
            return Err(FsError::IsADirectory.into());
        }
        let mut plan = Plan::default();
        self.name.guard_bound(&bound, &mut plan);
        let mut counts = Counts::default();
        let bucket = parent.inode.bucket;
        counts.name(self.name.directory, bucket, bound.dentry.kind, -1);
        plan.writes.push(Write::Delete(bound.key.clone()));
        let mut unbinding = Unbinding::new(bucket);
        let Dentry { ino, kind, linked, .. } = bound.dentry;
        // In a bucket with versions or a trash the object is kept as a version, and its inode keeps
        // a reference.
        let versions = match kind {
            Kind::File => keeping::versions(view, &parent, &self.name.name, &mut plan)?,
            Kind::Directory | Kind::Symlink | Kind::Special => None,
        };
        match &versions {
            Some(versions) => {
                versions.delete(view, env, Some(&bound.dentry), &mut plan, &mut unbinding)?;
            }
            None => unbinding.take(&bound.dentry),
        }
        let unbound = unbinding.finish(view, env, &mut plan)?;
        counts.add(bucket, key::CounterKind::Bytes, -unbound.bytes);
        counts.finish(env, &mut plan);
        let last = unbound.ended.contains(&ino) || (versions.is_some() && !linked);
        Ok(Step::Commit(plan, RemovedName { ino, kind, last }))
    }
}

/// Removes an empty directory, and the S3 object `directory/` if there is one. Fails with
/// `NoSuchKey`, `NotADirectory` or `DirectoryNotEmpty`.
#[derive(Clone, Debug)]
pub struct RemoveDirectory<'a> {
    /// The name of the directory to remove.
    pub name: &'a NodeName,
}

impl Planner for RemoveDirectory<'_> {
    type Output = RemovedName;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<RemovedName>, Halt> {
        let parent = KnownInode::parent(view, self.name.directory)?;
        let bound = self.name.bound(view)?.ok_or(FsError::NoSuchKey)?;
        if !bound.is_directory() {
            return Err(FsError::NotADirectory.into());
        }
        let mut plan = Plan { guards: vec![bound.guard()], writes: Vec::new() };
        let mut counts = Counts::default();
        counts.name(self.name.directory, parent.inode.bucket, Kind::Directory, -1);
        plan.writes.push(Write::Delete(bound.key.clone()));
        empty_directory(view, env, &bound, &mut counts, &mut plan)?;
        counts.finish(env, &mut plan);
        let Dentry { ino, kind, .. } = bound.dentry;
        Ok(Step::Commit(plan, RemovedName { ino, kind, last: true }))
    }
}

/// Adds the removal of a directory's inode and counters to a plan, and guards that the directory is
/// empty. The caller removes its dentry. The one name that may be left is the empty name: the S3
/// object whose key ends with `/`. It is removed, too.
///
/// Fails with `DirectoryNotEmpty` if there is any other name.
pub(super) fn empty_directory(
    view: &mut View<'_>,
    env: &Env,
    bound: &Bound,
    counts: &mut Counts,
    plan: &mut Plan,
) -> Result<(), Halt> {
    let ino = bound.dentry.ino;
    let (start, end) = key::dentries(ino);
    // Two names are enough to decide: the empty name and any other.
    let names = view.range(start, end, 2);
    let directory = KnownInode::directory(view, ino);
    let (names, directory) = (names?, directory?);
    let bucket = directory.inode.bucket;
    let mut leaving = Vec::new();
    for name in names {
        if !name.key.suffix().is_empty() {
            return Err(FsError::DirectoryNotEmpty.into());
        }
        leaving.push(path::bound(&name.key, name.value)?);
    }
    let mut unbinding = Unbinding::new(bucket);
    for marker in &leaving {
        plan.guards.push(marker.guard());
        plan.writes.push(Write::Delete(marker.key.clone()));
        match keeping::versions(view, &directory, b"", plan)? {
            Some(versions) => {
                versions.delete(view, env, Some(&marker.dentry), plan, &mut unbinding)?;
            }
            None => unbinding.take(&marker.dentry),
        }
        counts.add(bucket, key::CounterKind::Objects, -1);
    }
    let unbound = unbinding.finish(view, env, plan)?;
    counts.add(bucket, key::CounterKind::Bytes, -unbound.bytes);
    // These guards and the deletion of the inode exclude a concurrent creation: that plan guards
    // the inode.
    plan.guards.extend(empty_but(ino, &leaving));
    plan.guards.push(directory.guard());
    plan.writes.push(Write::Delete(directory.key.clone()));
    for xattr in &directory.inode.xattrs {
        if matches!(xattr.value, XattrPlace::Apart(_)) {
            plan.writes.push(Write::Delete(key::xattr(ino, &xattr.name)));
        }
    }
    counts::clear(ino, plan);
    debug_assert!(plan.guards.iter().any(|guard| matches!(guard, Guard::Empty(..))));
    Ok(())
}

//! Adding a name to a node: `link`.
//!
//! For example, a program links `a` as `b`: the plan writes the dentry of `b`, increments the link
//! count, and marks the dentry of `a` as linked.

use record::{Dentry, Ino, InodeBody, Kind, key};
use store::{Guard, Plan, Write};

use super::counts::Counts;
use super::{KnownInode, NodeName, RetentionChange, keeping, rewrite_name};
use crate::inode_state::{Change, admit};
use crate::run::{Env, Planner, Step};
use crate::view::View;
use crate::{FoundNode, FsError, Halt};

/// The most hard links of a file in a bucket with versions or a trash. Each of them may become a
/// version record, and all of these must fit into the file's [`record::Superseded`] record and into
/// one plan that moves them to a copy.
pub const VERSIONED_LINKS_MAX: u32 = 768;

/// Adds a name to a node. One round trip if all its records are cached. Fails with `NameExists` if
/// the name is bound, with `NoSuchKey` if the node is removed, with `LinkedDirectory` for a
/// directory, with `OtherBucket` for a name in another bucket, and with `TooManyLinks`.
///
/// A dentry of a node with several names is marked as linked, so that its removal looks at the
/// inode. So the second name also changes the first dentry, which the caller must know.
#[derive(Clone, Debug)]
pub struct LinkNode<'a> {
    /// The inode number of the node that gets a further name.
    pub ino: Ino,
    /// A name that the node has, if it has one. If it has exactly one, the plan marks the dentry of
    /// that name as linked, and fails with `Stale` if this name is not it.
    pub known_name: Option<&'a NodeName>,
    /// The new name.
    pub to: &'a NodeName,
}

/// The result of a [`LinkNode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linked {
    /// The node with its new link count.
    pub node: FoundNode,
    /// True if the node was created unlinked, and this is its first name.
    pub is_first_name: bool,
    /// The retention of a file before and after, if the default retention of the bucket changed it.
    pub retention: Option<RetentionChange>,
}

impl Planner for LinkNode<'_> {
    type Output = Linked;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<Linked>, Halt> {
        let parent = KnownInode::parent(view, self.to.directory);
        let known = KnownInode::find(view, self.ino);
        let (parent, known) = (parent?, known?);
        let mut inode = known.inode.clone();
        if inode.kind() == Kind::Directory {
            return Err(FsError::LinkedDirectory.into());
        }
        if inode.bucket != parent.inode.bucket {
            return Err(FsError::OtherBucket.into());
        }
        let mut plan =
            Plan { guards: vec![parent.guard_present(), known.guard()], writes: Vec::new() };
        self.to.guard_free(view, &mut plan)?;
        if inode.kind() == Kind::File {
            admit(view, env, (self.ino, &inode), Change::Name, &mut plan)?;
        }
        let links = inode.links();
        if inode.kind() == Kind::File && links >= VERSIONED_LINKS_MAX {
            let bucket = keeping::bucket_of(view, inode.bucket)?;
            if bucket.dentry.versioning.keeps() {
                return Err(FsError::TooManyLinks.into());
            }
        }
        // A node without a name may be linked only if it was created unlinked.
        let orphan = key::orphan(self.ino);
        if links > 0 {
            // The last name of this node is removed. Its record remains with the old link count
            // until the reaper deletes it, and it must not get a name again.
            if view.guess(&orphan, None).is_some() {
                return Err(FsError::NoSuchKey.into());
            }
            plan.guards.push(Guard::Absent(orphan.clone()));
        }
        if links == 0 {
            // The node was created unlinked. Its new name ends its state as an orphan.
            let value = view.record(&orphan)?.ok_or(FsError::NoSuchKey)?;
            plan.guards.push(Guard::Equals(orphan.clone(), value));
            plan.writes.push(Write::Delete(orphan));
        } else if links == 1 {
            let name = self.known_name;
            if let InodeBody::File(file) = &mut inode.body {
                file.marked_in_dentry = false;
            }
            rewrite_name(view, self.ino, name, &mut plan, |dentry| Dentry {
                linked: true,
                self_contained: None,
                ..dentry
            })?;
        }
        let mut counts = Counts::default();
        counts.name(self.to.directory, inode.bucket, inode.kind(), 1);
        let slot = self.to.file_slot();
        let mut dentry = Dentry { linked: links > 0, ..Dentry::of(self.ino, inode.kind()) };
        if inode.kind() == Kind::File {
            let to = (&parent, &self.to.name[..]);
            dentry.version = keeping::version_for_new_name(view, env, to, &mut counts, &mut plan)?;
        }
        counts.finish(env, &mut plan);
        keeping::guard_quota(view, inode.bucket, &mut plan)?;
        plan.writes.push(Write::Put(slot.clone(), dentry.encode(&slot)));
        inode.attributes.status_changed = env.now;
        let retention = keeping::default_retention(view, env, inode.bucket, &mut plan)?;
        if let (InodeBody::File(file), Some(default)) = (&mut inode.body, retention) {
            file.object.lock.retain(default, env.earliest_now);
        }
        if let Some(links) = inode.links_mut() {
            *links = links.saturating_add(1);
        }
        let record = inode.encode(&known.key);
        plan.writes.push(Write::Put(known.key, record.clone()));
        let retention = RetentionChange::between(&known.inode, &inode);
        let node = FoundNode { ino: self.ino, inode, record, counts: None };
        Ok(Step::Commit(plan, Linked { node, is_first_name: links == 0, retention }))
    }
}

//! Creating a file in two steps: deciding about the creation, and committing it later together with
//! the file's first content and attributes.
//!
//! The decision reads current records and changes nothing. It has the errors that a program expects
//! from the creation, such as `NameExists`. The commit guards everything again, so a creation that
//! has become impossible is refused and never replaces another node.
//!
//! For example, a mount that has the volume alone answers `open(2)` of a new file after the
//! decision, collects the bytes of the program's writes, and commits name and bytes at `close(2)`.

use record::{Content, Dentry, Ino, Inode, InodeBody, Kind, Quota, Sum, Tag, key};
use store::{Plan, Write};

use super::ContentEdit;
use crate::node::attributes::AttributeChange;
use crate::node::counts::Counts;
use crate::node::make::{self, MakeNode};
use crate::node::{KnownInode, NodeName, keeping};
use crate::run::{Env, Planner, Step};
use crate::stage::guard_absent;
use crate::view::View;
use crate::{FoundNode, FsError, Halt};

/// Returns true if the creation of a file in this bucket depends on nothing but the directory.
fn is_plain(bucket: &Dentry) -> bool {
    let Dentry { versioning, locks, quota, encrypts, .. } = bucket;
    !versioning.keeps() && !locks && *quota == Quota::NONE && !encrypts
}

/// Decides about the creation of a file under a free name, and commits nothing. Fails as
/// [`MakeNode`] does.
#[derive(Clone, Debug)]
pub struct PlanFile<'a> {
    /// The creation. Its name must not be `None`.
    pub creation: MakeNode<'a>,
}

impl Planner for PlanFile<'_> {
    /// The inode of the new file, for [`MakeFile`]. `None` if the file must be created at once,
    /// because its bucket has a quota, versions, a trash, object locks or a default encryption:
    /// then the commit alone can decide.
    type Output = Option<Inode>;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<Option<Inode>>, Halt> {
        let MakeNode { directory, name, .. } = self.creation;
        let name = name.ok_or(FsError::Stale)?.to_vec();
        let parent = KnownInode::parent(view, directory)?;
        let bucket = keeping::bucket_of(view, parent.inode.bucket);
        // The name goes into the same round trip as the bucket.
        let bound = NodeName { directory, name }.bound(view)?;
        let bucket = bucket?.dentry;
        if bound.is_some() {
            return Err(FsError::NameExists.into());
        }
        let inode = is_plain(&bucket).then(|| self.creation.inode(&parent, env));
        Ok(Step::Done(inode))
    }
}

/// The first content of a file. Its blocks must be durable.
#[derive(Clone, Debug)]
pub struct FirstContent {
    /// Inline bytes, or slices in order.
    pub content: Content,
    /// The size of the file in bytes.
    pub size: u64,
    /// Checksums of the content.
    pub sums: Vec<Sum>,
    /// The entity tag of the content.
    pub tag: Tag,
}

/// Creates a file as [`PlanFile`] has decided, together with its first content. One round trip if
/// the directory is cached. Fails with `NameExists`, with `Stale` if the directory is removed, and
/// with `ContentReplaced` if the bucket has got one of the settings of [`PlanFile`] since: then the
/// caller creates the file without a content, and writes the content after that.
#[derive(Clone, Debug)]
pub struct MakeFile<'a> {
    /// The name of the file.
    pub name: &'a NodeName,
    /// The inode number of the file.
    pub ino: Ino,
    /// The inode as it was decided, of a file without content.
    pub inode: &'a Inode,
    /// The first content; `None` for an empty file.
    pub content: Option<&'a FirstContent>,
    /// Attributes that were changed since the decision.
    pub attributes: &'a AttributeChange,
}

impl Planner for MakeFile<'_> {
    type Output = FoundNode;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<FoundNode>, Halt> {
        let NodeName { directory, name } = self.name;
        let parent = KnownInode::parent(view, *directory)?;
        let mut plan = Plan { guards: vec![parent.guard()], writes: Vec::new() };
        let bucket = keeping::bucket_of(view, parent.inode.bucket)?;
        if self.content.is_some() {
            if !is_plain(&bucket.dentry) {
                return Err(FsError::ContentReplaced.into());
            }
            plan.guards.push(bucket.guard());
        }
        self.name.guard_free(view, &mut plan)?;
        let mut inode = self.inode.clone();
        make::encrypt(view, &mut inode, &mut plan)?;
        let mut counts = Counts::default();
        let slot = self.name.slot(Kind::File);
        let mut dentry = Dentry::of(self.ino, Kind::File);
        let to = (&parent, &name[..]);
        dentry.version = keeping::version_for_new_name(view, env, to, &mut counts, &mut plan)?;
        plan.writes.push(Write::Put(slot.clone(), dentry.encode(&slot)));
        counts.name(*directory, inode.bucket, Kind::File, 1);
        let inode_key = key::inode(self.ino);
        guard_absent(&inode_key, view, &mut plan)?;
        if let Some(first) = self.content {
            let file = self.filled(view, &inode, first, &mut plan)?;
            inode.body = InodeBody::File(Box::new(file));
            let at = &mut inode.attributes;
            (at.changed, at.modified) = (env.now, env.now);
        }
        if self.content.is_some() || !self.attributes.is_none() {
            self.attributes.apply(&mut inode, env);
        }
        let record = inode.encode(&inode_key);
        plan.writes.push(Write::Put(inode_key, record.clone()));
        counts.finish(env, &mut plan);
        keeping::guard_quota(view, inode.bucket, &mut plan)?;
        Ok(Step::Commit(plan, FoundNode { ino: self.ino, inode, record, counts: None }))
    }
}

impl MakeFile<'_> {
    /// Returns the file with its first content, and adds the other writes of the content to the
    /// plan.
    fn filled(
        &self,
        view: &mut View<'_>,
        inode: &Inode,
        first: &FirstContent,
        plan: &mut Plan,
    ) -> Result<record::File, Halt> {
        let empty = inode.file().ok_or(FsError::IsADirectory)?;
        let mut edit = ContentEdit::of(self.ino, empty, empty.clone());
        edit.replace(view, &first.content, first.size, &first.sums)?;
        edit.file.tag = first.tag;
        edit.file.data_version = edit.file.data_version.saturating_add(1);
        // An empty file names no block, so nothing is hidden and the number is not used.
        edit.finish(view, inode, self.ino, plan)
    }
}

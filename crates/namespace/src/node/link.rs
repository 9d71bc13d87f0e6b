//! Giving a node one more name.

use record::{Dentry, Ino, InodeBody, Kind, key};
use store::{Guard, Plan, Write};

use super::counts::Counts;
use super::{Known, NodeName, keeping, rewrite_name};
use crate::inode_state::{Change, admit};
use crate::run::{Env, Planner, Step};
use crate::view::View;
use crate::{FoundNode, FsError, Halt};

/// The most hard links of a file in a bucket with versions or a trash. A version record for each of them
/// must fit into the file's [`record::Superseded`] record, and into one plan that moves them to a copy.
pub const VERSIONED_LINKS_MAX: u32 = 768;

/// Gives a node one more name: one round trip when all of it is remembered.
///
/// From its second name on, names say that they are not the only one. So the first one is changed
/// with it, and must be known.
#[derive(Clone, Debug)]
pub struct LinkNode<'a> {
    /// The node.
    pub ino: Ino,
    /// A name that it has, if it has one.
    pub known_name: Option<&'a NodeName>,
    /// The name that it gets besides.
    pub to: &'a NodeName,
}

impl Planner for LinkNode<'_> {
    /// The node, with its new name.
    type Output = FoundNode;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<FoundNode>, Halt> {
        let parent = Known::parent(view, self.to.directory);
        let known = Known::find(view, self.ino);
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
        let orphan = key::orphan(self.ino);
        if links > 0 {
            // What lost its last name stands there still, with the links that it had, until the
            // reaper takes it.
            if view.guess(&orphan, None).is_some() {
                return Err(FsError::NoSuchKey.into());
            }
            plan.guards.push(Guard::Absent(orphan.clone()));
        }
        if links == 0 {
            // Made without a name. It goes unless it gets one.
            let value = view.record(&orphan)?.ok_or(FsError::NoSuchKey)?;
            plan.guards.push(Guard::Equals(orphan.clone(), value));
            plan.writes.push(Write::Delete(orphan));
        } else if links == 1 {
            let name = self.known_name;
            if let InodeBody::File(file) = &mut inode.body {
                file.told_by_name = false;
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
            dentry.version = keeping::comes(view, env, to, &mut counts, &mut plan)?;
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
        let found = FoundNode { ino: self.ino, inode, record, counts: None };
        Ok(Step::Commit(plan, found))
    }
}

//! Making a node under a name.

use record::{
    Attributes, Dentry, Directory, File, Ino, Inode, InodeBody, Kind, Special, SpecialKind,
    Symlink, Xattr, key,
};
use store::{Guard, Plan, Write};

use super::acl::{Acl, AclKind};
use super::counts::Counts;
use super::{Known, NodeName, SET_GROUP_ID, keeping};
use crate::object::staged_inline_mark;
use crate::run::{Env, Planner, Step};
use crate::stage::guard_absent;
use crate::unbind::orphan;
use crate::view::View;
use crate::{FsError, Halt};

/// What is made.
#[derive(Clone, Debug)]
pub enum NewNode {
    /// A directory.
    Directory,
    /// A regular file. Its links are set when it is made.
    File(Box<File>),
    /// A symbolic link that says this.
    Symlink(Vec<u8>),
    /// A FIFO, socket or device: which, and its number.
    Special(SpecialKind, u32),
}

/// Makes a file or directory under a name that nothing has: one round trip when its parent is
/// remembered. Without a name, makes a file that has none: it goes if it is not linked.
#[derive(Clone, Debug)]
pub struct MakeNode<'a> {
    /// The directory.
    pub directory: Ino,
    /// The name there.
    pub name: Option<&'a [u8]>,
    /// The number of what is made.
    pub ino: Ino,
    /// What it is.
    pub node: &'a NewNode,
    /// Permission bits that are wanted.
    pub mode: u32,
    /// Of these the bits that are not given where the directory has no default access control list,
    /// which says itself what is given.
    pub umask: u32,
    /// Owner.
    pub uid: u32,
    /// Group, unless the directory gives its own.
    pub gid: u32,
}

impl MakeNode<'_> {
    fn inode(&self, parent: &Known, env: &Env) -> Inode {
        let (mut mode, xattrs) = self.inherited(parent);
        let mut gid = self.gid;
        if parent.inode.attributes.mode & SET_GROUP_ID != 0 {
            gid = parent.inode.attributes.gid;
            if matches!(self.node, NewNode::Directory) {
                mode |= SET_GROUP_ID;
            }
        }
        let links = u32::from(self.name.is_some());
        let name = self.name.unwrap_or_default().to_vec();
        let body = match self.node {
            NewNode::Directory => InodeBody::Directory(Directory { parent: self.directory, name }),
            NewNode::File(file) => InodeBody::File(Box::new(File { links, ..(**file).clone() })),
            NewNode::Symlink(target) => {
                InodeBody::Symlink(Symlink { target: target.clone(), links })
            }
            NewNode::Special(kind, device) => {
                InodeBody::Special(Special { kind: *kind, device: *device, links })
            }
        };
        Inode {
            attributes: Attributes::new(mode, self.uid, gid, env.now),
            bucket: parent.inode.bucket,
            xattrs,
            body,
        }
    }

    /// The permission bits and access control lists of what is made.
    fn inherited(&self, parent: &Known) -> (u32, Vec<Xattr>) {
        let mut xattrs = Vec::new();
        if let NewNode::Symlink(_) = self.node {
            return (self.mode, xattrs);
        }
        let Some(default) = Acl::find(&parent.inode.xattrs, AclKind::Default) else {
            return (self.mode & !self.umask, xattrs);
        };
        if let NewNode::Directory = self.node {
            Acl::put(&mut xattrs, AclKind::Default, Some(&default));
        }
        let (access, mode) = default.inherited(self.mode);
        Acl::put(&mut xattrs, AclKind::Access, access.as_ref());
        (mode, xattrs)
    }
}

impl Planner for MakeNode<'_> {
    /// As it was made.
    type Output = Inode;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<Inode>, Halt> {
        let parent = Known::parent(view, self.directory)?;
        // Not only that it is there: what is made has what the directory says it has.
        let mut plan = Plan { guards: vec![parent.guard()], writes: Vec::new() };
        let inode = self.inode(&parent, env);
        let inode_key = key::inode(self.ino);
        let mut counts = Counts::default();
        match self.name {
            Some(name) => {
                let name = NodeName { directory: self.directory, name: name.to_vec() };
                name.guard_free(view, &mut plan)?;
                let slot = name.slot(inode.kind());
                let mut dentry = Dentry::of(self.ino, inode.kind());
                if inode.kind() == Kind::File {
                    let to = (&parent, &name.name[..]);
                    dentry.version = keeping::comes(view, env, to, &mut counts, &mut plan)?;
                }
                plan.writes.push(Write::Put(slot.clone(), dentry.encode(&slot)));
                counts.name(self.directory, inode.bucket, inode.kind(), 1);
            }
            None if inode.kind() == Kind::File => {
                guard_absent(&key::orphan(self.ino), view, &mut plan)?;
                plan.writes.push(orphan(self.ino, inode.bucket));
            }
            None => return Err(FsError::Stale.into()),
        }
        guard_absent(&inode_key, view, &mut plan)?;
        plan.writes.push(Write::Put(inode_key.clone(), inode.encode(&inode_key)));
        if let Some(file) = inode.file() {
            let size = i64::try_from(file.size).unwrap_or(i64::MAX);
            counts.add(inode.bucket, key::CounterKind::Bytes, size);
            plan.writes.extend(staged_inline_mark(&file.content, self.ino));
        }
        counts.finish(env, &mut plan);
        // What is made without a name is made empty, and bounded when it is written to and named.
        if self.name.is_some() {
            keeping::guard_quota(view, inode.bucket, &mut plan)?;
        }
        debug_assert!(plan.guards.contains(&Guard::Absent(inode_key)));
        Ok(Step::Commit(plan, inode))
    }
}

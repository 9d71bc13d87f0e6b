//! Creating a node under a name.
//!
//! For example, a program creates a file in a directory with a default access control list: the new
//! file inherits the list, and the umask is not used.

use record::{
    Attributes, Dentry, Directory, File, Ino, Inode, InodeBody, Kind, Special, SpecialKind,
    Symlink, Xattr, key,
};
use store::{Guard, Plan, Write};

use super::acl::{Acl, AclKind};
use super::counts::Counts;
use super::{KnownInode, NodeName, SET_GROUP_ID, keeping};
use crate::object::staged_inline_mark;
use crate::run::{Env, Planner, Step};
use crate::stage::guard_absent;
use crate::unbind::orphan;
use crate::view::View;
use crate::{FsError, Halt};

/// The kind and content of a new node.
#[derive(Clone, Debug)]
pub enum NewNode {
    /// A directory.
    Directory,
    /// A regular file. The link count is set when it is created.
    File(Box<File>),
    /// A symbolic link with this target.
    Symlink(Vec<u8>),
    /// A FIFO, socket or device: its kind, and the device number of a device.
    Special(SpecialKind, u32),
}

/// Creates a node under a free name. One round trip if the parent is cached. Without a name,
/// creates an unlinked file (`O_TMPFILE`). It is an orphan, that is, the reaper deletes it if no
/// program links it before it is closed. Fails with `NameExists`.
#[derive(Clone, Debug)]
pub struct MakeNode<'a> {
    /// The inode number of the directory in which the node is created.
    pub directory: Ino,
    /// The name in that directory; `None` for an unlinked file.
    pub name: Option<&'a [u8]>,
    /// The inode number of the new node.
    pub ino: Ino,
    /// The kind and content of the new node.
    pub node: &'a NewNode,
    /// The requested permission bits, before the umask.
    pub mode: u32,
    /// Permission bits that are cleared. If the directory has a default access control list, that
    /// list decides instead, as POSIX demands.
    pub umask: u32,
    /// The user id of the new node's owner.
    pub uid: u32,
    /// The group id of the new node. A directory with the set-group-ID bit gives its own group
    /// instead.
    pub gid: u32,
}

impl MakeNode<'_> {
    /// Returns the inode of the new node in a directory.
    pub(super) fn inode(&self, parent: &KnownInode, env: &Env) -> Inode {
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

    /// The permission bits and access control lists of the new node.
    fn inherited(&self, parent: &KnownInode) -> (u32, Vec<Xattr>) {
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
        // A list that mode bits alone express is not stored.
        let (access, mode) = default.inherited(self.mode);
        Acl::put(&mut xattrs, AclKind::Access, access.as_ref());
        (mode, xattrs)
    }
}

/// Sets the mode of encryption of a new file to the default that its bucket has at the commit.
pub(super) fn encrypt(view: &mut View<'_>, inode: &mut Inode, plan: &mut Plan) -> Result<(), Halt> {
    let bucket = inode.bucket;
    if let InodeBody::File(file) = &mut inode.body
        && file.encryption.is_none()
    {
        file.encryption = keeping::default_encryption(view, bucket, plan)?;
    }
    Ok(())
}

impl Planner for MakeNode<'_> {
    /// The inode of the new node.
    type Output = Inode;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<Inode>, Halt> {
        let parent = KnownInode::parent(view, self.directory)?;
        // The new node inherits group, default list and bucket from the directory, so the
        // directory's record must be unchanged, and not only exist.
        let mut plan = Plan { guards: vec![parent.guard()], writes: Vec::new() };
        let mut inode = self.inode(&parent, env);
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
                    dentry.version =
                        keeping::version_for_new_name(view, env, to, &mut counts, &mut plan)?;
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
        // After the questions above, which ask for the same bucket in the same round trip.
        encrypt(view, &mut inode, &mut plan)?;
        guard_absent(&inode_key, view, &mut plan)?;
        plan.writes.push(Write::Put(inode_key.clone(), inode.encode(&inode_key)));
        if let Some(file) = inode.file() {
            let size = i64::try_from(file.size).unwrap_or(i64::MAX);
            counts.add(inode.bucket, key::CounterKind::Bytes, size);
            plan.writes.extend(staged_inline_mark(&file.content, self.ino));
        }
        counts.finish(env, &mut plan);
        // An unlinked file is created empty. The quota is checked when a program writes to it and
        // when it is linked.
        if self.name.is_some() {
            keeping::guard_quota(view, inode.bucket, &mut plan)?;
        }
        debug_assert!(plan.guards.contains(&Guard::Absent(inode_key)));
        Ok(Step::Commit(plan, inode))
    }
}

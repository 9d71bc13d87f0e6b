//! Setting the access control list of a node.
//!
//! For example, `setfacl -m u:1001:r file` arrives as a [`SetAcl`] with the complete new list. The
//! list and the permission bits of the inode change in one plan, because they overlap.

use record::{Ino, InodeBody, Kind};
use store::{Plan, Write};

use super::acl::{Acl, AclKind};
use super::{KnownInode, SET_GROUP_ID};
use crate::inode_state::{Change, admit};
use crate::run::{Env, Planner, Step};
use crate::view::View;
use crate::{FoundNode, FsError, Halt};

/// Sets or removes an access control list of a node, and changes the permission bits that
/// correspond to it. One round trip if the node is cached. An access list that says no more than
/// permission bits is not stored. Fails with `NoAcl` for a symbolic link, and with `NoDefaultAcl`
/// for a default list of anything but a directory.
#[derive(Clone, Debug)]
pub struct SetAcl<'a> {
    /// The inode number of the node.
    pub ino: Ino,
    /// The list to change.
    pub kind: AclKind,
    /// The new list. `None` removes the list and leaves the permission bits.
    pub acl: Option<&'a Acl>,
    /// True to clear the set-group-ID bit, as Linux does if the caller is not in the file's group.
    pub drop_group_id: bool,
}

impl Planner for SetAcl<'_> {
    type Output = FoundNode;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<FoundNode>, Halt> {
        let known = KnownInode::find(view, self.ino)?;
        let mut inode = known.inode.clone();
        if let InodeBody::Symlink(_) = inode.body {
            return Err(FsError::NoAcl.into());
        }
        let is_directory = inode.kind() == Kind::Directory;
        if self.kind == AclKind::Default && self.acl.is_some() && !is_directory {
            return Err(FsError::NoDefaultAcl.into());
        }
        let mut kept = self.acl;
        if let (AclKind::Access, Some(acl)) = (self.kind, self.acl) {
            let mode = &mut inode.attributes.mode;
            *mode = acl.mode(*mode);
            if self.drop_group_id {
                *mode &= !SET_GROUP_ID;
            }
            // The permission bits alone express such a list.
            kept = self.acl.filter(|acl| !acl.is_mode());
        }
        Acl::put(&mut inode.xattrs, self.kind, kept);
        super::xattr::check_names(&inode)?;
        inode.attributes.status_changed = env.now;
        let mut plan = Plan { guards: vec![known.guard()], writes: Vec::new() };
        if inode.kind() == Kind::File {
            admit(view, env, (self.ino, &inode), Change::Attributes, &mut plan)?;
        }
        let record = inode.encode(&known.key);
        plan.writes.push(Write::Put(known.key, record.clone()));
        Ok(Step::Commit(plan, FoundNode { ino: self.ino, inode, record, counts: None }))
    }
}

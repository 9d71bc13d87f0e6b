//! Giving a node an access control list.

use record::{Ino, InodeBody, Kind};
use store::{Plan, Write};

use super::acl::{Acl, AclKind};
use super::{Known, SET_GROUP_ID};
use crate::inode_state::{Change, admit};
use crate::run::{Env, Planner, Step};
use crate::view::View;
use crate::{FoundNode, FsError, Halt};

/// Gives a node an access control list, and the permission bits that go with it: one round trip when
/// the node is remembered. An access list that permission bits say as well is not kept.
#[derive(Clone, Debug)]
pub struct SetAcl<'a> {
    /// Whose.
    pub ino: Ino,
    /// Which of its lists.
    pub kind: AclKind,
    /// The list. None takes away the one that it has, if it has one, and leaves the permission bits.
    pub acl: Option<&'a Acl>,
    /// Whether the set-group-ID bit goes.
    pub drop_group_id: bool,
}

impl Planner for SetAcl<'_> {
    type Output = FoundNode;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<FoundNode>, Halt> {
        let known = Known::find(view, self.ino)?;
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

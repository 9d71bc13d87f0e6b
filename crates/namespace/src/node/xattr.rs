//! Extended attributes of nodes.
//!
//! A short value is inline in the inode's record. A long one has a record of its own. For example,
//! a value of 2 KiB is longer than `XATTR_INLINE_BYTES_MAX` and gets its own record, and the inode
//! keeps its name and length.

use bytes::Bytes;
use record::{
    Dentry, Ino, Inode, InodeBody, Kind, Origin, XATTR_INLINE_BYTES_MAX, XATTR_NAMES_BYTES_MAX,
    XATTRS_INLINE_BYTES_MAX, Xattr, XattrPlace, XattrValue, key,
};
use store::{Plan, Write};

use super::{KnownInode, NodeName, clear_self_contained};
use crate::inode_state::{Change, admit};
use crate::path::{self, is_implied};
use crate::run::{Env, Planner, Step};
use crate::view::{View, decode};
use crate::{FoundNode, FsError, Halt};

/// Finds the value of an extended attribute. One round trip, and one more for a long value. Fails
/// with `NoSuchAttribute`.
#[derive(Clone, Debug)]
pub struct FindXattr<'a> {
    /// The inode number of the node.
    pub ino: Ino,
    /// The name of the extended attribute to find.
    pub name: &'a [u8],
}

impl Planner for FindXattr<'_> {
    type Output = Bytes;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Bytes>, Halt> {
        let known = KnownInode::find(view, self.ino)?;
        let xattr = known.inode.xattrs.into_iter().find(|xattr| xattr.name == self.name);
        match xattr.ok_or(FsError::NoSuchAttribute)?.value {
            XattrPlace::Inline(value) => Ok(Step::Done(value.into())),
            XattrPlace::Apart(_) => {
                let at = key::xattr(self.ino, self.name);
                // The inode and this record are from one snapshot, or an answer reads both again.
                let record = view.record(&at)?.ok_or(FsError::NoSuchAttribute)?;
                Ok(Step::Done(decode(&at, &record, XattrValue::decode)?.0))
            }
        }
    }
}

/// The change of an extended attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum XattrChange {
    /// Set the value, whether the attribute exists or not.
    Set(Bytes),
    /// Set the value if the attribute does not exist (`XATTR_CREATE`), else fail with
    /// `AttributeExists`.
    Create(Bytes),
    /// Set the value if the attribute exists (`XATTR_REPLACE`), else fail with `NoSuchAttribute`.
    Replace(Bytes),
    /// Remove the attribute, or fail with `NoSuchAttribute`.
    Remove,
}

/// Changes an extended attribute that is not an access control list. One round trip if the node is
/// cached, and for a long value also its name. Fails with `TooManyAttributes` if all names together
/// would be too long, and with `Stale` if a long value needs the name of the file and `known_name`
/// is not one.
#[derive(Clone, Debug)]
pub struct SetXattr<'a> {
    /// The inode number of the node.
    pub ino: Ino,
    /// A name of the node, if it has one. A directory needs none, because its inode has its name. A
    /// long value gets a record of its own, so the file is not self-contained (deletable without
    /// reading its inode) any more, and the plan clears that mark in the dentry of this name.
    pub known_name: Option<&'a NodeName>,
    /// The name of the extended attribute to change.
    pub name: &'a [u8],
    /// The change of the attribute: a new value, or its removal.
    pub change: &'a XattrChange,
}

impl Planner for SetXattr<'_> {
    type Output = FoundNode;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<FoundNode>, Halt> {
        let known = KnownInode::find(view, self.ino)?;
        let mut inode = known.inode.clone();
        let place = inode.xattrs.binary_search_by(|xattr| xattr.name.as_slice().cmp(self.name));
        let was = place.ok().map(|place| inode.xattrs.remove(place).value);
        let value = match (self.change, &was) {
            (XattrChange::Create(_), Some(_)) => return Err(FsError::AttributeExists.into()),
            (XattrChange::Replace(_) | XattrChange::Remove, None) => {
                return Err(FsError::NoSuchAttribute.into());
            }
            (XattrChange::Remove, Some(_)) => None,
            (
                XattrChange::Set(value) | XattrChange::Create(value) | XattrChange::Replace(value),
                _,
            ) => Some(value),
        };
        let mut plan = Plan { guards: vec![known.guard()], writes: Vec::new() };
        if inode.kind() == Kind::File {
            admit(view, env, (self.ino, &inode), Change::Attributes, &mut plan)?;
        }
        let at = key::xattr(self.ino, self.name);
        let mut is_apart = false;
        if let Some(value) = value {
            is_apart = !fits(&inode, self.name, value);
            let value = if is_apart {
                plan.writes.push(Write::Put(at.clone(), XattrValue(value.clone()).encode(&at)));
                XattrPlace::Apart(u32::try_from(value.len()).unwrap_or(u32::MAX))
            } else {
                XattrPlace::Inline(value.to_vec())
            };
            let place = place.unwrap_or_else(|place| place);
            inode.xattrs.insert(place, Xattr { name: self.name.to_vec(), value });
        }
        // A value that becomes inline, or is removed, leaves no record of its own behind.
        if matches!(was, Some(XattrPlace::Apart(_))) && !is_apart {
            plan.writes.push(Write::Delete(at));
        }
        // A record of its own must be deleted with the inode. Two plans delete an inode without
        // reading it: that of a self-contained file and that of an implied directory. So the node
        // must be neither.
        if is_apart {
            clear_self_contained(view, &mut inode, self.ino, self.known_name, &mut plan)?;
            mark_as_made(view, &inode, self.ino, &mut plan)?;
        }
        check_names(&inode)?;
        inode.attributes.status_changed = env.now;
        let record = inode.encode(&known.key);
        plan.writes.push(Write::Put(known.key, record.clone()));
        Ok(Step::Commit(plan, FoundNode { ino: self.ino, inode, record, counts: None }))
    }
}

/// Fails with `TooManyAttributes` if the names are together longer than `listxattr` may return.
pub(super) fn check_names(inode: &Inode) -> Result<(), FsError> {
    let names: usize = inode.xattrs.iter().map(|xattr| xattr.name.len() + 1).sum();
    if names > XATTR_NAMES_BYTES_MAX { Err(FsError::TooManyAttributes) } else { Ok(()) }
}

/// Changes the origin of a directory from implied (created by a key below it) to made (created by a
/// program). The plan that removes the last key below an implied directory also removes the
/// directory without reading its inode, and would leave records of the inode behind. Does nothing
/// for other nodes.
///
/// # Errors
/// `Stale` if the directory was moved meanwhile.
fn mark_as_made(view: &mut View<'_>, inode: &Inode, ino: Ino, plan: &mut Plan) -> Result<(), Halt> {
    let InodeBody::Directory(directory) = &inode.body else { return Ok(()) };
    let name = NodeName { directory: directory.parent, name: directory.name.clone() };
    let slot = name.directory_slot();
    let value = view.record(&slot)?.ok_or(FsError::Stale)?;
    let bound = path::bound(&slot, value)?;
    if bound.dentry.ino != ino {
        return Err(FsError::Stale.into());
    }
    if is_implied(&bound) {
        plan.guards.push(bound.guard());
        let made = Dentry { origin: Origin::Made, ..bound.dentry };
        plan.writes.push(Write::Put(slot.clone(), made.encode(&slot)));
    }
    Ok(())
}

/// Returns true if a value fits inline into the inode's record, next to the other attributes.
fn fits(inode: &Inode, name: &[u8], value: &Bytes) -> bool {
    let inline = |xattr: &Xattr| match &xattr.value {
        XattrPlace::Inline(value) => xattr.name.len() + value.len(),
        XattrPlace::Apart(_) => xattr.name.len(),
    };
    let others: usize = inode.xattrs.iter().map(inline).sum();
    value.len() <= XATTR_INLINE_BYTES_MAX
        && others + name.len() + value.len() <= XATTRS_INLINE_BYTES_MAX
}

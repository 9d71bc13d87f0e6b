//! Extended attributes.

use bytes::Bytes;
use record::{
    Dentry, Ino, Inode, InodeBody, Kind, Origin, XATTR_INLINE_BYTES_MAX, XATTR_NAMES_BYTES_MAX,
    XATTRS_INLINE_BYTES_MAX, Xattr, XattrPlace, XattrValue, key,
};
use store::{Plan, Write};

use super::{Known, NodeName, untell};
use crate::inode_state::{Change, admit};
use crate::path::{self, is_implied};
use crate::run::{Env, Planner, Step};
use crate::view::{View, decode};
use crate::{FoundNode, FsError, Halt};

/// Finds what an extended attribute says: one round trip, and one more for a long one.
#[derive(Clone, Debug)]
pub struct FindXattr<'a> {
    /// Whose.
    pub ino: Ino,
    /// Its name.
    pub name: &'a [u8],
}

impl Planner for FindXattr<'_> {
    type Output = Bytes;

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<Bytes>, Halt> {
        let known = Known::find(view, self.ino)?;
        let xattr = known.inode.xattrs.into_iter().find(|xattr| xattr.name == self.name);
        match xattr.ok_or(FsError::NoSuchAttribute)?.value {
            XattrPlace::Inline(value) => Ok(Step::Done(value.into())),
            XattrPlace::Apart(_) => {
                let at = key::xattr(self.ino, self.name);
                // Both are of one snapshot, or read anew.
                let record = view.record(&at)?.ok_or(FsError::NoSuchAttribute)?;
                Ok(Step::Done(decode(&at, &record, XattrValue::decode)?.0))
            }
        }
    }
}

/// What becomes of an extended attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum XattrChange {
    /// It says this, whether there was one or not.
    Set(Bytes),
    /// It says this, and there was none: `XATTR_CREATE`.
    Create(Bytes),
    /// It says this, and there was one: `XATTR_REPLACE`.
    Replace(Bytes),
    /// It goes.
    Remove,
}

/// Changes an extended attribute that is no access control list: one round trip when the node is
/// remembered, and its name if the attribute is a long one.
#[derive(Clone, Debug)]
pub struct SetXattr<'a> {
    /// Whose.
    pub ino: Ino,
    /// A name that it has, if it has one. A directory's is found without.
    pub known_name: Option<&'a NodeName>,
    /// Its name.
    pub name: &'a [u8],
    /// What becomes of it.
    pub change: &'a XattrChange,
}

impl Planner for SetXattr<'_> {
    type Output = FoundNode;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<FoundNode>, Halt> {
        let known = Known::find(view, self.ino)?;
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
        if matches!(was, Some(XattrPlace::Apart(_))) && !is_apart {
            plan.writes.push(Write::Delete(at));
        }
        if is_apart {
            untell(view, &mut inode, self.ino, self.known_name, &mut plan)?;
            claim(view, &inode, self.ino, &mut plan)?;
        }
        check_names(&inode)?;
        inode.attributes.status_changed = env.now;
        let record = inode.encode(&known.key);
        plan.writes.push(Write::Put(known.key, record.clone()));
        Ok(Step::Commit(plan, FoundNode { ino: self.ino, inode, record, counts: None }))
    }
}

/// Refuses attributes whose names would be longer than a list of them may be.
pub(super) fn check_names(inode: &Inode) -> Result<(), FsError> {
    let names: usize = inode.xattrs.iter().map(|xattr| xattr.name.len() + 1).sum();
    if names > XATTR_NAMES_BYTES_MAX { Err(FsError::TooManyAttributes) } else { Ok(()) }
}

/// Takes note in the name of a directory that somebody made it, if a key implied it. Whoever removes
/// the last key below it does not look at its inode, and would leave behind what belongs to that.
///
/// # Errors
/// `Stale` if the directory was moved meanwhile.
fn claim(view: &mut View<'_>, inode: &Inode, ino: Ino, plan: &mut Plan) -> Result<(), Halt> {
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

/// Whether an attribute has room in its inode's record, beside the others there.
fn fits(inode: &Inode, name: &[u8], value: &Bytes) -> bool {
    let inline = |xattr: &Xattr| match &xattr.value {
        XattrPlace::Inline(value) => xattr.name.len() + value.len(),
        XattrPlace::Apart(_) => xattr.name.len(),
    };
    let others: usize = inode.xattrs.iter().map(inline).sum();
    value.len() <= XATTR_INLINE_BYTES_MAX
        && others + name.len() + value.len() <= XATTRS_INLINE_BYTES_MAX
}

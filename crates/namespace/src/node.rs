//! Nodes: the namespace as file programs speak of it, by inode and name.
//!
//! Where an object's key is a path at the instant of a commit, a file program holds on to the
//! directory that it found, whatever its path is by now. So these planners begin at an inode. The
//! names of a directory belong to its inode: whoever adds one guards that the inode is there, and
//! whoever removes the directory deletes it under guards that no name is left. Keys keep to that
//! too, because a directory's dentry and its inode come and go in one plan.
//!
//! In a directory `a` and `a/` are two dentries. Here they are one name, and the directory wins.
//!
//! A bucket is a file system of its own as far as names go: nothing is moved or linked from one to
//! another, so what is counted of a bucket stays what is below it.

mod acl;
mod attributes;
mod counts;
mod detach;
mod directory_page;
mod find;
mod fork;
mod keeping;
mod link;
mod make;
mod names;
mod object_item;
mod remove;
mod rename;
mod set_acl;
mod write;
mod xattr;

pub use acl::{Acl, AclKind, NotAnAcl};
pub use attributes::{AttributeChange, SetAccessTime, SetAttributes, SetTime, without_rights};
pub use detach::DetachVersions;
pub use directory_page::{BoundName, DirectoryPage, ReadDirectoryPage};
pub use find::{DirectoryCounts, FindName, FindNode, FindNodeOrOrphan, FoundNode};
pub use fork::{ForkBucket, ForkDirectory, ForkLink, ForkNode, ForkPlace, ForkedDirectory, forked};
pub use link::{LinkNode, VERSIONED_LINKS_MAX};
pub use make::{MakeNode, NewNode};
pub use names::{ListedName, ListedNames, ReadNames};
pub use object_item::{
    CONTENT_HEADERS_BYTES_MAX, OBJECT_TAGS_MAX, ObjectItem, SetObjectItem, USER_METADATA_BYTES_MAX,
};
pub use remove::{RemoveDirectory, RemoveName, RemovedName};
pub use rename::{RenameMode, RenameNode, Renamed, RetentionChange, Whiteout};
pub use set_acl::SetAcl;
pub use write::{ContentChange, RelocateContent, Relocated, SharedRange, WriteContent};
pub use xattr::{FindXattr, SetXattr, XattrChange};

use std::slice;

use record::{Dentry, Directory, Ino, Inode, InodeBody, Kind, SortKey, key};
use store::{Guard, Key, Plan, Value};

use crate::path::{self, Bound};
use crate::view::{View, decode};
use crate::{FsError, Halt};

/// Set-group-ID: what is made in a directory with this bit belongs to the directory's group.
pub(crate) const SET_GROUP_ID: u32 = 0o2000;

/// The most directories above each other: more than a path of 4,096 bytes names.
const ANCESTORS_MAX: usize = 2_048;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeName {
    /// The directory.
    pub directory: Ino,
    /// The name there, one component, never empty.
    pub name: Vec<u8>,
}

impl NodeName {
    /// The key of the dentry that a directory of this name has.
    fn directory_slot(&self) -> Key {
        key::dentry(self.directory, SortKey::directory(&self.name).as_bytes())
    }

    /// The key of the dentry that anything else of this name has.
    fn file_slot(&self) -> Key {
        key::dentry(self.directory, SortKey::file(&self.name).as_bytes())
    }

    /// The key of the dentry that something of this kind has.
    fn slot(&self, kind: Kind) -> Key {
        if kind == Kind::Directory { self.directory_slot() } else { self.file_slot() }
    }

    /// What the name is bound to, with the inode if it is known from the same place.
    fn find(&self, view: &mut View<'_>) -> Result<Option<(Bound, Option<Value>)>, Halt> {
        let slots = [self.directory_slot(), self.file_slot()];
        let found = slots.each_ref().map(|slot| {
            let found = view.followed(slice::from_ref(slot), &key::dentry_to_inode());
            found.map(|found| found.into_iter().next().flatten())
        });
        let Some((slot, (value, target))) = first(view, &slots, found)? else { return Ok(None) };
        Ok(Some((path::bound(slot, value)?, target)))
    }

    /// As [`NodeName::find`], without the inode.
    fn bound(&self, view: &mut View<'_>) -> Result<Option<Bound>, Halt> {
        let slots = [self.directory_slot(), self.file_slot()];
        let found = slots.each_ref().map(|slot| view.record(slot));
        let first = first(view, &slots, found)?;
        first.map(|(slot, value)| path::bound(slot, value)).transpose()
    }

    /// Guards that the name is bound as it was found. A file's is only as long as no directory has
    /// it, too.
    fn guard_bound(&self, bound: &Bound, plan: &mut Plan) {
        plan.guards.push(bound.guard());
        if !bound.is_directory() {
            plan.guards.push(Guard::Absent(self.directory_slot()));
        }
    }

    /// Whether nothing is known to have the name. A plan guards that, and an answer is read anew.
    fn seems_free(&self, view: &mut View<'_>) -> bool {
        let slots = [self.directory_slot(), self.file_slot()];
        slots.map(|slot| view.guess(&slot, None)).iter().all(Option::is_none)
    }

    /// Guards that nothing has the name, if nothing is known to have it.
    fn guard_free(&self, view: &mut View<'_>, plan: &mut Plan) -> Result<(), Halt> {
        for slot in [self.directory_slot(), self.file_slot()] {
            if view.guess(&slot, None).is_some() {
                return Err(FsError::NameExists.into());
            }
            plan.guards.push(Guard::Absent(slot));
        }
        Ok(())
    }
}

/// What is found in the slots of a name, of which the directory's comes first. Where the file is
/// known and nothing of a directory, there is none: a plan guards that, and an answer is read anew.
fn first<'s, T>(
    view: &mut View<'_>,
    slots: &'s [Key; 2],
    found: [Result<Option<T>, Halt>; 2],
) -> Result<Option<(&'s Key, T)>, Halt> {
    let [directory_slot, file_slot] = slots;
    match found {
        [Ok(Some(directory)), _] => Ok(Some((directory_slot, directory))),
        [Err(Halt::Need), Ok(Some(file))] if view.guess(directory_slot, None).is_none() => {
            Ok(Some((file_slot, file)))
        }
        [Err(halt), _] => Err(halt),
        [Ok(None), file] => Ok(file?.map(|file| (file_slot, file))),
    }
}

/// An inode as known.
#[derive(Clone, Debug)]
struct Known {
    key: Key,
    record: Value,
    inode: Inode,
}

impl Known {
    /// The inode of this number.
    fn find(view: &mut View<'_>, ino: Ino) -> Result<Known, Halt> {
        let key = key::inode(ino);
        let record = view.record(&key)?.ok_or(FsError::Stale)?;
        Known::of(key, record)
    }

    fn of(key: Key, record: Value) -> Result<Known, Halt> {
        let inode = decode(&key, &record, Inode::decode)?;
        Ok(Known { key, record, inode })
    }

    /// The directory of this number.
    fn directory(view: &mut View<'_>, ino: Ino) -> Result<Known, Halt> {
        let known = Known::find(view, ino)?;
        known.as_directory()?;
        Ok(known)
    }

    /// The directory of this number, if names may be changed in it.
    fn parent(view: &mut View<'_>, ino: Ino) -> Result<Known, Halt> {
        if ino == Ino::ROOT {
            return Err(FsError::OnlyBuckets.into());
        }
        Known::directory(view, ino)
    }

    fn as_directory(&self) -> Result<&Directory, FsError> {
        match &self.inode.body {
            InodeBody::Directory(directory) => Ok(directory),
            _ => Err(FsError::NotADirectory),
        }
    }

    /// The guard that the inode is as it is known.
    fn guard(&self) -> Guard {
        Guard::Equals(self.key.clone(), self.record.clone())
    }

    /// The guard that the inode is there.
    fn guard_present(&self) -> Guard {
        Guard::Present(self.key.clone())
    }
}

/// Takes away that a name says of its file that it is self-contained, if the file says that its
/// name does: it is about to change. `name` is where the file was found.
///
/// # Errors
/// `Stale` if the name is not known, or leads elsewhere.
fn untell(
    view: &mut View<'_>,
    inode: &mut Inode,
    ino: Ino,
    name: Option<&NodeName>,
    plan: &mut Plan,
) -> Result<(), Halt> {
    let InodeBody::File(file) = &mut inode.body else { return Ok(()) };
    if !std::mem::take(&mut file.told_by_name) {
        return Ok(());
    }
    rewrite_name(view, ino, name, plan, |dentry| Dentry { self_contained: None, ..dentry })
}

/// Changes the dentry that binds `ino` to `name`.
fn rewrite_name(
    view: &mut View<'_>,
    ino: Ino,
    name: Option<&NodeName>,
    plan: &mut Plan,
    change: impl FnOnce(Dentry) -> Dentry,
) -> Result<(), Halt> {
    let slot = name.ok_or(FsError::Stale)?.file_slot();
    let value = view.record(&slot)?.ok_or(FsError::Stale)?;
    let bound = path::bound(&slot, value)?;
    if bound.dentry.ino != ino {
        return Err(FsError::Stale.into());
    }
    let guard = bound.guard();
    if !plan.guards.contains(&guard) {
        plan.guards.push(guard);
    }
    let changed = change(bound.dentry).encode(&slot);
    if changed != bound.value {
        plan.writes.push(store::Write::Put(slot, changed));
    }
    Ok(())
}

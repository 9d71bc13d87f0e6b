//! Nodes: operations of file programs, which address files by inode number and name.
//!
//! An S3 key is a path at the instant of a commit. A file program keeps the inode number of a
//! directory that it has opened, also if the directory is renamed. So the planners of
//! this module begin at an inode.
//!
//! The invariant: the names of a directory belong to its inode. A plan that adds a name guards that
//! the inode of the directory exists. A plan that removes a directory deletes the inode and guards
//! that no name is left. Planners of keys follow the same rule, because a directory's dentry and
//! its inode are always written and deleted together. For example, a program whose working
//! directory was renamed creates a file there, and the file appears below the new path.
//!
//! In one directory, `a` (a file) and `a/` (a directory) are two dentries, because S3 allows both
//! keys. File programs see one name, and it is the directory.
//!
//! A bucket is a file system of its own for names: no node is moved or linked from one bucket to
//! another, so the counters of a bucket count exactly the nodes below it.

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
pub use find::{DirectoryCounts, FindName, FindNode, FindUnlinked, FoundNode};
pub use fork::{
    ForkBucket, ForkDirectory, ForkLink, ForkNode, ForkPlace, ForkedDirectory, fork_inode,
};
pub use link::{LinkNode, Linked, VERSIONED_LINKS_MAX};
pub use make::{MakeNode, NewNode};
pub use names::{ListedName, ListedNames, ReadNames};
pub use object_item::{
    CONTENT_HEADERS_BYTES_MAX, OBJECT_TAGS_MAX, ObjectItem, SetObjectItem, USER_METADATA_BYTES_MAX,
};
pub use remove::{RemoveDirectory, RemoveName, RemovedName};
pub use rename::{RenameMode, RenameNode, Renamed, RetentionChange, Whiteout};
pub use set_acl::SetAcl;
pub use write::first::{FirstContent, MakeFile, PlanFile};
pub use write::{
    ContentChange, DestageContent, ReencryptContent, RelocateContent, Relocated, SharedRange,
    WriteContent,
};
pub use xattr::{FindXattr, SetXattr, XattrChange};

use std::slice;

use record::{Dentry, Directory, Ino, Inode, InodeBody, Kind, SortKey, key};
use store::{Guard, Key, Plan, Value};

use crate::path::{self, Bound};
use crate::view::{View, decode};
use crate::{FsError, Halt};

/// The set-group-ID bit of a mode. A node that is created in a directory with this bit gets the
/// group of the directory.
pub(crate) const SET_GROUP_ID: u32 = 0o2000;

/// The most directories above one node that a plan reads: more than a path of 4,096 bytes can name.
const ANCESTORS_MAX: usize = 2_048;

/// A name in a directory, which may be bound to a node or not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeName {
    /// The inode number of the directory.
    pub directory: Ino,
    /// The name: one path component, never empty.
    pub name: Vec<u8>,
}

impl NodeName {
    /// The key of the dentry that binds the name if the node is a directory.
    fn directory_slot(&self) -> Key {
        key::dentry(self.directory, SortKey::directory(&self.name).as_bytes())
    }

    /// The key of the dentry that binds the name if the node is not a directory.
    fn file_slot(&self) -> Key {
        key::dentry(self.directory, SortKey::file(&self.name).as_bytes())
    }

    /// The key of the dentry that binds the name to a node of this kind.
    fn slot(&self, kind: Kind) -> Key {
        if kind == Kind::Directory { self.directory_slot() } else { self.file_slot() }
    }

    /// Finds the dentry that binds the name, and the record of its inode; `None` in its place if
    /// the record is missing. Returns `None` if the name is free.
    fn find(&self, view: &mut View<'_>) -> Result<Option<(Bound, Option<Value>)>, Halt> {
        let slots = [self.directory_slot(), self.file_slot()];
        let found = slots.each_ref().map(|slot| {
            let found = view.followed(slice::from_ref(slot), &key::dentry_to_inode());
            found.map(|found| found.into_iter().next().flatten())
        });
        let Some((slot, (value, target))) = first(view, &slots, found)? else { return Ok(None) };
        Ok(Some((path::bound(slot, value)?, target)))
    }

    /// Finds the dentry of the name, without the inode. `None` if the name is free.
    fn bound(&self, view: &mut View<'_>) -> Result<Option<Bound>, Halt> {
        let slots = [self.directory_slot(), self.file_slot()];
        let found = slots.each_ref().map(|slot| view.record(slot));
        let first = first(view, &slots, found)?;
        first.map(|(slot, value)| path::bound(slot, value)).transpose()
    }

    /// Guards that the name is still bound as it was found. If it is not a directory, this includes
    /// that no directory has the name, because a directory hides a file of the same name.
    fn guard_bound(&self, bound: &Bound, plan: &mut Plan) {
        plan.guards.push(bound.guard());
        if !bound.is_directory() {
            plan.guards.push(Guard::Absent(self.directory_slot()));
        }
    }

    /// Returns true if no dentry of the name is known, neither from the store nor from the cache.
    /// This may be a wrong guess: a plan must guard it.
    fn seems_free(&self, view: &mut View<'_>) -> bool {
        let slots = [self.directory_slot(), self.file_slot()];
        slots.map(|slot| view.guess(&slot, None)).iter().all(Option::is_none)
    }

    /// Guards that the name is free, both for a file and for a directory. Fails with `NameExists`
    /// if a dentry is known.
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

/// Selects between the two dentries that one name may have, a directory's and a file's: the
/// directory's comes first. If the file's dentry is known and the directory's is not, the directory
/// is guessed to be absent, because most names have one dentry. A plan guards the guess, and an
/// answer reads it again.
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

/// An inode with its record, as the planner's view (its source of records) knows it.
#[derive(Clone, Debug)]
struct KnownInode {
    key: Key,
    record: Value,
    inode: Inode,
}

impl KnownInode {
    /// Finds an inode. Fails with `Stale` if it does not exist.
    fn find(view: &mut View<'_>, ino: Ino) -> Result<KnownInode, Halt> {
        let key = key::inode(ino);
        let record = view.record(&key)?.ok_or(FsError::Stale)?;
        KnownInode::of(key, record)
    }

    fn of(key: Key, record: Value) -> Result<KnownInode, Halt> {
        let inode = decode(&key, &record, Inode::decode)?;
        Ok(KnownInode { key, record, inode })
    }

    /// Finds a directory. Fails with `Stale` or `NotADirectory`.
    fn directory(view: &mut View<'_>, ino: Ino) -> Result<KnownInode, Halt> {
        let known = KnownInode::find(view, ino)?;
        known.as_directory()?;
        Ok(known)
    }

    /// Finds a directory whose names may be changed. Fails with `OnlyBuckets` for the root.
    fn parent(view: &mut View<'_>, ino: Ino) -> Result<KnownInode, Halt> {
        if ino == Ino::ROOT {
            return Err(FsError::OnlyBuckets.into());
        }
        KnownInode::directory(view, ino)
    }

    fn as_directory(&self) -> Result<&Directory, FsError> {
        match &self.inode.body {
            InodeBody::Directory(directory) => Ok(directory),
            InodeBody::File(_) | InodeBody::Symlink(_) | InodeBody::Special(_) => {
                Err(FsError::NotADirectory)
            }
        }
    }

    /// The guard that the inode's record is unchanged.
    fn guard(&self) -> Guard {
        Guard::Equals(self.key.clone(), self.record.clone())
    }

    /// The guard that the inode exists, in any state.
    fn guard_present(&self) -> Guard {
        Guard::Present(self.key.clone())
    }
}

/// Clears the mark "self-contained" in the dentry of a file that is about to change, if the file
/// has such a dentry. `name` is the name by which the caller found the file.
///
/// The mark lets a DELETE delete the inode without reading it ([`Dentry::self_contained`]). A
/// changed file may have blocks, so the plan that changes the file also clears the mark.
///
/// # Errors
/// If the file has the mark: `Stale` if `name` is `None`, is free, or is bound to another inode.
fn clear_self_contained(
    view: &mut View<'_>,
    inode: &mut Inode,
    ino: Ino,
    name: Option<&NodeName>,
    plan: &mut Plan,
) -> Result<(), Halt> {
    let InodeBody::File(file) = &mut inode.body else { return Ok(()) };
    if !std::mem::take(&mut file.marked_in_dentry) {
        return Ok(());
    }
    rewrite_name(view, ino, name, plan, |dentry| Dentry { self_contained: None, ..dentry })
}

/// Changes the dentry that binds `name` to `ino`, and guards its old value.
///
/// # Errors
/// `Stale` if `name` is `None`, is free, or is bound to another inode.
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

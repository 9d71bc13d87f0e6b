//! Changing attributes: mode, owner and times.
//!
//! For example, `chmod` on a file with an access control list changes the list in the same plan,
//! because three of its entries are the permission bits.

use record::key::CounterKind;
use record::{Ino, Inode, InodeBody, Kind, Timestamp, key};
use store::{Plan, Write};

use super::KnownInode;
use super::acl::{Acl, AclKind};
use crate::FoundNode;
use crate::Halt;
use crate::inode_state::{Change, InodeState, admit};
use crate::run::{Env, Planner, Step};
use crate::view::View;

/// The set-user-ID bit of a mode.
const SET_USER_ID: u32 = 0o4000;

/// The permission of the group to execute. Without it the set-group-ID bit does not grant rights
/// (it once meant mandatory locking).
const GROUP_EXECUTES: u32 = 0o010;

/// The extended attribute in which Linux stores the capabilities of an executable file, that is,
/// rights of the superuser that its process gets.
const CAPABILITIES: &[u8] = b"security.capability";

/// A new value for a time of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The time of the operation that sets it.
    Now,
    /// The time that the caller gives.
    At(Timestamp),
}

impl SetTime {
    fn time(self, env: &Env) -> Timestamp {
        match self {
            SetTime::Now => env.now,
            SetTime::At(time) => time,
        }
    }
}

/// A change of attributes. A field that is `None` does not change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttributeChange {
    /// The new permission bits. The access control list changes with them. `None` leaves both.
    pub mode: Option<u32>,
    /// The new owner, by user id; `None` leaves it.
    pub uid: Option<u32>,
    /// The new group, by id; `None` leaves it.
    pub gid: Option<u32>,
    /// The new time of the last read; `None` leaves it.
    pub accessed: Option<SetTime>,
    /// The new time of the last change of content; `None` leaves it.
    pub modified: Option<SetTime>,
    /// True to clear the set-user-ID bit, the set-group-ID bit (if the group may execute the file)
    /// and the file's capabilities (the Linux extended attribute), as a write or a change of owner
    /// does. Directories keep them.
    pub drop_rights: bool,
}

impl AttributeChange {
    /// Returns true if nothing changes.
    pub fn is_none(&self) -> bool {
        *self == AttributeChange::default()
    }

    /// Applies the change to an inode, and sets its status change time.
    pub(super) fn apply(&self, inode: &mut Inode, env: &Env) {
        let is_directory = matches!(inode.body, InodeBody::Directory(_));
        let at = &mut inode.attributes;
        if self.drop_rights && !is_directory {
            at.mode = without_rights(at.mode);
            inode.xattrs.retain(|xattr| xattr.name != CAPABILITIES);
        }
        let at = &mut inode.attributes;
        if let Some(mode) = self.mode {
            at.mode = mode;
            if let Some(acl) = Acl::find(&inode.xattrs, AclKind::Access) {
                Acl::put(&mut inode.xattrs, AclKind::Access, Some(&acl.with_mode(mode)));
            }
        }
        at.uid = self.uid.unwrap_or(at.uid);
        at.gid = self.gid.unwrap_or(at.gid);
        at.accessed = self.accessed.map_or(at.accessed, |time| time.time(env));
        at.modified = self.modified.map_or(at.modified, |time| time.time(env));
        at.status_changed = env.now;
    }
}

/// Changes attributes of a node: mode, owner and times. Returns the node after the change. One
/// round trip if the node is cached. Fails with `Stale` if the node does not exist, and with
/// `NotCurrent` if it is a noncurrent version.
#[derive(Clone, Debug)]
pub struct SetAttributes<'a> {
    /// The inode number of the node.
    pub ino: Ino,
    /// The attributes to change, with their new values.
    pub change: &'a AttributeChange,
}

/// Returns the mode of a file without its set-user-ID bit and, if the group may execute it, without
/// its set-group-ID bit.
pub const fn without_rights(mode: u32) -> u32 {
    let mode = mode & !SET_USER_ID;
    if mode & GROUP_EXECUTES == 0 { mode } else { mode & !super::SET_GROUP_ID }
}

impl Planner for SetAttributes<'_> {
    type Output = FoundNode;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<FoundNode>, Halt> {
        let known = KnownInode::find(view, self.ino)?;
        let mut inode = known.inode.clone();
        let mut plan = Plan { guards: vec![known.guard()], writes: Vec::new() };
        if inode.kind() == Kind::File {
            admit(view, env, (self.ino, &inode), Change::Attributes, &mut plan)?;
        }
        self.change.apply(&mut inode, env);
        if inode.kind() == Kind::Directory && self.change.modified.is_some() {
            // The counter holds the time of the last change of a name. If it is cleared, the
            // directory shows the time in the inode, until a name changes again.
            plan.writes.push(Write::Clear(key::counter(self.ino, CounterKind::Modified)));
        }
        let record = inode.encode(&known.key);
        plan.writes.push(Write::Put(known.key, record.clone()));
        Ok(Step::Commit(plan, FoundNode { ino: self.ino, inode, record, counts: None }))
    }
}

/// Sets the access time of a node if the new time is later. The status change time does not change.
/// Returns true if the time was set. For example, a mount with `relatime` sends one for a file that
/// was read for the first time in a day.
#[derive(Clone, Debug)]
pub struct SetAccessTime {
    /// The inode number of the node.
    pub ino: Ino,
    /// The time of the last read.
    pub at: Timestamp,
}

impl Planner for SetAccessTime {
    type Output = bool;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<bool>, Halt> {
        let known = KnownInode::find(view, self.ino)?;
        if known.inode.attributes.accessed >= self.at {
            return Ok(Step::Done(false));
        }
        let mut inode = known.inode.clone();
        let mut plan = Plan { guards: vec![known.guard()], writes: Vec::new() };
        if inode.kind() == Kind::File {
            let state = InodeState::find(view, env, self.ino, &inode)?;
            // A noncurrent version never changes, and neither does its access time.
            if state.superseded().is_some() {
                return Ok(Step::Done(false));
            }
            state.guard(&mut plan);
        }
        inode.attributes.accessed = self.at;
        let record = inode.encode(&known.key);
        plan.writes.push(Write::Put(known.key, record));
        Ok(Step::Commit(plan, true))
    }
}

//! Changing attributes.

use record::key::CounterKind;
use record::{Ino, Inode, InodeBody, Kind, Timestamp, key};
use store::{Plan, Write};

use super::Known;
use super::acl::{Acl, AclKind};
use crate::FoundNode;
use crate::Halt;
use crate::inode_state::{Change, InodeState, admit};
use crate::run::{Env, Planner, Step};
use crate::view::View;

/// Set-user-ID.
const SET_USER_ID: u32 = 0o4000;

/// The permission of a file's group to execute it: without it the set-group-ID bit means something
/// else.
const GROUP_EXECUTES: u32 = 0o010;

/// The extended attribute in which Linux keeps the capabilities of a program's file.
const CAPABILITIES: &[u8] = b"security.capability";

/// A time that is to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// To the operation's own.
    Now,
    /// To this one.
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

/// A change of attributes; what is `None` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttributeChange {
    /// Permission bits. An access control list says them, too.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// When it was last read.
    pub accessed: Option<SetTime>,
    /// When its content was last changed.
    pub modified: Option<SetTime>,
    /// True if anything but a directory loses the rights that its set-user-ID and set-group-ID bits and
    /// its capabilities give, as it does with a change of its content or owner.
    pub drop_rights: bool,
}

impl AttributeChange {
    /// Whether it changes nothing.
    pub fn is_none(&self) -> bool {
        *self == AttributeChange::default()
    }

    /// Makes the change.
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

/// Changes attributes of a node: one round trip when it is remembered.
#[derive(Clone, Debug)]
pub struct SetAttributes<'a> {
    /// The node.
    pub ino: Ino,
    /// What is changed.
    pub change: &'a AttributeChange,
}

/// Permission bits of a file that has lost the rights of its set-user-ID and set-group-ID bits.
pub const fn without_rights(mode: u32) -> u32 {
    let mode = mode & !SET_USER_ID;
    if mode & GROUP_EXECUTES == 0 { mode } else { mode & !super::SET_GROUP_ID }
}

impl Planner for SetAttributes<'_> {
    type Output = FoundNode;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<FoundNode>, Halt> {
        let known = Known::find(view, self.ino)?;
        let mut inode = known.inode.clone();
        let mut plan = Plan { guards: vec![known.guard()], writes: Vec::new() };
        if inode.kind() == Kind::File {
            admit(view, env, (self.ino, &inode), Change::Attributes, &mut plan)?;
        }
        self.change.apply(&mut inode, env);
        if inode.kind() == Kind::Directory && self.change.modified.is_some() {
            // From here on the inode says when, until a name changes again.
            plan.writes.push(Write::Clear(key::counter(self.ino, CounterKind::Modified)));
        }
        let record = inode.encode(&known.key);
        plan.writes.push(Write::Put(known.key, record.clone()));
        Ok(Step::Commit(plan, FoundNode { ino: self.ino, inode, record, counts: None }))
    }
}

/// Notes when a node was last read. Nothing else about it changes, not even when anything about it last
/// changed. Answers whether it was not noted yet.
#[derive(Clone, Debug)]
pub struct SetAccessTime {
    /// The node.
    pub ino: Ino,
    /// When it was read.
    pub at: Timestamp,
}

impl Planner for SetAccessTime {
    type Output = bool;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<bool>, Halt> {
        let known = Known::find(view, self.ino)?;
        if known.inode.attributes.accessed >= self.at {
            return Ok(Step::Done(false));
        }
        let mut inode = known.inode.clone();
        let mut plan = Plan { guards: vec![known.guard()], writes: Vec::new() };
        if inode.kind() == Kind::File {
            let state = InodeState::find(view, env, self.ino, &inode)?;
            // A version keeps the time as it was.
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

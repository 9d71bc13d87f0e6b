//! The state of an inode, and the changes that it admits.
//!
//! A dentry binds a name to an inode. A file is *current* while only dentries bind it. If a PUT or
//! DELETE replaces its key in a bucket with versions or a trash, a version record binds it, and it
//! is *superseded*: the inode has a [`Superseded`] record, which lists these version records. The
//! plan that writes or deletes the version record also updates that record. A file is *locked*
//! while its retention or legal hold lasts.
//!
//! ```text
//!             a version record binds it
//!  current ────────────────────────────▶ superseded
//!          ◀────────────────────────────
//!             the version is removed, restored,
//!             or moved to a copy (DetachVersions)
//! ```
//!
//! Every planner that changes an inode calls [`InodeState::admit`] and guards the state that it
//! saw. So a change and a plan that supersedes the inode never both commit:
//!
//! | change | current | locked | superseded | superseded, and a dentry binds it too |
//! |---|---|---|---|---|
//! | content | yes | `Locked` | `NotCurrent` | `NotCurrent` |
//! | attributes, extended attributes | yes | yes | `NotCurrent` | `NotCurrent` |
//! | headers and user metadata | yes | `Locked` | `VersionKept` | `NotCurrent` |
//! | tags, grants, retention | yes | yes | yes | `NotCurrent` |
//! | a new name | yes | yes | `NotCurrent` | `NotCurrent` |
//!
//! The content of a file that is encrypted under a key of the client does not change in any state:
//! `NeedsCustomerKey`.
//!
//! On `NotCurrent` the caller moves the versions to a copy with [`crate::DetachVersions`] and tries
//! again. For example, a program writes to a file that it has open, and a PUT has overwritten its
//! key. The versions get a copy of the inode by reference, and the program's write changes the old
//! inode.

use record::{BoundVersion, File, Ino, Inode, RetainUntil, Superseded, key};
use store::{Guard, Key, Plan, Value, Write};

use crate::run::Env;
use crate::view::{View, decode};
use crate::{FsError, Halt};

/// A kind of change of an inode, for the check if the inode's state admits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The bytes of a file, or its size.
    Content,
    /// Mode, owner, times, extended attributes and access control lists.
    Attributes,
    /// Content headers and user metadata of the object, which S3 never changes after the PUT.
    ObjectItem,
    /// Tags, grants, retention and legal hold. S3 changes them on any version.
    VersionItem,
    /// A new dentry: Last-Modified changes with it.
    Name,
}

/// The state of one inode, as a plan sees it.
#[derive(Debug)]
pub(crate) struct InodeState {
    at: Key,
    /// The record, if version records bind the inode.
    superseded: Option<(Value, Superseded)>,
    /// True if a dentry binds the inode. Only known to be right if version records bind it, too.
    is_named: bool,
    is_locked: bool,
    /// True if the content is encrypted under a key of the client.
    has_customer_key: bool,
}

impl InodeState {
    /// The state of a known inode. If its [`Superseded`] record is not known, the record is guessed
    /// to be absent, and the guard checks that.
    pub(crate) fn find(
        view: &mut View<'_>,
        env: &Env,
        ino: Ino,
        inode: &Inode,
    ) -> Result<InodeState, Halt> {
        let at = key::superseded(ino);
        let superseded = match view.guess(&at, None) {
            Some(value) => {
                let record = decode(&at, &value, Superseded::decode)?;
                Some((value, record))
            }
            None => None,
        };
        let is_named = superseded.as_ref().is_none_or(|(_, record)| is_named(inode, record));
        let lock = inode.file().map(|file| file.object.lock);
        let is_locked = lock.is_some_and(|lock| lock.holds(env.earliest_now, false));
        let has_customer_key = inode.file().is_some_and(File::needs_customer_key);
        Ok(InodeState { at, superseded, is_named, is_locked, has_customer_key })
    }

    /// Treats a file as unlocked if its only lock is the retention `own`, which the file got from
    /// the bucket's default at earlier writes of the same open file. A legal hold still locks it.
    pub(crate) fn disregard(&mut self, own: Option<RetainUntil>, inode: &Inode) {
        let lock = inode.file().map(|file| file.object.lock).unwrap_or_default();
        if own.is_some() && lock.retention == own {
            self.is_locked = lock.legal_hold == Some(true);
        }
    }

    /// Fails if the state does not admit the change; see the table of this module.
    pub(crate) fn admit(&self, change: Change) -> Result<(), FsError> {
        let changes_object = matches!(change, Change::Content | Change::ObjectItem);
        if changes_object && self.is_locked {
            return Err(FsError::Locked);
        }
        if change == Change::Content && self.has_customer_key {
            return Err(FsError::NeedsCustomerKey);
        }
        if self.superseded.is_none() {
            return Ok(());
        }
        match change {
            Change::Content | Change::Attributes | Change::Name => Err(FsError::NotCurrent),
            Change::ObjectItem | Change::VersionItem if self.is_named => Err(FsError::NotCurrent),
            Change::ObjectItem => Err(FsError::VersionKept),
            Change::VersionItem => Ok(()),
        }
    }

    /// The list of the version records that bind the inode, as bytes and decoded; `None` if none
    /// binds it.
    pub(crate) fn superseded(&self) -> Option<&(Value, Superseded)> {
        self.superseded.as_ref()
    }

    /// Guards that the state is unchanged.
    pub(crate) fn guard(&self, plan: &mut Plan) {
        let guard = match &self.superseded {
            Some((value, _)) => Guard::Equals(self.at.clone(), value.clone()),
            None => Guard::Absent(self.at.clone()),
        };
        if !plan.guards.contains(&guard) {
            plan.guards.push(guard);
        }
    }
}

/// Returns true if a dentry binds the inode in addition to these version records.
pub(crate) fn is_named(inode: &Inode, superseded: &Superseded) -> bool {
    // The link count includes version records, so any link beyond them is a dentry.
    u32::try_from(superseded.versions.len()).is_ok_and(|bound| inode.links() > bound)
}

/// Fails if the inode does not admit the change, and guards its state.
pub(crate) fn admit(
    view: &mut View<'_>,
    env: &Env,
    (ino, inode): (Ino, &Inode),
    change: Change,
    plan: &mut Plan,
) -> Result<(), Halt> {
    let state = InodeState::find(view, env, ino, inode)?;
    state.admit(change)?;
    state.guard(plan);
    Ok(())
}

/// Adds to a plan that a version record binds the inode. `linked` is true if the inode may have
/// further names. Only then can it have a [`Superseded`] record (the list of the version records
/// that bind it) before this plan, so the record is read.
pub(crate) fn bind_version(
    view: &mut View<'_>,
    (ino, linked): (Ino, bool),
    version: BoundVersion,
    plan: &mut Plan,
) -> Result<(), Halt> {
    let mut record = known(view, ino, linked, plan)?;
    record.versions.push(version);
    put(ino, &record, plan);
    Ok(())
}

/// Adds to a plan that a version record does not bind the inode any more.
pub(crate) fn release_version(
    view: &mut View<'_>,
    (ino, linked): (Ino, bool),
    version: &BoundVersion,
    plan: &mut Plan,
) -> Result<(), Halt> {
    let mut record = known(view, ino, linked, plan)?;
    record.versions.retain(|bound| bound != version);
    put(ino, &record, plan);
    Ok(())
}

/// The [`Superseded`] record as this plan leaves it so far. Only an inode with several names can
/// have a record that the plan has not written itself; then it is read and guarded.
fn known(view: &mut View<'_>, ino: Ino, linked: bool, plan: &mut Plan) -> Result<Superseded, Halt> {
    let at = key::superseded(ino);
    // The plan may already have written the record, for another version of the same inode.
    for write in &plan.writes {
        match write {
            Write::Put(key, value) if *key == at => return decode(&at, value, Superseded::decode),
            Write::Delete(key) if *key == at => return Ok(Superseded::default()),
            Write::Put(..)
            | Write::Delete(_)
            | Write::Add(..)
            | Write::Max(..)
            | Write::Set(..)
            | Write::Clear(_) => {}
        }
    }
    if !linked {
        return Ok(Superseded::default());
    }
    match view.record(&at)? {
        Some(value) => {
            let record = decode(&at, &value, Superseded::decode)?;
            plan.guards.push(Guard::Equals(at, value));
            Ok(record)
        }
        None => {
            plan.guards.push(Guard::Absent(at));
            Ok(Superseded::default())
        }
    }
}

/// Replaces the write of the [`Superseded`] record in a plan. An empty list deletes the record.
fn put(ino: Ino, record: &Superseded, plan: &mut Plan) {
    let at = key::superseded(ino);
    // A plan must not write a record twice.
    plan.writes
        .retain(|write| !matches!(write, Write::Put(key, _) | Write::Delete(key) if *key == at));
    plan.writes.push(if record.versions.is_empty() {
        Write::Delete(at)
    } else {
        Write::Put(at.clone(), record.encode(&at))
    });
}

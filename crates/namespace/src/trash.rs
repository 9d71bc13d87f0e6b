//! The trash of a bucket: restoring deleted and replaced objects.
//!
//! An item of a trash is a version record, like a noncurrent version. So all code that handles
//! versions also handles items of a trash: the reaper, dumps of the volume, and the removal of a
//! bucket. For example, a user deletes `report.pdf` by mistake: [`Restore`] binds the key to the
//! same inode again, in one commit, without copying data.

use record::{Dentry, Ino, Inode, Timestamp, Version, VersionRef, VersionStamp, Versioning, key};
use store::{Guard, Key, Plan, Write};

use crate::object::make_directories;
use crate::path::{self, NamedBucket, Path, Unknown};
use crate::quota;
use crate::run::{Env, Planner, Step};
use crate::unbind::Unbinding;
use crate::version::{KeyVersions, rebind};
use crate::view::{View, decode};
use crate::{FsError, Halt};

/// The most items of one [`MarkTrashSeen`]: each needs a guard and a write in its plan.
pub const ITEMS_SEEN_MAX: usize = 100;

/// Stores in items of a trash the time at which a pass over the trash (the task that deletes
/// expired items) saw them first. Items expire by this time, so their expiry does not depend on the
/// clocks of the sessions that deleted the objects; see [`Version::seen`]. Items that are gone are
/// left out.
#[derive(Clone, Debug)]
pub struct MarkTrashSeen<'a> {
    /// The bucket with the trash.
    pub bucket: NamedBucket<'a>,
    /// The keys and ids of the items, at most [`ITEMS_SEEN_MAX`].
    pub items: &'a [(Vec<u8>, VersionStamp)],
    /// The time of the pass. It replaces a stored time that is later, which a gateway with a wrong
    /// clock may have stored.
    pub at: Timestamp,
}

impl Planner for MarkTrashSeen<'_> {
    type Output = ();

    fn plan(&self, view: &mut View<'_>, _env: &Env) -> Result<Step<()>, Halt> {
        let bucket = path::bucket(view, self.bucket)?.dentry.ino;
        let keys: Vec<Key> =
            self.items.iter().map(|(object, id)| key::version(bucket, object, *id)).collect();
        let found = view.many(&keys)?;
        let mut plan = Plan::default();
        for (at, value) in keys.into_iter().zip(found) {
            // The item may have been restored or removed meanwhile.
            let Some(value) = value else { continue };
            let version = decode(&at, &value, Version::decode)?;
            if version.is_marker() || version.seen.is_some_and(|seen| seen <= self.at) {
                continue;
            }
            plan.guards.push(Guard::Equals(at.clone(), value));
            let seen = Version { seen: Some(self.at), ..version };
            plan.writes.push(Write::Put(at.clone(), seen.encode(&at)));
        }
        if plan.writes.is_empty() {
            return Ok(Step::Done(()));
        }
        Ok(Step::Commit(plan, ()))
    }
}

/// Restores an item of a trash to its key. One round trip and the commit, if the directories above
/// the key are cached.
///
/// Fails with `HasNoTrash` if the bucket has no trash, with `NoSuchVersion` if the key has no such
/// item, and with `NameExists` if the key is bound and cannot be replaced.
#[derive(Clone, Debug)]
pub struct Restore<'a> {
    /// The object key under which the item is restored.
    pub path: &'a Path,
    /// The id of the item among those of its key.
    pub version: VersionStamp,
    /// Unused inode numbers for directories that the key implies and that do not exist: one for
    /// each directory of the path.
    pub fresh: &'a [Ino],
    /// True: an object that has the key now moves to the trash. False: the operation fails with
    /// [`FsError::NameExists`] if there is one.
    pub replaces: bool,
}

impl Planner for Restore<'_> {
    type Output = ();

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<()>, Halt> {
        let directories = &self.path.directories;
        let chain = path::chain(view, self.path.bucket(), directories, Unknown::Ask)?;
        let bucket = &chain.bucket.dentry;
        if bucket.versioning != Versioning::Trash {
            return Err(FsError::HasNoTrash.into());
        }
        let versions = KeyVersions::new(bucket, || self.path.object());
        let found = versions.find(view, VersionRef::Id(self.version))?;
        let found = found.ok_or(FsError::NoSuchVersion)?;
        let dentry = found.dentry().ok_or(FsError::NoSuchVersion)?;
        let inode_key = key::inode(dentry.ino);
        let record = view.record(&inode_key)?.ok_or(FsError::Contended)?;
        let attributes = decode(&inode_key, &record, Inode::decode)?.attributes;

        let mut plan = Plan { guards: chain.guards().collect(), writes: Vec::new() };
        let parent =
            make_directories(self.path, self.fresh, &attributes, view, &chain, env, &mut plan)?;
        let slot = key::dentry(parent, self.path.sort_key().as_bytes());
        let existing = if chain.missing.is_some() { None } else { view.record(&slot)? };
        let mut unbinding = Unbinding::new(bucket.ino);
        match existing {
            Some(value) => {
                let bound = path::bound(&slot, value)?;
                if !self.replaces || !bound.is_file() {
                    return Err(FsError::NameExists.into());
                }
                plan.guards.push(bound.guard());
                let current = Some(&bound.dentry);
                versions.supersede(view, env, current, &mut plan, &mut unbinding)?;
            }
            None => {
                // A directory that this plan creates has its one entry counted there, and its names
                // are free.
                if chain.missing.is_none() {
                    plan.guards.push(Guard::Absent(slot.clone()));
                    let entries = key::counter(parent, key::CounterKind::Entries);
                    plan.writes.push(Write::Add(entries, 1));
                }
                let objects = key::counter(bucket.ino, key::CounterKind::Objects);
                plan.writes.push(Write::Add(objects, 1));
            }
        }
        // The inode stays: the version record is replaced by the dentry in the same plan.
        versions.remove(view, &found, &mut plan)?;
        // In a bucket with a trash, current objects have no version id.
        let dentry = Dentry { version: None, ..rebind(view, dentry, &mut plan)? };
        plan.writes.push(Write::Put(slot.clone(), dentry.encode(&slot)));
        let modified = key::counter(parent, key::CounterKind::Modified);
        plan.writes.push(Write::Max(modified, env.now.micros()));
        unbinding.finish(view, env, &mut plan)?;
        quota::guard(view, bucket, &mut plan)?;
        Ok(Step::Commit(plan, ()))
    }
}

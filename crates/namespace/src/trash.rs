//! The trash of a bucket: what its keys have lost, and giving it back to them.
//!
//! What is in the trash stands where versions stand. So all that knows of versions knows of it: what
//! their inodes and blocks belong to, copies of the whole volume, and the end of a bucket.

use record::{Dentry, Ino, Inode, Timestamp, Version, VersionRef, VersionStamp, Versioning, key};
use store::{Guard, Key, Plan, Write};

use crate::object::make_directories;
use crate::path::{self, NamedBucket, Path, Unknown};
use crate::quota;
use crate::run::{Env, Planner, Step};
use crate::unbind::Unbinding;
use crate::version::{KeyVersions, bound_again};
use crate::view::{View, decode};
use crate::{FsError, Halt};

/// The most items that one [`MarkTrashSeen`] marks: a guard and a write for each.
pub const ITEMS_SEEN_MAX: usize = 100;

/// Notes that a pass has seen items of a trash, for those of which no pass before has noted that. So their
/// days do not depend on the clocks of their writers: see [`Version::seen`].
#[derive(Clone, Debug)]
pub struct MarkTrashSeen<'a> {
    /// The bucket.
    pub bucket: NamedBucket<'a>,
    /// The items, at most [`ITEMS_SEEN_MAX`]: their keys and names.
    pub items: &'a [(Vec<u8>, VersionStamp)],
    /// The time of the pass. A later time that a gateway with a wrong clock has noted becomes this one.
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
            // An item may have been restored or removed meanwhile.
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

/// Binds a key again to something that it has lost: one round trip besides the commit when the
/// directories above it are remembered.
#[derive(Clone, Debug)]
pub struct Restore<'a> {
    /// The key.
    pub path: &'a Path,
    /// What it is to be bound to.
    pub version: VersionStamp,
    /// Numbers for directories that the key implies and that do not exist; one for each of the path's
    /// directories.
    pub fresh: &'a [Ino],
    /// Whether what has the key goes to the trash. If not, and there is something, the answer is
    /// [`FsError::NameExists`].
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
        let there = if chain.missing.is_some() { None } else { view.record(&slot)? };
        let mut unbinding = Unbinding::new(bucket.ino);
        match there {
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
                // A directory made by this plan has its one entry counted there, and is empty.
                if chain.missing.is_none() {
                    plan.guards.push(Guard::Absent(slot.clone()));
                    let entries = key::counter(parent, key::CounterKind::Entries);
                    plan.writes.push(Write::Add(entries, 1));
                }
                let objects = key::counter(bucket.ino, key::CounterKind::Objects);
                plan.writes.push(Write::Add(objects, 1));
            }
        }
        versions.remove(view, &found, &mut plan)?;
        // No current version of the bucket has an id.
        let dentry = Dentry { version: None, ..bound_again(view, dentry, &mut plan)? };
        plan.writes.push(Write::Put(slot.clone(), dentry.encode(&slot)));
        let modified = key::counter(parent, key::CounterKind::Modified);
        plan.writes.push(Write::Max(modified, env.now.micros()));
        unbinding.finish(view, env, &mut plan)?;
        quota::guard(view, bucket, &mut plan)?;
        Ok(Step::Commit(plan, ()))
    }
}

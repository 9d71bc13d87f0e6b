//! Removing one version of an object permanently, or a delete marker.
//!
//! For example, a client removes the delete marker of a key, which is the record of its deletion:
//! the newest noncurrent version becomes the current one again, and its directories are created if
//! they are missing.

use std::slice;

use record::{Dentry, Ino, Inode, VersionRef, Versioning, key};
use store::{Guard, Key, Plan, Value, Write};

use crate::lookup::guard_name;
use crate::object::make_directories;
use crate::path::{self, Bound, Path, Unknown};
use crate::quota;
use crate::remove::{Branch, Tree};
use crate::run::{Env, Planner, Step};
use crate::unbind::Unbinding;
use crate::version::{KeyVersions, Noncurrent};
use crate::view::{View, decode};
use crate::{FsError, Halt};

/// Removes one version of a key. One round trip and the commit, if the directories above the key
/// are cached. If it was the current version, or the delete marker of the key, the next older
/// version becomes the current one.
///
/// Fails with `Locked` if a retention or legal hold keeps the version, and with
/// `PreconditionFailed` if it has other tags.
#[derive(Clone, Debug)]
pub struct RemoveVersion<'a> {
    /// The object key.
    pub path: &'a Path,
    /// The version or delete marker to remove.
    pub version: VersionRef,
    /// Unused inode numbers for directories that the key implies and that do not exist: one for
    /// each directory of the path.
    pub fresh: &'a [Ino],
    /// True if a retention in governance mode does not keep the version.
    pub bypasses_governance: bool,
    /// Versions that are not removed, even if `version` names them. With [`Exempt::Nothing`] items
    /// of a trash are not found either, as in S3; callers that remove items of a trash use
    /// [`Exempt::Current`].
    pub exempt: Exempt,
    /// The S3 tags that the version must have; `None` accepts all.
    pub object_tags: Option<&'a [(String, String)]>,
}

/// Versions that a [`RemoveVersion`] does not remove. The caller has decided by an earlier state,
/// for example that a version is noncurrent, and it may have become current since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exempt {
    /// No version is exempt: any version is removed.
    Nothing,
    /// The latest version is not removed: the current version, or the delete marker that a request
    /// for a key without a current version finds. Its removal would make an older version current.
    Current,
    /// No version that is an object is removed, only delete markers. A marker whose removal would
    /// make an object current stays, too. An expiry uses it to remove a marker that hides no
    /// version any more.
    Objects,
}

/// The result of a [`RemoveVersion`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemovedVersion {
    /// True if a version was removed.
    pub existed: bool,
    /// True if a delete marker was removed.
    pub was_marker: bool,
}

/// The current version of the key: the object to which a dentry binds it.
struct Current {
    /// The index of its directory's node in the tree of directories.
    node: usize,
    bound: Bound,
    /// The bytes of its inode's record.
    record: Value,
}

/// The node to which the name of a key leads. For example, it is a symbolic link if a program has
/// removed the object and created a link under its name.
enum Name {
    /// The directory of the key does not exist.
    NoDirectory,
    /// No node has the name. The key is that of its dentry.
    Free(Key),
    /// A symbolic link or a special file of a program, which is no object.
    Other(Bound),
    /// The current version.
    Object(Current),
}

impl Planner for RemoveVersion<'_> {
    type Output = RemovedVersion;

    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<RemovedVersion>, Halt> {
        let bucket = path::bucket(view, self.path.bucket())?;
        let versions = KeyVersions::new(&bucket.dentry, || self.path.object());
        // The version may be current or noncurrent. Both are requested before either result is
        // used, so that they take one round trip.
        let versioning = bucket.dentry.versioning;
        // S3 clients must not see items of a trash, so an ordinary request looks at the current
        // version only.
        let is_known = versioning.is_shown()
            || (versioning == Versioning::Trash && self.exempt != Exempt::Nothing);
        let other = if is_known { versions.find(view, self.version) } else { Ok(None) };
        let branch = Branch { directories: self.path.directories.clone(), removals: Vec::new() };
        let mut tree = Tree::find(view, self.path.bucket(), slice::from_ref(&branch))?;
        let name = self.name(view, &tree)?;
        let is_current = |current: &Current| {
            let version = current.bound.dentry.version;
            version.map_or(VersionRef::Null, VersionRef::Id) == self.version
        };
        if let Name::Object(current) = &name
            && is_current(current)
        {
            if self.exempt != Exempt::Nothing {
                return Ok(Step::Done(RemovedVersion::default()));
            }
            let plan = self.remove_current(view, env, &bucket, &versions, &mut tree, current)?;
            return Ok(Step::Commit(plan, RemovedVersion { existed: true, was_marker: false }));
        }
        let Some(found) = other? else { return Ok(Step::Done(RemovedVersion::default())) };
        let mut plan = Plan { guards: vec![bucket.guard()], writes: Vec::new() };
        let was_marker = found.version.is_marker();
        if self.exempt == Exempt::Objects && !was_marker {
            return Ok(Step::Done(RemovedVersion::default()));
        }
        if was_marker && !self.reveal(view, env, &versions, &found, name, &mut plan)? {
            return Ok(Step::Done(RemovedVersion::default()));
        }
        if self.version == VersionRef::Null {
            guard_name(view, self.path, &mut plan)?;
        }
        let mut unbinding = Unbinding::new(bucket.dentry.ino);
        if let Some(dentry) = found.dentry() {
            let inode_key = key::inode(dentry.ino);
            let record = view.record(&inode_key)?.ok_or(FsError::NoSuchVersion)?;
            self.check(env, &inode_key, &record, &mut plan)?;
            unbinding.take(&dentry);
        }
        versions.remove(view, &found, &mut plan)?;
        count_bytes(view, env, bucket.dentry.ino, unbinding, &mut plan)?;
        Ok(Step::Commit(plan, RemovedVersion { existed: true, was_marker }))
    }
}

impl RemoveVersion<'_> {
    /// Finds the node to which the name of the key leads.
    fn name(&self, view: &mut View<'_>, tree: &Tree) -> Result<Name, Halt> {
        let Some((node, directory)) = tree.end(0) else { return Ok(Name::NoDirectory) };
        let slot = key::dentry(directory, self.path.sort_key().as_bytes());
        let found = view.followed(slice::from_ref(&slot), &key::dentry_to_inode())?;
        let Some((value, target)) = found.into_iter().next().flatten() else {
            return Ok(Name::Free(slot));
        };
        let bound = path::bound(&slot, value)?;
        if !bound.is_file() {
            return Ok(Name::Other(bound));
        }
        let record = target.ok_or(FsError::NoSuchVersion)?;
        Ok(Name::Object(Current { node, bound, record }))
    }

    /// Adds to a plan the effect of the removal of a delete marker on requests without a version.
    /// Returns false if the marker is [exempt](Exempt), so that it stays.
    fn reveal(
        &self,
        view: &mut View<'_>,
        env: &Env,
        versions: &KeyVersions,
        marker: &Noncurrent,
        name: Name,
        plan: &mut Plan,
    ) -> Result<bool, Halt> {
        let slot = match name {
            Name::NoDirectory => None,
            Name::Free(slot) => Some(slot),
            // The name is not free, so no version becomes the current one: the key has one, or a
            // program's node has the name. The guard keeps it so.
            Name::Object(Current { bound, .. }) | Name::Other(bound) => {
                plan.guards.push(bound.guard());
                return Ok(true);
            }
        };
        self.restore_newest(view, env, versions, marker, slot, plan)
    }

    /// Fails with `Locked` if a retention or legal hold keeps a version, and with
    /// `PreconditionFailed` if it has other tags. Guards its inode, whose record is `record` under
    /// the key `at`.
    fn check(&self, env: &Env, at: &Key, record: &Value, plan: &mut Plan) -> Result<(), Halt> {
        let inode = decode(at, record, Inode::decode)?;
        let file = inode.file();
        if file
            .is_some_and(|file| file.object.lock.holds(env.earliest_now, self.bypasses_governance))
        {
            return Err(FsError::Locked.into());
        }
        if let (Some(file), Some(tags)) = (file, self.object_tags)
            && file.object.tags != tags
        {
            return Err(FsError::PreconditionFailed.into());
        }
        plan.guards.push(Guard::Equals(at.clone(), record.clone()));
        Ok(())
    }

    /// Returns the plan that removes the current version. The next older version becomes the
    /// current one; if there is none, the name is removed, and the directories that become empty.
    fn remove_current(
        &self,
        view: &mut View<'_>,
        env: &Env,
        bucket: &Bound,
        versions: &KeyVersions,
        tree: &mut Tree,
        current: &Current,
    ) -> Result<Plan, Halt> {
        let Current { node, bound, record } = current;
        let mut plan = Plan { guards: tree.guards(), writes: Vec::new() };
        plan.guards.push(bound.guard());
        self.check(env, &key::inode(bound.dentry.ino), record, &mut plan)?;
        let versioning = bucket.dentry.versioning;
        let shown = versioning.is_shown();
        let next = if shown { versions.restore_newest(view, None, &mut plan)? } else { None };
        let bucket = bucket.dentry.ino;
        match next {
            Some(next) => {
                plan.writes.push(Write::Put(bound.key.clone(), next.encode(&bound.key)));
            }
            // The last version of the key is removed, so its directories may become empty.
            None => {
                plan.writes.push(Write::Delete(bound.key.clone()));
                plan.writes.push(Write::Add(key::counter(bucket, key::CounterKind::Objects), -1));
                tree.leave(*node, bound.clone());
                tree.prune(view, env, &mut plan)?;
            }
        }
        let mut unbinding = Unbinding::new(bucket);
        match versioning {
            // The current object moves to the trash instead.
            Versioning::Trash => {
                versions.delete(view, env, Some(&bound.dentry), &mut plan, &mut unbinding)?;
            }
            Versioning::Off | Versioning::Enabled | Versioning::Suspended => {
                unbinding.take(&bound.dentry);
            }
        }
        count_bytes(view, env, bucket, unbinding, &mut plan)?;
        Ok(plan)
    }

    /// Adds to a plan the effect of the removal of a delete marker: if it is the newest record of
    /// the key, the next older version becomes the current one. Returns false if the marker is
    /// [exempt](Exempt), so that it stays.
    fn restore_newest(
        &self,
        view: &mut View<'_>,
        env: &Env,
        versions: &KeyVersions,
        marker: &Noncurrent,
        slot: Option<Key>,
        plan: &mut Plan,
    ) -> Result<bool, Halt> {
        // The removal of an older marker does not change which version is current.
        let newest = versions.newest(view, 1)?;
        if let Some(newest) = newest.first().filter(|newest| newest.key != marker.key) {
            plan.guards.push(newest.guard());
            return Ok(true);
        }
        if self.exempt == Exempt::Current {
            return Ok(false);
        }
        let Some(dentry) = versions.restore_newest(view, Some(marker), plan)? else {
            return Ok(true);
        };
        if self.exempt == Exempt::Objects {
            return Ok(false);
        }
        let chain = path::chain(view, self.path.bucket(), &self.path.directories, Unknown::Ask)?;
        for guard in chain.guards() {
            if !plan.guards.contains(&guard) {
                plan.guards.push(guard);
            }
        }
        let inode_key = key::inode(dentry.ino);
        let record = view.record(&inode_key)?.ok_or(FsError::Contended)?;
        let attributes = decode(&inode_key, &record, Inode::decode)?.attributes;
        let parent = make_directories(self.path, self.fresh, &attributes, view, &chain, env, plan)?;
        plan.guards.extend(slot.map(Guard::Absent));
        let slot = key::dentry(parent, self.path.sort_key().as_bytes());
        plan.writes.push(Write::Put(slot.clone(), Dentry::encode(&dentry, &slot)));
        if chain.missing.is_none() {
            plan.writes.push(Write::Add(key::counter(parent, key::CounterKind::Entries), 1));
        }
        let modified = key::counter(parent, key::CounterKind::Modified);
        plan.writes.push(Write::Max(modified, env.now.micros()));
        let objects = key::counter(chain.bucket.dentry.ino, key::CounterKind::Objects);
        plan.writes.push(Write::Add(objects, 1));
        quota::guard(view, &chain.bucket.dentry, plan)?;
        Ok(true)
    }
}

/// Adds the release of inodes, and the change of the bucket's bytes, to a plan.
fn count_bytes(
    view: &mut View<'_>,
    env: &Env,
    bucket: Ino,
    unbinding: Unbinding,
    plan: &mut Plan,
) -> Result<(), Halt> {
    let bytes = unbinding.finish(view, env, plan)?.bytes;
    if bytes > 0 {
        plan.writes.push(Write::Add(key::counter(bucket, key::CounterKind::Bytes), -bytes));
    }
    Ok(())
}

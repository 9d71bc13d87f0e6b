//! Versions, retention and quota of objects that file programs change.
//!
//! A program addresses a file by directory and name; versions belong to an object key. This module
//! finds the key: it reads the directories above the name. A plan that keeps a version guards each
//! of these directories, as a plan that moves a directory does. For example, a program overwrites
//! `a/b/c` by a rename in a bucket with versions: the plan guards the inodes of `a` and `b`, so the
//! version is stored under the right key.

use record::key::CounterKind;
use record::{Bucket, Encryption, Ino, RetainUntil, SortKey, VersionStamp, key};
use store::{Guard, Plan, Write};

use super::counts::Counts;
use super::{ANCESTORS_MAX, KnownInode};
use crate::list::is_object_key;
use crate::path::{self, Bound, object_key};
use crate::run::Env;
use crate::unbind::Unbinding;
use crate::version::KeyVersions;
use crate::view::{View, decode};
use crate::{FsError, Halt, quota, retention};

/// Finds the dentry of a bucket by its inode number. Fails with `Stale` if the bucket is removed.
pub(super) fn bucket_of(view: &mut View<'_>, bucket: Ino) -> Result<Bound, Halt> {
    let inode = KnownInode::directory(view, bucket)?;
    let name = &inode.as_directory()?.name;
    let slot = key::dentry(Ino::ROOT, SortKey::directory(name).as_bytes());
    let value = view.record(&slot)?.ok_or(FsError::Stale)?;
    let bound = path::bound(&slot, value)?;
    if bound.dentry.ino == bucket { Ok(bound) } else { Err(FsError::Stale.into()) }
}

/// The versions of the object key to which a name in a directory corresponds. `None` if the bucket
/// keeps neither versions nor a trash, or if the path is not a valid object key. The plan guards
/// the versioning state of the bucket, and all directories above the name.
pub(super) fn versions(
    view: &mut View<'_>,
    directory: &KnownInode,
    name: &[u8],
    plan: &mut Plan,
) -> Result<Option<KeyVersions>, Halt> {
    let bucket = bucket_of(view, directory.inode.bucket)?;
    add(plan, bucket.guard());
    if !bucket.dentry.versioning.keeps() {
        return Ok(None);
    }
    let (mut at, mut names) = (directory.clone(), Vec::new());
    for _ in 0..ANCESTORS_MAX {
        add(plan, at.guard());
        let above = at.as_directory()?;
        if above.parent == Ino::ROOT {
            names.reverse();
            let object = object_key(&names, name);
            let is_object = is_object_key(&object);
            return Ok(is_object.then(|| KeyVersions::new(&bucket.dentry, || object)));
        }
        names.push(above.name.clone());
        let parent = above.parent;
        at = KnownInode::directory(view, parent)?;
    }
    Err(FsError::TooDeep.into())
}

/// The version id for a file that gets a free name, or `None` if the bucket does not show versions,
/// or the file is the null version. If versioning is enabled concurrently, the file is its null
/// version, so the plan need not guard that versioning is off.
///
/// In a bucket with suspended versioning the file replaces an existing noncurrent null version (the
/// one that was written while versioning was not enabled); `counts` then subtracts its bytes.
pub(super) fn version_for_new_name(
    view: &mut View<'_>,
    env: &Env,
    (directory, name): (&KnownInode, &[u8]),
    counts: &mut Counts,
    plan: &mut Plan,
) -> Result<Option<VersionStamp>, Halt> {
    let bucket = directory.inode.bucket;
    if !bucket_of(view, bucket)?.dentry.versioning.is_shown() {
        return Ok(None);
    }
    let Some(versions) = versions(view, directory, name, plan)? else { return Ok(None) };
    // The name is free, so only a noncurrent null version can be replaced.
    let mut unbinding = Unbinding::new(bucket);
    let version = versions.arrive(view, env, None, plan, &mut unbinding)?;
    let unbound = unbinding.finish(view, env, plan)?;
    counts.add(bucket, CounterKind::Bytes, -unbound.bytes);
    Ok(version)
}

/// The default retention of the bucket for an object that is created now; `None` if the bucket has
/// none. The plan guards the bucket's settings.
pub(super) fn default_retention(
    view: &mut View<'_>,
    env: &Env,
    bucket: Ino,
    plan: &mut Plan,
) -> Result<Option<RetainUntil>, Halt> {
    let bucket = bucket_of(view, bucket)?;
    // Without this guard, an old hint could hide that the bucket has got object lock. A bucket with
    // object lock keeps it, and then the plan guards its settings.
    if !bucket.dentry.locks {
        add(plan, bucket.guard());
    }
    retention::default_retention(view, env, &bucket.dentry, plan)
}

/// The default encryption of the bucket for a file that is created now; `None` if the bucket has
/// none. The plan guards the bucket's dentry or its settings: with old hints for both, a file that
/// is created after the default was set would get none.
pub(super) fn default_encryption(
    view: &mut View<'_>,
    bucket: Ino,
    plan: &mut Plan,
) -> Result<Option<Encryption>, Halt> {
    let bound = bucket_of(view, bucket)?;
    if !bound.dentry.encrypts {
        add(plan, bound.guard());
        return Ok(None);
    }
    let at = key::bucket(bucket);
    let value = view.record(&at)?.ok_or(FsError::NoSuchBucket)?;
    let default = decode(&at, &value, Bucket::decode)?.default_encryption;
    add(plan, Guard::Equals(at, value));
    Ok(default)
}

/// Guards that the bucket stays within its quota (its limits of bytes and objects), if the plan
/// adds to them. Call it when all counter changes are in the plan. Fails with `QuotaExceeded`.
pub(super) fn guard_quota(view: &mut View<'_>, bucket: Ino, plan: &mut Plan) -> Result<(), Halt> {
    if !grows(bucket, plan) {
        return Ok(());
    }
    let bucket = bucket_of(view, bucket)?;
    // Also without a quota: another session may have set one that this session has not read.
    add(plan, bucket.guard());
    quota::guard(view, &bucket.dentry, plan)
}

/// Returns true if a plan adds to the bytes or objects of a bucket.
fn grows(bucket: Ino, plan: &Plan) -> bool {
    let kinds = [CounterKind::Bytes, CounterKind::Objects];
    let counters = kinds.map(|kind| key::counter(bucket, kind));
    plan.writes.iter().any(|write| matches!(write, Write::Add(key, 1..) if counters.contains(key)))
}

/// Adds a guard, unless the plan has it.
fn add(plan: &mut Plan, guard: Guard) {
    if !plan.guards.contains(&guard) {
        plan.guards.push(guard);
    }
}

//! Versions of what file programs name: which object a name is, and whether its bucket keeps it.
//!
//! A key is a path. So a plan that keeps a version guards where each directory above the name is, as a
//! plan that moves a directory does.

use record::key::CounterKind;
use record::{Bucket, Ino, Quota, RetainUntil, SortKey, VersionStamp, key};
use store::{Guard, Plan, Write};

use super::counts::Counts;
use super::{ANCESTORS_MAX, Known};
use crate::list::is_object_key;
use crate::path::{self, Bound, object_key};
use crate::quota;
use crate::run::Env;
use crate::unbind::Unbinding;
use crate::version::KeyVersions;
use crate::view::{View, decode};
use crate::{FsError, Halt};

/// The bucket of this number, as its name leads to it.
pub(super) fn bucket_of(view: &mut View<'_>, bucket: Ino) -> Result<Bound, Halt> {
    let inode = Known::directory(view, bucket)?;
    let name = &inode.as_directory()?.name;
    let slot = key::dentry(Ino::ROOT, SortKey::directory(name).as_bytes());
    let value = view.record(&slot)?.ok_or(FsError::Stale)?;
    let bound = path::bound(&slot, value)?;
    if bound.dentry.ino == bucket { Ok(bound) } else { Err(FsError::Stale.into()) }
}

/// The versions of the object that a name in a directory is, if its bucket keeps any and the name is one
/// of an object. The plan guards that the bucket keeps them, or does not.
pub(super) fn versions(
    view: &mut View<'_>,
    directory: &Known,
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
        at = Known::directory(view, parent)?;
    }
    Err(FsError::TooDeep.into())
}

/// The id that a file has which comes to a name that is free, if it is to have one. A bucket that begins
/// to keep versions at this moment has it as its null version; so it is not guarded that it keeps none.
/// `counts` loses the bytes of a null version that the file takes the place of.
pub(super) fn comes(
    view: &mut View<'_>,
    env: &Env,
    (directory, name): (&Known, &[u8]),
    counts: &mut Counts,
    plan: &mut Plan,
) -> Result<Option<VersionStamp>, Halt> {
    let bucket = directory.inode.bucket;
    if !bucket_of(view, bucket)?.dentry.versioning.is_shown() {
        return Ok(None);
    }
    let Some(versions) = versions(view, directory, name, plan)? else { return Ok(None) };
    let mut unbinding = Unbinding::new(bucket);
    let version = versions.arrive(view, env, None, plan, &mut unbinding)?;
    let unbound = unbinding.finish(view, env, plan)?;
    counts.add(bucket, CounterKind::Bytes, -unbound.bytes);
    Ok(version)
}

/// The retention that an object which is made now in this bucket gets by default, if any. The plan
/// guards the bucket's settings.
pub(super) fn default_retention(
    view: &mut View<'_>,
    env: &Env,
    bucket: Ino,
    plan: &mut Plan,
) -> Result<Option<RetainUntil>, Halt> {
    if !bucket_of(view, bucket)?.dentry.locks {
        return Ok(None);
    }
    let at = key::bucket(bucket);
    let value = view.record(&at)?.ok_or(FsError::NoSuchBucket)?;
    let settings = decode(&at, &value, Bucket::decode)?;
    add(plan, Guard::Equals(at, value));
    Ok(settings.default_retention.map(|default| default.beginning(env.now)))
}

/// Guards that a plan which is otherwise complete leaves a bucket within its quota.
pub(super) fn guard_quota(view: &mut View<'_>, bucket: Ino, plan: &mut Plan) -> Result<(), Halt> {
    if !grows(bucket, plan) {
        return Ok(());
    }
    let bucket = bucket_of(view, bucket)?;
    if bucket.dentry.quota != Quota::NONE {
        add(plan, bucket.guard());
    }
    quota::guard(view, &bucket.dentry, plan)
}

/// Whether a plan adds to what a bucket holds.
fn grows(bucket: Ino, plan: &Plan) -> bool {
    let kinds = [CounterKind::Bytes, CounterKind::Objects];
    let counters = kinds.map(|kind| key::counter(bucket, kind));
    plan.writes.iter().any(|write| matches!(write, Write::Add(key, 1..) if counters.contains(key)))
}

fn add(plan: &mut Plan, guard: Guard) {
    if !plan.guards.contains(&guard) {
        plan.guards.push(guard);
    }
}

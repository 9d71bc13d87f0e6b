//! The default retention of a bucket, for plans that create objects.
//!
//! The retention belongs to the commit: it is that of the bucket at the commit, and begins then.
//! For example, a bucket gets a default retention of one day while a client sends the body of a
//! PUT. The object gets the retention, and its day begins with the commit of the PUT.

use record::{Bucket, Dentry, Inode, InodeBody, RetainUntil, key};
use store::{Guard, Plan};

use crate::run::Env;
use crate::view::{View, decode};
use crate::{FsError, Halt};

/// Returns the default retention of a bucket for an object that is created now; `None` if the
/// bucket has none. The plan guards the bucket's settings. A bucket without object lock takes no
/// read and no guard here; the caller's plan guards `bucket`, its dentry.
pub(crate) fn default_retention(
    view: &mut View<'_>,
    env: &Env,
    bucket: &Dentry,
    plan: &mut Plan,
) -> Result<Option<RetainUntil>, Halt> {
    if !bucket.locks {
        return Ok(None);
    }
    let at = key::bucket(bucket.ino);
    let value = view.record(&at)?.ok_or(FsError::NoSuchBucket)?;
    let settings = decode(&at, &value, Bucket::decode)?;
    let guard = Guard::Equals(at, value);
    if !plan.guards.contains(&guard) {
        plan.guards.push(guard);
    }
    Ok(settings.default_retention.map(|default| default.beginning(env.now)))
}

/// Gives a new object the default retention of its bucket, if its request has set no retention.
pub(crate) fn retain_new(
    view: &mut View<'_>,
    env: &Env,
    (bucket, inode): (&Dentry, &mut Inode),
    plan: &mut Plan,
) -> Result<(), Halt> {
    if let InodeBody::File(file) = &mut inode.body
        && file.object.lock.retention.is_none()
    {
        file.object.lock.retention = default_retention(view, env, bucket, plan)?;
    }
    Ok(())
}

//! Quotas: a plan that grows a bucket beyond its limits is refused at commit.
//!
//! A plan that adds to a limited counter of a bucket carries a guard that the counter stays within
//! the limit. A plan that adds nothing needs no guard. The quota is in the bucket's dentry, which
//! every plan that grows a bucket has read before, so a bucket without a quota costs no read. For
//! example, two uploads of 6 GB run into a bucket with a quota of 10 GB: the store refuses the
//! second commit, that operation reads the counter, and fails with `QuotaExceeded`.

use record::key::{self, CounterKind};
use record::{Dentry, Quota};
use store::{COUNTER_MAX, CounterKey, Guard, Plan};

use crate::view::View;
use crate::{FsError, Halt};

/// The counters of a bucket that its quota limits, each with its limit, in bytes or objects.
pub(crate) fn bounds(bucket: &Dentry) -> impl Iterator<Item = (CounterKey, i64)> {
    let Quota { bytes, objects } = bucket.quota;
    let ino = bucket.ino;
    let bounds = [(CounterKind::Bytes, bytes), (CounterKind::Objects, objects)];
    bounds.into_iter().filter_map(move |(kind, most)| {
        let most = i64::try_from(most?).unwrap_or(COUNTER_MAX).min(COUNTER_MAX);
        Some((key::counter(ino, kind), most))
    })
}

/// Adds the guards of the bucket's quota to a plan. Call it when all counter changes are in the
/// plan.
///
/// # Errors
/// `QuotaExceeded` if the quota refused a plan of this operation, and the counter still has no
/// space for the addition.
pub(crate) fn guard(view: &mut View<'_>, bucket: &Dentry, plan: &mut Plan) -> Result<(), Halt> {
    for (counter, most) in bounds(bucket) {
        let Some(added @ 1..) = plan.addition(&counter) else { continue };
        if !view.has_capacity(&counter, added, most)? {
            return Err(FsError::QuotaExceeded.into());
        }
        plan.guards.push(Guard::AtMost(counter, most));
    }
    Ok(())
}

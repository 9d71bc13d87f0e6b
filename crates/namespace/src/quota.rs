//! Quotas: a plan that grows a bucket beyond what it may hold is refused at commit.
//!
//! A plan that adds to a counter of a bucket with a bound carries a guard that it stays within the bound
//! with what the plan adds. One that adds nothing, or takes away, does without. The quota stands in the
//! bucket's dentry, which whoever grows a bucket has before it in any case, so no quota costs no read.
//! Whether there is room only a refusal asks: then the counter is read, and the answer rests on that.

use record::key::{self, CounterKind};
use record::{Dentry, Quota};
use store::{COUNTER_MAX, CounterKey, Guard, Plan, Write};

use crate::view::View;
use crate::{FsError, Halt};

/// The counters of a bucket that are bounded, each with its bound.
pub(crate) fn bounds(bucket: &Dentry) -> impl Iterator<Item = (CounterKey, i64)> {
    let Quota { bytes, objects } = bucket.quota;
    let ino = bucket.ino;
    let bounds = [(CounterKind::Bytes, bytes), (CounterKind::Objects, objects)];
    bounds.into_iter().filter_map(move |(kind, most)| {
        let most = i64::try_from(most?).unwrap_or(COUNTER_MAX).min(COUNTER_MAX);
        Some((key::counter(ino, kind), most))
    })
}

/// Adds to a plan which is otherwise complete that its bucket stays within its quota.
///
/// # Errors
/// `QuotaExceeded` if a plan of this operation was refused for that, and there is no room still.
pub(crate) fn guard(view: &mut View<'_>, bucket: &Dentry, plan: &mut Plan) -> Result<(), Halt> {
    for (counter, most) in bounds(bucket) {
        let added = plan.writes.iter().find_map(|write| match write {
            Write::Add(key, by) if *key == counter => Some(*by),
            _ => None,
        });
        let Some(added @ 1..) = added else { continue };
        if !view.has_room(&counter, added, most)? {
            return Err(FsError::QuotaExceeded.into());
        }
        plan.guards.push(Guard::AtMost(counter, most));
    }
    Ok(())
}

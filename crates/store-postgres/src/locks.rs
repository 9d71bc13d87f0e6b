//! The locks of a batch: one for each key that it guards or writes.
//!
//! All processes that use one database take them in the same order, so that batches do not
//! deadlock. For example, a plan that guards `a` and puts `b` takes a shared lock on `a` and an
//! exclusive one on `b`.
//!
//! This module knows neither SQL nor connections.

use std::collections::BTreeMap;

use store::{Guard, Key, Plan, Write};

/// Returns the hash that represents a key among the locks: 64 bits of FNV-1a, folded to 32. All
/// processes that use one database must agree on it, so it is part of the format.
fn lock_hash(key: &Key) -> i32 {
    let hash = key.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let folded = (hash >> 32) ^ (hash & 0xffff_ffff);
    // The folded value fits: its upper half is 0.
    u32::try_from(folded).unwrap_or(u32::MAX).cast_signed()
}

/// Returns the locks that plans need, in the order in which all processes take them: each hash,
/// with true if the lock is exclusive. A key that is written is locked exclusively. So is a key
/// whose absence a plan with an empty range guards, because it may be the owner of the range, for
/// which no such plan need write a record.
pub(crate) fn locks(plans: &[Plan]) -> Vec<(i32, bool)> {
    let mut locks = BTreeMap::new();
    for plan in plans {
        let has_range = plan.guards.iter().any(|guard| matches!(guard, Guard::Empty(..)));
        for guard in &plan.guards {
            match guard {
                Guard::Absent(key) if has_range => {
                    locks.insert(lock_hash(key), true);
                }
                Guard::Equals(key, _) | Guard::Absent(key) | Guard::Present(key) => {
                    locks.entry(lock_hash(key)).or_insert(false);
                }
                Guard::Empty(..) | Guard::AtMost(..) => {}
            }
        }
        for write in &plan.writes {
            if let Write::Put(key, _) | Write::Delete(key) = write {
                locks.insert(lock_hash(key), true);
            }
        }
    }
    locks.into_iter().collect()
}

#[cfg(test)]
mod tests;

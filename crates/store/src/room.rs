//! Plans that a full store still commits.
//!
//! A full store must accept deletes, or a client could never free space. So an engine that keeps a reserve
//! spends it on plans that remove at least as many bytes as they add. For example, the removal of an object
//! deletes its dentry and puts an orphan, which the reaper removes with the inode. Records in spared
//! spaces, as orphans are, do not count: sessions and the reaper write them to do their work. They are few
//! or short-lived, and the caller that opens the store names their spaces.

use std::collections::HashMap;

use crate::{Guard, Key, Plan, Space, Value, Write};

/// Approximate bytes of a record beyond its key and its value.
const RECORD_BYTES: usize = 64;

/// Returns true if the plan frees at least as many bytes as it needs. A record that the plan deletes or
/// replaces counts only if the plan guards it: then the record exists when the plan is committed.
pub fn makes_room(plan: &Plan, spared: &[Space]) -> bool {
    let mut known: HashMap<&Key, Option<&Value>> = HashMap::new();
    for guard in &plan.guards {
        match guard {
            Guard::Equals(key, value) => {
                known.insert(key, Some(value));
            }
            Guard::Present(key) => {
                known.entry(key).or_default();
            }
            Guard::Absent(_) | Guard::Empty(..) | Guard::AtMost(..) => {}
        }
    }
    let bytes = |key: &Key, value: usize| RECORD_BYTES + key.as_bytes().len() + value;
    let (mut needed, mut made) = (0, 0);
    for write in &plan.writes {
        let (key, put) = match write {
            Write::Put(key, _) if spared.contains(&key.space()) => continue,
            Write::Put(key, value) => (key, Some(value.len())),
            Write::Delete(key) => (key, None),
            // There are as many as there are buckets and directories.
            Write::Add(..) | Write::Max(..) | Write::Set(..) | Write::Clear(..) => continue,
        };
        needed += put.map_or(0, |value| bytes(key, value));
        made += known.get(key).map_or(0, |was| bytes(key, was.map_or(0, Value::len)));
    }
    needed <= made
}

#[cfg(test)]
mod tests;

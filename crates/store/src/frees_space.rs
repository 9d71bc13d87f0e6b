//! Decides which plans a full store still commits.
//!
//! A full store must accept deletes, otherwise a client could never free space. An engine that
//! keeps a reserve spends it on plans that remove at least as many bytes as they add. For example,
//! the removal of an object deletes its directory entry and puts an *orphan*, the record of a
//! removed object; the reaper, a background task, then deletes the orphan and the object's inode.
//!
//! Puts into *spared* spaces, as orphans are, do not count. Sessions and the reaper need these
//! records for their work; there are few of them, or they are soon deleted. The caller that opens
//! the store names the spared spaces.

use std::collections::HashMap;

use crate::{Guard, Key, Plan, Space, Value, Write};

/// Approximate overhead of a record beyond its key and its value, in bytes.
const RECORD_BYTES: usize = 64;

/// Returns true if the plan frees at least as many bytes as it adds. Puts into the `spared` spaces,
/// which a full store still accepts, do not count. A record that the plan deletes or replaces
/// counts only if the plan guards it, because then it certainly exists at the commit.
pub fn frees_space(plan: &Plan, spared: &[Space]) -> bool {
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
            // Sessions and the reaper need these records to free space.
            Write::Put(key, _) if spared.contains(&key.space()) => continue,
            Write::Put(key, value) => (key, Some(value.len())),
            Write::Delete(key) => (key, None),
            // Counters do not count: there are as many as buckets and directories, and each is
            // small.
            Write::Add(..) | Write::Max(..) | Write::Set(..) | Write::Clear(..) => continue,
        };
        needed += put.map_or(0, |value| bytes(key, value));
        made += known.get(key).map_or(0, |was| bytes(key, was.map_or(0, Value::len)));
    }
    needed <= made
}

#[cfg(test)]
mod tests;

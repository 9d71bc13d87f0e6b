//! Which plans are committed although the server is out of memory.
//!
//! It must still be possible to free memory. So a plan is committed if it removes at least as much as it
//! adds. Records in spared spaces do not count: sessions and the reaper need them to do their work.
//! These are few, or gone soon, and whoever opens the store names their spaces.

use std::collections::HashMap;

use store::{Guard, Key, Plan, Space, Value, Write};

/// Bytes that a record takes besides its key and its value, about.
const RECORD_BYTES: usize = 64;

/// Whether a plan frees as much memory as it needs. A record that it deletes or replaces counts only if
/// it guards it: then it certainly exists if the plan is committed.
pub(crate) fn makes_room(plan: &Plan, spared: &[Space]) -> bool {
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

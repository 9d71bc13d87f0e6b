//! Dead records that cannot be deleted, because a record that belongs to them cannot be decoded.
//!
//! The reaper keeps such a record and all blocks that it may reference, and logs an error once: an
//! operator must investigate. The rest of the pass continues. For example, if one of a thousand
//! deleted files has a damaged inode record, the other 999 are reaped.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use store::Key;
use tracing::error;

/// The most keys of damaged records that are remembered as logged. Beyond this, an error may be
/// logged twice.
const REMEMBERED_MAX: usize = 1_024;

/// The keys of the dead records that cannot be deleted and were logged.
#[derive(Debug, Default)]
pub(crate) struct Damaged(Mutex<HashSet<Key>>);

impl Damaged {
    /// Records that the reaper cannot process the dead record at key `at`, so that it stays. Logs
    /// an error and returns true the first time, and returns false later.
    pub(crate) fn note(&self, at: &Key, why: &dyn std::fmt::Display) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(at) {
            return false;
        }
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(at.clone());
        error!(
            key = ?at,
            %why,
            "a deleted file, part or upload cannot be reaped because a record of it cannot be \
             read; its blocks are kept; run fsck"
        );
        true
    }
}

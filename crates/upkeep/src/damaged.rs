//! What is dead and cannot be deleted, because a record of it cannot be read.
//!
//! It is kept, with all that it may name, and logged once as an error: a person must look.
//! Everything else goes on.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use store::Key;
use tracing::error;

/// How many of them are remembered; with more, an error may be logged twice.
const REMEMBERED_MAX: usize = 1_024;

/// Those that were logged.
#[derive(Debug, Default)]
pub(crate) struct Damaged(Mutex<HashSet<Key>>);

impl Damaged {
    /// Takes note of one by the key of the record that says that it is dead. True the first time.
    pub(crate) fn note(&self, at: &Key, why: &dyn std::fmt::Display) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(at) {
            return false;
        }
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(at.clone());
        error!(key = ?at, %why, "something dead cannot be read; it is kept, and its blocks with it");
        true
    }
}

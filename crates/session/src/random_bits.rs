//! Bits that nobody guesses, for the ids of versions.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers without a pattern: a keyed hash of a counter. The key is the process's own, so whoever sees
/// some of them learns nothing of the others.
#[derive(Debug, Default)]
pub(crate) struct RandomBits {
    key: RandomState,
    count: AtomicU64,
}

impl RandomBits {
    /// The next one.
    pub(crate) fn next(&self) -> u64 {
        self.key.hash_one(self.count.fetch_add(1, Ordering::Relaxed))
    }
}

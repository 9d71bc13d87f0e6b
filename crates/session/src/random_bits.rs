//! Random bits for the ids of versions, which clients must not be able to predict.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// A generator of 64-bit numbers: a keyed hash of a counter. The key is random and private to the
/// process, so numbers that a client has seen do not reveal others.
#[derive(Debug, Default)]
pub(crate) struct RandomBits {
    key: RandomState,
    count: AtomicU64,
}

impl RandomBits {
    /// Returns the next 64-bit number. The numbers before it do not reveal it.
    pub(crate) fn next(&self) -> u64 {
        self.key.hash_one(self.count.fetch_add(1, Ordering::Relaxed))
    }
}

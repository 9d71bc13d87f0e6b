//! The pages that were requested recently, in a few bytes each.
//!
//! A table of hash fingerprints in which newer entries overwrite older ones. It forgets pages, and
//! it may mistake one page for another. That is good enough to decide whether a page is worth
//! memory when none is free. For example, a page of a long scan is kept only if its fingerprint is
//! in the table.

use std::sync::atomic::{AtomicU32, Ordering};

/// The most entries of the table: 8 MiB of fingerprints.
const RECENT_PAGES_MAX: usize = 2 << 20;

/// A table of the hashes of recently requested pages.
#[derive(Debug)]
pub(crate) struct RecentHashes(Box<[AtomicU32]>);

impl RecentHashes {
    /// Creates a table for the hashes of about the last `pages` requested pages.
    pub(crate) fn new(pages: usize) -> RecentHashes {
        RecentHashes((0..pages.clamp(1, RECENT_PAGES_MAX)).map(|_| AtomicU32::new(0)).collect())
    }

    /// Adds the hash of a requested page. Returns true if it was added before, not long ago.
    pub(crate) fn note(&self, hash: u64) -> bool {
        let place = usize::try_from(hash % self.0.len() as u64).unwrap_or_default();
        // The fingerprint uses other bits of the hash than the place does, and is never zero, which
        // marks an empty place.
        let fingerprint = u32::try_from(hash >> 32).unwrap_or_default() | 1;
        self.0
            .get(place)
            .is_some_and(|place| place.swap(fingerprint, Ordering::Relaxed) == fingerprint)
    }
}

#[cfg(test)]
mod tests;

//! What was asked for not long ago, in a few bytes each.
//!
//! A table of fingerprints in which newer ones overwrite older ones. It forgets, and it may take
//! one page for another: good enough to say whether a page is worth a place where none is free.

use std::sync::atomic::{AtomicU32, Ordering};

/// Pages that are remembered at most: 8 MiB of fingerprints.
const SEEN_PAGES_MAX: usize = 2 << 20;

/// A memory of hashes.
#[derive(Debug)]
pub(crate) struct Seen(Box<[AtomicU32]>);

impl Seen {
    /// Remembers about so many of the last hashes.
    pub(crate) fn new(pages: usize) -> Seen {
        Seen((0..pages.clamp(1, SEEN_PAGES_MAX)).map(|_| AtomicU32::new(0)).collect())
    }

    /// Whether this hash was noted not long ago; it is from now on.
    pub(crate) fn note(&self, hash: u64) -> bool {
        let place = usize::try_from(hash % self.0.len() as u64).unwrap_or_default();
        // The other end of the hash, and never what an empty place holds.
        let fingerprint = u32::try_from(hash >> 32).unwrap_or_default() | 1;
        self.0
            .get(place)
            .is_some_and(|place| place.swap(fingerprint, Ordering::Relaxed) == fingerprint)
    }
}

#[cfg(test)]
mod tests;

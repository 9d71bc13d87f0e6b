//! The ring keys under which blocks were found to be encrypted.
//!
//! No metadata names the ring key of a block, and a range of its object does not include the
//! header. So a reader guesses the number, and the first unit proves the guess. For example, a
//! volume with one ring key is always guessed right after its first read.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use quick_cache::sync::Cache;
use record::{BlockId, RingNumber};

/// The most blocks whose ring key is remembered, 20 bytes and some overhead each.
const BLOCKS_MAX: usize = 65_536;

/// The most ring keys that are guessed for a block that is not remembered. A wrong guess costs the
/// decryption of one unit, some 30 µs; a right one saves a request.
const RECENT_MAX: usize = 8;

/// The ring keys of recent blocks.
pub(super) struct Learned {
    blocks: Cache<BlockId, RingNumber>,
    /// The last ring keys, the most recent one first.
    recent: Mutex<Vec<RingNumber>>,
}

impl Learned {
    pub(super) fn new() -> Learned {
        Learned { blocks: Cache::new(BLOCKS_MAX), recent: Mutex::default() }
    }

    /// Returns the ring keys to try for a block, the most probable one first.
    pub(super) fn guesses(&self, id: BlockId) -> Vec<RingNumber> {
        let known = self.blocks.get(&id);
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let others = recent.iter().copied().filter(|number| Some(*number) != known);
        known.into_iter().chain(others).collect()
    }

    /// Remembers the ring key of a block that was written or read.
    pub(super) fn learn(&self, id: BlockId, number: RingNumber) {
        // A second write of an equal value would only take the lock of the cache.
        if self.blocks.get(&id) != Some(number) {
            self.blocks.insert(id, number);
        }
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.first() != Some(&number) {
            recent.retain(|other| *other != number);
            recent.insert(0, number);
            recent.truncate(RECENT_MAX);
        }
    }

    /// Forgets a ring key that no longer exists.
    pub(super) fn forget_ring(&self, number: RingNumber) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.retain(|other| *other != number);
    }

    /// Forgets a block that was deleted.
    pub(super) fn forget(&self, id: BlockId) {
        self.blocks.remove(&id);
    }
}

impl fmt::Debug for Learned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Learned").field("recent", &self.recent).finish_non_exhaustive()
    }
}

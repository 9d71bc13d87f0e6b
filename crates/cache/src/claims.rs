//! Which blocks are being streamed now.
//!
//! A stream is not shared, because readers need not be equally fast. So there is one stream per block at
//! a time. Other readers of the block read it in runs of pages, which they share, and find in memory what
//! was kept of the stream. In all, at most twice the block's bytes are fetched.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::BlockId;

/// The blocks that arrive. Bounded by the streams there are.
#[derive(Debug, Default)]
pub(crate) struct Claims(Mutex<HashSet<BlockId>>);

/// One block that arrives, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Claim {
    block: BlockId,
    claims: Arc<Claims>,
}

impl Claims {
    /// Takes a block, unless somebody has it.
    pub(crate) fn take(self: &Arc<Claims>, block: BlockId) -> Option<Claim> {
        let taken = self.lock().insert(block);
        taken.then(|| Claim { block, claims: Arc::clone(self) })
    }

    /// Whether a block arrives for somebody.
    pub(crate) fn is_taken(&self, block: BlockId) -> bool {
        self.lock().contains(&block)
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<BlockId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.lock().remove(&self.block);
    }
}

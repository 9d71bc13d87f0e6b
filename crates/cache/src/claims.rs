//! The blocks that are being streamed.
//!
//! A stream is not shared, because its readers may not be equally fast. So there is at most one
//! stream per block at a time. Other readers of the block read it in runs of pages, which they
//! share, and find the pages in memory that the stream has left there. Altogether, at most twice
//! the block's bytes are fetched.
//!
//! For example, ten clients download the same block. The first one streams it, and the other nine
//! share the requests for its pages.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::BlockId;

/// The blocks that are being streamed, that is, passed on to one reader as they arrive. There are
/// at most as many as streams.
#[derive(Debug, Default)]
pub(crate) struct StreamClaims(Mutex<HashSet<BlockId>>);

/// The claim of one stream on a block: its right to be the only one that streams the block.
/// Dropping it ends the claim.
#[derive(Debug)]
pub(crate) struct Claim {
    block: BlockId,
    claims: Arc<StreamClaims>,
}

impl StreamClaims {
    /// Claims a block for a stream, so that no other reader streams it at the same time. Returns
    /// `None` if another stream has the claim; the caller then reads pages.
    pub(crate) fn take(self: &Arc<StreamClaims>, block: BlockId) -> Option<Claim> {
        let taken = self.lock().insert(block);
        taken.then(|| Claim { block, claims: Arc::clone(self) })
    }

    /// Returns true if a stream passes the block on to its reader at this moment.
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

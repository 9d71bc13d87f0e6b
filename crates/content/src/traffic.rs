//! What the byte path did, as counters.

use runtime::Count;

/// Counters of the byte path since the volume was opened. They only grow.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Blocks put.
    pub puts: Count,
    /// Content bytes put in blocks.
    pub put_bytes: Count,
    /// Packs put: blocks that several small bodies share.
    pub packs: Count,
    /// Puts that found their id taken by other bytes, and went on under another.
    pub conflicts: Count,
    /// Puts that failed.
    pub failed_puts: Count,
    /// Runs of blocks that were read because they were not in memory.
    pub gets: Count,
    /// Content bytes of such runs.
    pub got_bytes: Count,
    /// Blocks that the rewriter of packs read a second time.
    pub second_gets: Count,
    /// Staged blocks that were deleted because nobody published them.
    pub abandoned: Count,
    /// Staged blocks that could not be deleted, and are left to the sweeper.
    pub left_behind: Count,
}

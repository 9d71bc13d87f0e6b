//! What the byte path did, as counters.

use runtime::MetricCounter;

/// Counters of the byte path since the volume was opened. They only grow.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Blocks put.
    pub puts: MetricCounter,
    /// Content bytes put in blocks.
    pub put_bytes: MetricCounter,
    /// Packs put: blocks that several small bodies share.
    pub packs: MetricCounter,
    /// Puts that found their id taken by other bytes, and went on under another.
    pub conflicts: MetricCounter,
    /// Puts that failed.
    pub failed_puts: MetricCounter,
    /// Runs of blocks that were read because they were not in memory.
    pub gets: MetricCounter,
    /// Content bytes of such runs.
    pub got_bytes: MetricCounter,
    /// Blocks that the rewriter of packs read a second time.
    pub second_gets: MetricCounter,
    /// Staged blocks that were deleted because nobody published them.
    pub abandoned: MetricCounter,
    /// Staged blocks that could not be deleted, and are left to the sweeper.
    pub left_behind: MetricCounter,
}

//! Counters of reading and writing content.

use runtime::MetricCounter;

/// Counters since the volume was opened. They only grow.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Blocks that were put.
    pub puts: MetricCounter,
    /// Content bytes of the blocks that were put.
    pub put_bytes: MetricCounter,
    /// Packs that were put: blocks that several small bodies share.
    pub packs: MetricCounter,
    /// Puts that found other bytes under their id, and were repeated under a new id.
    pub conflicts: MetricCounter,
    /// Puts that failed.
    pub failed_puts: MetricCounter,
    /// Runs (parts of blocks) that were read from the block store, because they were not in memory.
    pub gets: MetricCounter,
    /// Content bytes of the runs in `gets`.
    pub got_bytes: MetricCounter,
    /// Blocks that the pack rewriter read a second time.
    pub second_gets: MetricCounter,
    /// Blocks of bodies without a record that were deleted, because no plan that references them
    /// was committed.
    pub abandoned: MetricCounter,
    /// Blocks of bodies without a record whose deletion failed. They are deleted again later: see
    /// [`crate::LateBlocks`].
    pub left_behind: MetricCounter,
}

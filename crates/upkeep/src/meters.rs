//! Counters of the maintenance tasks.

use runtime::MetricCounter;

/// Counters since the volume was opened. They only grow.
#[derive(Debug, Default)]
pub struct UpkeepMeters {
    /// Files and parts that the reaper removed.
    pub files_reaped: MetricCounter,
    /// Blocks that the reaper deleted.
    pub blocks_reaped: MetricCounter,
    /// Content bytes of these blocks.
    pub bytes_reaped: MetricCounter,
    /// Blocks that the sweeper deleted.
    pub blocks_swept: MetricCounter,
    /// Dead files, parts and uploads that the reaper keeps because a record of them cannot be read.
    pub damaged_kept: MetricCounter,
    /// Sparse packs that were rewritten.
    pub packs_rewritten: MetricCounter,
    /// Sparse packs that could not be rewritten, counted at each look.
    pub packs_left: MetricCounter,
    /// Bytes of files that were moved to a new pack.
    pub bytes_repacked: MetricCounter,
    /// Files of which bytes were moved out of mostly hidden blocks.
    pub files_compacted: MetricCounter,
    /// Bytes of files that were moved so.
    pub bytes_compacted: MetricCounter,
    /// Plans of such moves that were refused because the file had changed. Most were planned again.
    pub compactions_refused: MetricCounter,
    /// Bodies that were moved from their records into blocks.
    pub bodies_destaged: MetricCounter,
    /// The bytes of these bodies.
    pub bytes_destaged: MetricCounter,
}

//! Counters of the maintenance tasks.

use runtime::MetricCounter;

/// Counters of the maintenance tasks since the volume was opened. They only grow.
#[derive(Debug, Default)]
pub struct UpkeepMeters {
    /// Dead files and parts of uploads that the reaper removed.
    pub files_reaped: MetricCounter,
    /// Blocks without references that the reaper deleted.
    pub blocks_reaped: MetricCounter,
    /// Content bytes of the blocks that the reaper deleted.
    pub bytes_reaped: MetricCounter,
    /// Blocks without a record that the sweeper deleted after their session had ended.
    pub blocks_swept: MetricCounter,
    /// Dead files, parts and uploads that the reaper keeps because a record of them cannot be read.
    pub damaged_kept: MetricCounter,
    /// Packs (blocks of several files) of which less than half was live and whose live bytes were
    /// copied into a new pack.
    pub packs_rewritten: MetricCounter,
    /// Packs of which less than half is live and that could not be rewritten, counted at each look.
    pub packs_left: MetricCounter,
    /// Bytes of files that were moved from sparse packs (blocks of several files) to a new pack.
    pub bytes_repacked: MetricCounter,
    /// Files of which the compactor moved bytes out of blocks that later writes had mostly hidden.
    pub files_compacted: MetricCounter,
    /// Bytes that the compactor moved so.
    pub bytes_compacted: MetricCounter,
    /// Plans of the compactor that were refused because the file had changed. Most were planned
    /// again.
    pub compactions_refused: MetricCounter,
    /// Small bodies that were moved from their inodes' records into blocks.
    pub bodies_destaged: MetricCounter,
    /// The bytes of these bodies.
    pub bytes_destaged: MetricCounter,
}

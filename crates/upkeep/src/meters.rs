//! What upkeep did, as counters.

use runtime::MetricCounter;

/// What upkeep did since it was begun.
#[derive(Debug, Default)]
pub struct UpkeepMeters {
    /// Files and parts that the reaper removed.
    pub files_reaped: MetricCounter,
    /// Blocks that the reaper deleted.
    pub blocks_reaped: MetricCounter,
    /// Content bytes of those blocks.
    pub bytes_reaped: MetricCounter,
    /// Blocks that the sweeper deleted.
    pub blocks_swept: MetricCounter,
    /// Dead things that the reaper keeps, because their records cannot be read.
    pub damaged_kept: MetricCounter,
    /// Packs that were rewritten because little of them was alive.
    pub packs_rewritten: MetricCounter,
    /// Packs of which little was alive and that could not be rewritten, each as often as it was
    /// looked at.
    pub packs_left: MetricCounter,
    /// Bytes of files that were moved to a new pack.
    pub bytes_repacked: MetricCounter,
    /// Files of which anything was moved out of blocks that writes have hidden most of.
    pub files_compacted: MetricCounter,
    /// Bytes of files that were moved so.
    pub bytes_compacted: MetricCounter,
    /// Plans that would have moved them and met a file that had changed; most were made again.
    pub compactions_refused: MetricCounter,
    /// Bodies that were staged inline and have been destaged into blocks.
    pub bodies_destaged: MetricCounter,
    /// Their bytes.
    pub bytes_destaged: MetricCounter,
}

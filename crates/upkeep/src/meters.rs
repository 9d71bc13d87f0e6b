//! What upkeep did, as counters.

use runtime::Count;

/// What upkeep did since it was begun.
#[derive(Debug, Default)]
pub struct UpkeepMeters {
    /// Files and parts that the reaper removed.
    pub files_reaped: Count,
    /// Blocks that the reaper deleted.
    pub blocks_reaped: Count,
    /// Content bytes of those blocks.
    pub bytes_reaped: Count,
    /// Blocks that the sweeper deleted.
    pub blocks_swept: Count,
    /// Dead things that the reaper keeps, because their records cannot be read.
    pub damaged_kept: Count,
    /// Packs that were rewritten because little of them was alive.
    pub packs_rewritten: Count,
    /// Packs of which little was alive and that could not be rewritten, each as often as it was
    /// looked at.
    pub packs_left: Count,
    /// Bytes of files that were moved to a new pack.
    pub bytes_repacked: Count,
    /// Bodies that were staged inline and have been destaged into blocks.
    pub bodies_destaged: Count,
    /// Their bytes.
    pub bytes_destaged: Count,
}

//! Counters of the maintenance tasks.

runtime::counters! {
    /// Counters of the maintenance tasks since the volume was opened. They only grow.
    pub struct UpkeepMeters {
        /// Deleted files and parts whose records the reaper removed.
        files_reaped: "ashlar_reaper_deleted_files_total",
        /// Blocks that the reaper deleted.
        blocks_reaped: "ashlar_reaper_deleted_blocks_total",
        /// Content bytes of the blocks that the reaper deleted.
        bytes_reaped: "ashlar_reaper_deleted_bytes_total",
        /// Blocks without a reference that the sweeper deleted.
        ///
        /// Their session had ended before it wrote a record of them.
        blocks_swept: "ashlar_sweeper_deleted_blocks_total",
        /// Deleted files, parts and uploads that the reaper keeps because a record is damaged.
        damaged_kept: "ashlar_reaper_damaged_records_total",
        /// Packs that the repacker rewrote because most of their bytes were dead.
        ///
        /// A pack is a block of several files. Its live bytes were copied into a new pack.
        packs_rewritten: "ashlar_repacker_rewritten_packs_total",
        /// Packs with mostly dead bytes that the repacker could not rewrite, once for each attempt.
        packs_left: "ashlar_repacker_skipped_packs_total",
        /// Content bytes that the repacker moved to new packs.
        bytes_repacked: "ashlar_repacker_moved_bytes_total",
        /// Files that the compactor moved out of mostly overwritten blocks.
        files_compacted: "ashlar_compactor_compacted_files_total",
        /// Content bytes that the compactor moved to new blocks.
        bytes_compacted: "ashlar_compactor_moved_bytes_total",
        /// Plans of the compactor that were refused because the file had changed.
        ///
        /// Most of them were planned again.
        compactions_refused: "ashlar_compactor_conflicts_total",
        /// Bodies that the destager moved from the metadata store into blocks.
        ///
        /// They were staged inline: kept in their inodes' records for a while.
        bodies_destaged: "ashlar_destager_moved_bodies_total",
        /// Bytes that the destager moved from the metadata store into blocks.
        bytes_destaged: "ashlar_destager_moved_bytes_total",
    }
}

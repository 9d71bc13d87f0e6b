//! Counters of the maintenance tasks.

runtime::counters! {
    /// Counters of the maintenance tasks since the volume was opened. They only grow.
    pub struct UpkeepMeters {
        /// Deleted files and parts whose records the reaper removed.
        files_reaped: "ashlar_reaper_deleted_files_total",
        /// Blocks that the reaper deleted.
        blocks_reaped: "ashlar_reaper_deleted_blocks_total",
        /// Blocks without a reference that the sweeper deleted.
        ///
        /// Their session had ended before it wrote a record of them.
        blocks_swept: "ashlar_sweeper_deleted_blocks_total",
        /// Deleted files, parts and uploads that the reaper keeps because a record is damaged.
        damaged_kept: "ashlar_reaper_damaged_records_total",
        /// Bodies that the relocator moved from the metadata store into blocks.
        ///
        /// They were staged inline: kept in their inodes' records for a while.
        bodies_destaged: "ashlar_relocator_moved_sources_total" { policy: "destage" }
            "Bodies, packs and files out of which the relocator moved content.",
        /// Packs that the relocator rewrote because most of their bytes were dead.
        ///
        /// A pack is a block of several files. Its live bytes were copied into a new pack.
        packs_rewritten: "ashlar_relocator_moved_sources_total" { policy: "repack" },
        /// Files that the relocator moved out of mostly overwritten blocks.
        files_compacted: "ashlar_relocator_moved_sources_total" { policy: "compact" },
        /// Bytes that the relocator moved from the metadata store into blocks.
        bytes_destaged: "ashlar_relocator_moved_bytes_total" { policy: "destage" }
            "Content bytes that the relocator moved to new blocks.",
        /// Content bytes that the relocator moved to new packs.
        bytes_repacked: "ashlar_relocator_moved_bytes_total" { policy: "repack" },
        /// Content bytes that the relocator moved out of mostly overwritten blocks.
        bytes_compacted: "ashlar_relocator_moved_bytes_total" { policy: "compact" },
        /// Packs with mostly dead bytes that the relocator could not rewrite, once for each
        /// attempt.
        packs_left: "ashlar_relocator_skipped_packs_total",
        /// Plans of bodies that were refused because the file had changed.
        destagings_refused: "ashlar_relocator_conflicts_total" { policy: "destage" }
            "Plans of the relocator that were refused because the file had changed.",
        /// Plans of owners of packs that were refused because the file had changed.
        repackings_refused: "ashlar_relocator_conflicts_total" { policy: "repack" },
        /// Plans of files with mostly hidden blocks that were refused because the file had changed.
        ///
        /// Most of them were planned again.
        compactions_refused: "ashlar_relocator_conflicts_total" { policy: "compact" },
    }
}

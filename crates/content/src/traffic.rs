//! Counters of reading and writing content.

runtime::counters! {
    /// Counters since the volume was opened. They only grow.
    pub struct Traffic {
        /// Blocks that were put.
        puts,
        /// Content bytes of the blocks that were put.
        put_bytes,
        /// Packs that were put: blocks that several small bodies share.
        packs,
        /// Puts that found other bytes under their id, and were repeated under a new id.
        conflicts,
        /// Puts that failed.
        failed_puts,
        /// Runs (parts of blocks) that were read from the block store, because they were not in
        /// memory.
        gets,
        /// Content bytes of the runs in `gets`.
        got_bytes,
        /// Blocks that the relocator read a second time.
        second_gets,
        /// Staged blocks that were deleted because no commit published them.
        ///
        /// They belong to bodies without a record.
        abandoned: "ashlar_staging_abandoned_blocks_total",
        /// Blocks of bodies without a record whose deletion failed. They are deleted again later:
        /// see [`crate::LateBlocks`].
        left_behind,
    }
}

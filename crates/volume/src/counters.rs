//! The counters of a volume, for metrics and the status page.
//!
//! For example, `plans / meta_commits` is the mean number of plans in a batch.

use std::time::Duration;

use crate::Volume;

/// Counters of a volume since it was opened, and a few current values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Round trips that read metadata.
    pub meta_reads: u64,
    /// Reads that were answered from current cache entries, without a round trip.
    pub reads_from_cache: u64,
    /// Round trips that committed a batch of plans. A plan is a list of conditions and changes that
    /// the store commits as a whole.
    pub meta_commits: u64,
    /// Plans sent in those batches.
    pub plans: u64,
    /// Plans that a guard refused. Most of them were planned again.
    pub refused: u64,
    /// Plans whose outcome was unknown after the first answer of the store, for example because the
    /// connection was lost. Most outcomes become known a little later.
    pub in_doubt: u64,
    /// Plans whose outcome was still unknown when their callers were answered.
    pub unresolved: u64,
    /// Cached records that were dropped because the change feed (the store's list of changed
    /// records) reported a change by another session.
    pub feed_invalidations: u64,
    /// Gaps in the change feed (the store's list of changed records): more records had changed than
    /// the store keeps entries for, so the cache was dropped as a whole.
    pub feed_gaps: u64,
    /// Blocks written to the block store.
    pub block_puts: u64,
    /// Content bytes in the blocks that were written.
    pub block_put_bytes: u64,
    /// Reads of blocks from the block store.
    pub block_gets: u64,
    /// Content bytes read from blocks.
    pub block_got_bytes: u64,
    /// Staged blocks, which were written ahead of a commit, that were deleted because they were not
    /// published.
    pub blocks_abandoned: u64,
    /// Files and parts of uploads that the reaper, the task that deletes removed files, has
    /// removed.
    pub files_reaped: u64,
    /// Blocks that the reaper deleted.
    pub blocks_reaped: u64,
    /// Content bytes of the blocks that the reaper deleted.
    pub bytes_reaped: u64,
    /// Blocks without a record that the sweeper, the task that cleans up after ended sessions, has
    /// deleted.
    pub blocks_swept: u64,
    /// Removed items that the reaper does not delete, because their records cannot be decoded.
    pub damaged_kept: u64,
    /// Sparse packs that were rewritten: blocks of several files of which less than half was live.
    pub packs_rewritten: u64,
    /// Sparse packs (blocks of several files of which less than half is live) that could not be
    /// rewritten, counted at each try.
    pub packs_not_rewritten: u64,
    /// Bytes of files that were moved to a new pack, which is a block of several files, because
    /// their old pack was mostly unused.
    pub bytes_repacked: u64,
    /// Files that the compactor moved out of mostly hidden blocks, in whole or in part.
    pub files_compacted: u64,
    /// Bytes of files that the compactor moved.
    pub bytes_compacted: u64,
    /// Plans of the compactor that were refused because the file had changed. Most of them were
    /// planned again.
    pub compactions_refused: u64,
    /// Bodies that were staged inline, that is, kept in their inodes' records for a while, and have
    /// been moved into blocks.
    pub bodies_destaged: u64,
    /// Bytes of the bodies that were staged inline (kept in their inodes' records for a while) and
    /// have been moved into blocks.
    pub bytes_destaged: u64,
    /// Tasks that ended in a panic.
    pub panics: u64,
    /// Current number of files with a hold, which is a record that keeps the blocks of a file for
    /// long readers.
    pub holds: u64,
    /// Time for which the oldest running reader has pinned an epoch that is not the newest any
    /// more; 0 if none does. Sessions report by the epoch, a counter, that earlier readers have
    /// ended. So deletions of blocks wait as long as this time grows.
    pub oldest_pin: Duration,
}

impl Volume {
    /// Returns the current counters.
    pub fn counters(&self) -> Counters {
        let (session, traffic) = (self.session.meters(), &self.staging.traffic);
        let upkeep = self.upkeep.meters();
        Counters {
            meta_reads: session.reads.get(),
            reads_from_cache: session.remembered.get(),
            meta_commits: session.commits.get(),
            plans: session.plans.get(),
            refused: session.refused.get(),
            in_doubt: session.in_doubt.get(),
            unresolved: session.unresolved.get(),
            feed_invalidations: session.notified.get(),
            feed_gaps: session.gaps.get(),
            block_puts: traffic.puts.get(),
            block_put_bytes: traffic.put_bytes.get(),
            block_gets: traffic.gets.get(),
            block_got_bytes: traffic.got_bytes.get(),
            blocks_abandoned: traffic.abandoned.get(),
            files_reaped: upkeep.files_reaped.get(),
            blocks_reaped: upkeep.blocks_reaped.get(),
            bytes_reaped: upkeep.bytes_reaped.get(),
            blocks_swept: upkeep.blocks_swept.get(),
            damaged_kept: upkeep.damaged_kept.get(),
            packs_rewritten: upkeep.packs_rewritten.get(),
            packs_not_rewritten: upkeep.packs_left.get(),
            bytes_repacked: upkeep.bytes_repacked.get(),
            files_compacted: upkeep.files_compacted.get(),
            bytes_compacted: upkeep.bytes_compacted.get(),
            compactions_refused: upkeep.compactions_refused.get(),
            bodies_destaged: upkeep.bodies_destaged.get(),
            bytes_destaged: upkeep.bytes_destaged.get(),
            panics: self.session.tasks().panics(),
            holds: u64::try_from(self.session.holds().count()).unwrap_or(u64::MAX),
            oldest_pin: self.session.epochs().oldest_pin().unwrap_or_default(),
        }
    }
}

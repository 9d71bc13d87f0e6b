//! What a volume did, as numbers for whoever watches it.

use std::time::Duration;

use crate::Volume;

/// What a volume did since it was opened, and what it waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Round trips that read metadata.
    pub meta_reads: u64,
    /// Reads that needed none, because the session was the only one and remembered the records.
    pub reads_from_cache: u64,
    /// Round trips that committed a batch of plans.
    pub meta_commits: u64,
    /// Plans sent in those batches.
    pub plans: u64,
    /// Plans that a guard refused; most were planned again.
    pub refused: u64,
    /// Plans whose outcome was unknown at first.
    pub in_doubt: u64,
    /// Plans whose outcome was still unknown when their callers were answered.
    pub unresolved: u64,
    /// Remembered records that others were told to have changed.
    pub feed_invalidations: u64,
    /// How often more had changed than the store remembered.
    pub feed_gaps: u64,
    /// Blocks put.
    pub block_puts: u64,
    /// Content bytes put in blocks.
    pub block_put_bytes: u64,
    /// Block reads.
    pub block_gets: u64,
    /// Content bytes read from blocks.
    pub block_got_bytes: u64,
    /// Staged blocks deleted because nobody published them.
    pub blocks_abandoned: u64,
    /// Files and parts that the reaper removed.
    pub files_reaped: u64,
    /// Blocks that the reaper deleted.
    pub blocks_reaped: u64,
    /// Content bytes of those blocks.
    pub bytes_reaped: u64,
    /// Blocks that the sweeper deleted.
    pub blocks_swept: u64,
    /// Dead things that the reaper keeps, because their records cannot be read.
    pub damaged_kept: u64,
    /// Packs that were rewritten because little of them was alive.
    pub packs_rewritten: u64,
    /// Packs of which little was alive and that could not be rewritten, each as often as it was
    /// looked at.
    pub packs_not_rewritten: u64,
    /// Bytes of files that were moved to a new pack.
    pub bytes_repacked: u64,
    /// Files of which anything was moved out of blocks that writes have hidden most of.
    pub files_compacted: u64,
    /// Bytes of files that were moved so.
    pub bytes_compacted: u64,
    /// Plans that would have moved them and met a file that had changed; most were made again.
    pub compactions_refused: u64,
    /// Bodies that were staged inline and have been destaged into blocks.
    pub bodies_destaged: u64,
    /// Their bytes.
    pub bytes_destaged: u64,
    /// Tasks that ended in a panic.
    pub panics: u64,
    /// Files that are held for readers that last; of now.
    pub holds: u64,
    /// For how long an epoch that the volume has left has been pinned; 0 if none is.
    pub oldest_pin: Duration,
}

impl Volume {
    /// What the volume did since it was opened.
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

//! The counters of a volume, for metrics and the status page.
//!
//! For example, `session.plans / session.commits` is the mean number of plans in a batch.

use std::time::Duration;

use content::Traffic;
use runtime::{Metered, Metric};
use session::Meters;

use crate::Volume;

/// Counters of a volume since it was opened, and a few current values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Operations, round trips and plans of the session.
    pub session: Meters<u64>,
    /// Blocks that readers and writers of content put and got.
    pub traffic: Traffic<u64>,
    /// Files and parts of uploads that the reaper, the task that deletes removed files, has
    /// removed.
    pub files_reaped: u64,
    /// Blocks that the reaper deleted.
    pub blocks_reaped: u64,
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
    /// Files that the relocator moved out of mostly hidden blocks, in whole or in part.
    pub files_compacted: u64,
    /// Bytes of these files that the relocator moved.
    pub bytes_compacted: u64,
    /// Plans for such files that were refused because the file had changed. Most of them were
    /// planned again.
    pub compactions_refused: u64,
    /// Bodies that were staged inline, that is, kept in their inodes' records for a while, and have
    /// been moved into blocks.
    pub bodies_destaged: u64,
    /// Bytes of the bodies that were staged inline (kept in their inodes' records for a while) and
    /// have been moved into blocks.
    pub bytes_destaged: u64,
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
        let upkeep = self.upkeep.meters();
        Counters {
            session: self.session.meters().read(),
            traffic: self.staging.traffic.read(),
            files_reaped: upkeep.files_reaped.get(),
            blocks_reaped: upkeep.blocks_reaped.get(),
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
            holds: u64::try_from(self.session.holds().count()).unwrap_or(u64::MAX),
            oldest_pin: self.session.epochs().oldest_pin().unwrap_or_default(),
        }
    }
}

impl Metered for Volume {
    fn visit_metrics(&self, visit: &mut dyn FnMut(Metric)) {
        self.session.visit_metrics(visit);
        self.staging.traffic.visit_metrics(visit);
        self.upkeep.meters().visit_metrics(visit);
    }
}

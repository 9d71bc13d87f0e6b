//! What upkeep works with.

use std::sync::Arc;
use std::time::Duration;

use block::BlockStore;
use content::Staging;
use session::Session;
use tokio::time::Instant;

use crate::compacting::Compacting;
use crate::damaged::Damaged;
use crate::grace::PendingAges;
use crate::meters::UpkeepMeters;
use crate::sparse::Repacking;

/// What the reaper remembers between passes.
#[derive(Debug, Default)]
pub(crate) struct ReaperMemory {
    /// Blocks that await deletion.
    pub(crate) waiting: PendingAges,
    /// When one of them has waited long enough.
    pub(crate) due: Option<Instant>,
}

/// The upkeep of a volume that a session has open.
#[derive(Debug)]
pub struct Upkeep {
    pub(crate) session: Arc<Session>,
    pub(crate) blocks: Arc<dyn BlockStore>,
    /// What the session's writers share.
    pub(crate) staging: Arc<Staging>,
    /// How long a block is kept after a commit has freed it; `None`: as the store's settings ask.
    pub(crate) deletion_grace: Option<Duration>,
    pub(crate) meters: UpkeepMeters,
    /// Held by the reaper's pass.
    pub(crate) reaping: tokio::sync::Mutex<ReaperMemory>,
    /// What it keeps because it cannot be read.
    pub(crate) damaged: Damaged,
    /// Which packs are worth rewriting.
    pub(crate) repacking: Repacking,
    /// Which files are worth compacting.
    pub(crate) compacting: Compacting,
    /// Held by a sweep.
    pub(crate) sweeping: tokio::sync::Mutex<()>,
}

impl Upkeep {
    /// Upkeep that does nothing by itself. `pack_bytes` are those of a full pack; a block is kept
    /// for `deletion_grace` after a commit has freed it, or, without one, for
    /// [`crate::DELETION_GRACE_RELAXED`] while the store is relaxed.
    pub fn new(
        session: &Arc<Session>,
        blocks: &Arc<dyn BlockStore>,
        staging: &Arc<Staging>,
        pack_bytes: u32,
        deletion_grace: Option<Duration>,
    ) -> Arc<Upkeep> {
        Arc::new(Upkeep {
            session: Arc::clone(session),
            blocks: Arc::clone(blocks),
            staging: Arc::clone(staging),
            deletion_grace,
            meters: UpkeepMeters::default(),
            reaping: tokio::sync::Mutex::default(),
            damaged: Damaged::default(),
            repacking: Repacking::new(pack_bytes),
            compacting: Compacting::default(),
            sweeping: tokio::sync::Mutex::default(),
        })
    }

    /// What it did so far.
    pub fn meters(&self) -> &UpkeepMeters {
        &self.meters
    }
}

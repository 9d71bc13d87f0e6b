//! What upkeep works with, and the tasks that do it.

use std::sync::Arc;
use std::time::Duration;

use block::BlockStore;
use content::Staging;
use session::Session;

use crate::meters::UpkeepMeters;
use crate::reaper::{self, Damaged, ReaperMemory};
use crate::repack::{self, Repacking};
use crate::{latecomers, settle, sweeper};

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
    /// Held by a sweep.
    pub(crate) sweeping: tokio::sync::Mutex<()>,
}

impl Upkeep {
    /// Upkeep that does nothing by itself. `pack_bytes` are those of a full pack; a block is kept for
    /// `deletion_grace` after a commit has freed it, or, without one, for
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
            sweeping: tokio::sync::Mutex::default(),
        })
    }

    /// Does everything by itself from now on, until the session closes.
    pub fn begin(self: &Arc<Self>) {
        let tasks = self.session.tasks();
        drop(tasks.spawn("reaper", reaper::reap_always(Arc::downgrade(self))));
        let changes = Arc::clone(self.session.session_changes());
        drop(tasks.spawn("sweeper", sweeper::sweep_always(Arc::downgrade(self), changes)));
        drop(tasks.spawn("repacker", repack::repack_always(Arc::downgrade(self))));
        drop(tasks.spawn("settler", settle::settle_always(Arc::downgrade(self))));
        drop(tasks.spawn("latecomers", latecomers::delete_latecomers(Arc::downgrade(self))));
    }

    /// What it did so far.
    pub fn meters(&self) -> &UpkeepMeters {
        &self.meters
    }
}

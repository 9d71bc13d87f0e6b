//! The shared state of all maintenance tasks.

use std::sync::Arc;
use std::time::Duration;

use block::{BLOCK_BYTES_MAX, BlockStore};
use content::Staging;
use keyring::Rings;
use record::{BlockId, Ino};
use session::Session;
use tokio::time::Instant;

use crate::damaged::Damaged;
use crate::grace::PendingAges;
use crate::meters::UpkeepMeters;
use crate::relocation_queue::{COMPACT_DELAY, REPACK_DELAY, RelocationQueue};

/// The state that the reaper keeps between passes.
#[derive(Debug, Default)]
pub(crate) struct ReaperMemory {
    /// The blocks that await deletion, and the time at which this process first saw each.
    pub(crate) waiting: PendingAges,
    /// The time at which the first block that awaits deletion will have waited for the deletion
    /// grace; `None` if no block waits.
    pub(crate) due: Option<Instant>,
}

/// The maintenance of a volume that a session has open.
#[derive(Debug)]
pub struct Upkeep {
    pub(crate) session: Arc<Session>,
    pub(crate) blocks: Arc<dyn BlockStore>,
    /// The resources that the session's writers share.
    pub(crate) staging: Arc<Staging>,
    /// The ring keys under which moved content is encrypted.
    pub(crate) rings: Arc<dyn Rings>,
    /// The deletion grace: the time that a block is kept after a commit has freed it. `None`:
    /// derived from the durability of the metadata store.
    pub(crate) deletion_grace: Option<Duration>,
    pub(crate) meters: UpkeepMeters,
    /// Locked during a pass of the reaper.
    pub(crate) reaping: tokio::sync::Mutex<ReaperMemory>,
    /// Dead records that the reaper keeps, because they cannot be read.
    pub(crate) damaged: Damaged,
    /// Content bytes of a full pack, a block of several files.
    pub(crate) pack_bytes: u32,
    /// The queue of packs that may be worth rewriting, because few of their bytes are live.
    pub(crate) packs: RelocationQueue<BlockId>,
    /// The queue of files that may be worth compacting, because later writes have hidden much of
    /// their blocks.
    pub(crate) files: RelocationQueue<Ino>,
    /// Locked during a sweep.
    pub(crate) sweeping: tokio::sync::Mutex<()>,
}

impl Upkeep {
    /// Creates the maintenance of a volume. It starts no task. `pack_bytes` is the size in bytes of
    /// a full pack, a block of several files. A freed block is kept for `deletion_grace`; if that
    /// is `None`, for [`crate::DELETION_GRACE_RELAXED`] while the store may lose acknowledged
    /// commits, and not at all otherwise.
    pub fn new(
        session: &Arc<Session>,
        blocks: &Arc<dyn BlockStore>,
        staging: &Arc<Staging>,
        rings: &Arc<dyn Rings>,
        pack_bytes: u32,
        deletion_grace: Option<Duration>,
    ) -> Arc<Upkeep> {
        Arc::new(Upkeep {
            session: Arc::clone(session),
            blocks: Arc::clone(blocks),
            staging: Arc::clone(staging),
            rings: Arc::clone(rings),
            deletion_grace,
            meters: UpkeepMeters::default(),
            reaping: tokio::sync::Mutex::default(),
            damaged: Damaged::default(),
            pack_bytes: pack_bytes.clamp(1, BLOCK_BYTES_MAX),
            packs: RelocationQueue::new(REPACK_DELAY),
            files: RelocationQueue::new(COMPACT_DELAY),
            sweeping: tokio::sync::Mutex::default(),
        })
    }

    /// Returns the counters of the maintenance tasks.
    pub fn meters(&self) -> &UpkeepMeters {
        &self.meters
    }
}

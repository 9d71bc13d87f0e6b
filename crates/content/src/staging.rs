//! The shared resources of all writers of a session.

use std::sync::Arc;

use block::{BLOCK_BYTES_MAX, BlockReader, BlockStore, Sealer};
use publication::Pins;
use record::RingNumber;
use runtime::Tasks;

use crate::{BlockIds, ByteBudget, Deadlines, LateBlocks, StagedInline, Traffic};

/// The resources that all writers of a session share.
#[derive(Debug)]
pub struct Staging {
    /// The store into which blocks are put.
    pub blocks: Arc<dyn BlockStore>,
    /// The reader of blocks. It may cache blocks that were just put.
    pub reader: Arc<dyn BlockReader>,
    /// The generator of the session's block ids.
    pub ids: BlockIds,
    /// The memory budget of incoming bodies.
    pub budget: ByteBudget,
    /// The task group that runs puts and deletions.
    pub tasks: Tasks,
    /// Content bytes of a full block. A value beyond the limits of a block counts as the limit.
    pub block_bytes: u32,
    /// The longest inline body, in bytes. Such a body takes no memory from the budget.
    pub inline_bytes_max: u32,
    /// The policy that chooses where small bodies are stored, and the bodies that wait in records
    /// to be moved into blocks.
    pub staged_inline: Arc<StagedInline>,
    /// Blocks that a put may create after their deletion, because it timed out. They are deleted
    /// again later.
    pub late: Arc<LateBlocks>,
    /// The means to pin the epoch while a plan may still reference a pack (a block of several
    /// bodies), so that the reaper does not delete the pack.
    pub pins: Arc<dyn Pins>,
    /// Timeouts for memory and for calls to the block store.
    pub deadlines: Deadlines,
    /// Counters of reads and writes.
    pub traffic: Arc<Traffic>,
}

impl Staging {
    /// Starts a block of one content. With a ring key, the block is secret: the block store
    /// encrypts it.
    pub fn sealer(&self, ring: Option<RingNumber>, capacity: u32) -> Sealer {
        match ring {
            Some(ring) => Sealer::new(self.ids.allocate_secret(), capacity).under(ring),
            None => Sealer::new(self.ids.allocate(), capacity),
        }
    }

    /// As [`sealer`](Staging::sealer), for a pack: a block of several contents.
    pub fn pack_sealer(&self, ring: Option<RingNumber>, capacity: u32) -> Sealer {
        match ring {
            Some(ring) => Sealer::new(self.ids.allocate_secret_pack(), capacity).under(ring),
            None => Sealer::new(self.ids.allocate_pack(), capacity),
        }
    }

    pub(crate) fn block_bytes(&self) -> u32 {
        self.block_bytes.clamp(1, BLOCK_BYTES_MAX)
    }
}

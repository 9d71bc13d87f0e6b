//! What is needed to put a session's blocks.

use std::fmt::Debug;
use std::sync::Arc;

use block::{BLOCK_BYTES_MAX, BlockReader, BlockStore};
use runtime::Tasks;

use crate::{BlockIds, ByteBudget, Deadlines, LateBlocks, StagedInline, Traffic};

/// Something that is held until it is dropped.
pub type Pin = Box<dyn Debug + Send + Sync>;

/// Protects blocks that plans are going to name from whoever deletes what nobody names.
pub trait Pins: Debug + Send + Sync {
    /// Protects them until the answer is dropped.
    fn pin(self: Arc<Self>) -> Pin;
}

/// What all who put blocks for a session share.
#[derive(Debug)]
pub struct Staging {
    /// Where blocks are put.
    pub blocks: Arc<dyn BlockStore>,
    /// What reads blocks, and may remember what was put.
    pub reader: Arc<dyn BlockReader>,
    /// The ids of the session.
    pub ids: BlockIds,
    /// What bodies on their way in may hold in memory.
    pub budget: ByteBudget,
    /// Where puts and deletions run.
    pub tasks: Tasks,
    /// Content bytes of a full block. What is beyond the limits of a block counts as the limit.
    pub block_bytes: u32,
    /// Up to how many bytes a body takes no memory from the budget, because it is inline.
    pub inline_bytes_max: u32,
    /// Where whole bodies go, and which of them await destaging.
    pub staged_inline: Arc<StagedInline>,
    /// Blocks that may land after they were deleted.
    pub late: Arc<LateBlocks>,
    /// What a pack pins while plans may still be going to name it.
    pub pins: Arc<dyn Pins>,
    /// How long to wait.
    pub deadlines: Deadlines,
    /// What happened.
    pub traffic: Arc<Traffic>,
}

impl Staging {
    pub(crate) fn block_bytes(&self) -> u32 {
        self.block_bytes.clamp(1, BLOCK_BYTES_MAX)
    }
}

//! How a volume is opened.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use block::{BLOCK_BYTES_DEFAULT, BlockReader, BlockStore, UncachedReader};
use content::{
    BlockIds, ByteBudget, Deadlines, Hashing, Packer, Packing, Pins, Reading, SizeAndLoad,
    StagedInline, Staging, Traffic, Writers,
};
use hashing::HashingPool;
use ledger::{BLOCKS_RESERVED, Ledger};
use session::{Session, SessionOptions};

/// Bytes up to which a body is kept in its record, unless told otherwise.
pub const INLINE_BYTES_DEFAULT: u32 = 4 << 10;

/// Bytes that bodies on their way in may hold in memory, unless told otherwise.
pub const BUDGET_BYTES_DEFAULT: u64 = 64 << 20;

/// How a volume is opened.
#[derive(Clone, Debug)]
pub struct VolumeOptions {
    /// Content bytes of a full block; counts when the volume is made, and never after.
    pub block_bytes: u32,
    /// Up to how many bytes a body is kept in its record.
    pub inline_bytes_max: u32,
    /// Which bodies share blocks, and how.
    pub packing: Packing,
    /// Bytes of small bodies that may be staged inline at the same time; 0 puts each into a block
    /// before it is acknowledged.
    pub staged_inline_bytes_max: u64,
    /// Bytes that bodies on their way in may hold in memory.
    pub write_budget_bytes: u64,
    /// Bytes that bodies on their way out may hold in memory.
    pub read_budget_bytes: u64,
    /// How long a block is kept after a commit has freed it: longer than the metadata store may
    /// forget. `None`: [`upkeep::DELETION_GRACE_RELAXED`] while the store is relaxed, else 0.
    pub deletion_grace: Option<Duration>,
    /// How long the byte path waits.
    pub deadlines: Deadlines,
    /// Where the content of blocks comes from: a cache over the same blocks, say. `None` reads
    /// them each time.
    pub reader: Option<Arc<dyn BlockReader>>,
    /// Whether the reaper, the sweeper, the rewriter of packs and what destages bodies run by
    /// themselves.
    pub collect: bool,
    /// How its session is begun.
    pub session: SessionOptions,
}

impl Default for VolumeOptions {
    fn default() -> VolumeOptions {
        VolumeOptions {
            block_bytes: BLOCK_BYTES_DEFAULT,
            inline_bytes_max: INLINE_BYTES_DEFAULT,
            packing: Packing::default(),
            staged_inline_bytes_max: 0,
            write_budget_bytes: BUDGET_BYTES_DEFAULT,
            read_budget_bytes: BUDGET_BYTES_DEFAULT,
            deletion_grace: None,
            deadlines: Deadlines::default(),
            reader: None,
            collect: true,
            session: SessionOptions::default(),
        }
    }
}

/// The ids of a session's blocks. One that outlives this process draws them from ranges that its
/// ledger reserves.
fn block_ids(session: &Session, ledger: Option<&Arc<Ledger>>) -> BlockIds {
    let Some(ledger) = ledger.map(Arc::clone) else { return BlockIds::new(session.nonce()) };
    BlockIds::reserved(session.nonce(), move || {
        let first = ledger.reserve_blocks().expect("a file in memory can be written");
        first..first + BLOCKS_RESERVED
    })
}

impl VolumeOptions {
    /// What reads blocks: the reader that was given, or one without a memory.
    fn reader_over(&self, blocks: &Arc<dyn BlockStore>) -> Arc<dyn BlockReader> {
        let given = self.reader.clone();
        given.unwrap_or_else(|| Arc::new(UncachedReader::new(Arc::clone(blocks))))
    }

    /// What all who put blocks for a session share.
    pub(crate) fn staging(
        &self,
        session: &Session,
        blocks: &Arc<dyn BlockStore>,
        traffic: &Arc<Traffic>,
    ) -> Staging {
        Staging {
            blocks: Arc::clone(blocks),
            reader: self.reader_over(blocks),
            ids: block_ids(session, self.session.ledger.as_ref()),
            budget: ByteBudget::new(self.write_budget_bytes),
            tasks: session.tasks().clone(),
            block_bytes: session.volume().block_bytes,
            inline_bytes_max: self.inline_bytes_max,
            staged_inline: Arc::new(StagedInline::new(SizeAndLoad {
                inline_bytes_max: u64::from(self.inline_bytes_max),
                staged_inline_bytes_max: self.staged_inline_bytes_max,
            })),
            late: Arc::default(),
            pins: Arc::clone(session.epochs()) as Arc<dyn Pins>,
            deadlines: self.deadlines,
            traffic: Arc::clone(traffic),
        }
    }

    /// What all writers of a session share. Starts a thread for every three processors, which compute
    /// MD5s.
    pub(crate) fn writers(&self, staging: &Arc<Staging>) -> Writers {
        let processors = available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let pool = HashingPool::start(HashingPool::workers_for(processors));
        Writers {
            staging: Arc::clone(staging),
            packer: Arc::new(Packer::new(staging, self.packing)),
            hashing: Arc::new(Hashing::new(pool)),
        }
    }

    /// What all readers of a session share.
    pub(crate) fn reading(&self, staging: &Staging) -> Reading {
        Reading {
            reader: Arc::clone(&staging.reader),
            budget: ByteBudget::new(self.read_budget_bytes),
            tasks: staging.tasks.clone(),
            deadlines: self.deadlines,
            traffic: Arc::clone(&staging.traffic),
        }
    }
}

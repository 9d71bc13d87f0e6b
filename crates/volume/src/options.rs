//! Options of a volume, and the parts that are created from them.
//!
//! For example, `VolumeOptions { inline_bytes_max: 0, ..Default::default() }` opens a volume that
//! puts each body into blocks.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::available_parallelism;

use block::{BLOCK_BYTES_DEFAULT, BlockReader, BlockStore, UncachedReader};
use content::{
    BlockIds, ByteBudget, Deadlines, Hashing, Packer, Packing, Pins, Reading, SizeAndLoad,
    StagedInline, Staging, Traffic, Writers,
};
use hashing::HashingPool;
use keyring::{FixedRing, Rings};
use ledger::{BLOCKS_RESERVED, Ledger};
use session::{Session, SessionOptions};

/// Default of [`VolumeOptions::inline_bytes_max`].
const INLINE_BYTES_DEFAULT: u32 = 4 << 10;

/// Default memory in bytes of bodies that are being written, and of bodies that are being read,
/// each.
const BUDGET_BYTES_DEFAULT: u64 = 64 << 20;

/// Options of a volume.
#[derive(Clone, Debug)]
pub struct VolumeOptions {
    /// Content bytes of a full block. Used only when the volume is created.
    pub block_bytes: u32,
    /// Largest body, in bytes, that is kept in its inode's record for good. Larger bodies are put
    /// into blocks.
    pub inline_bytes_max: u32,
    /// The policy that decides which bodies share a block, which is then a pack.
    pub packing: Packing,
    /// Most bytes of small bodies that are staged inline at the same time, that is, kept in their
    /// inodes' records until the relocator moves them into blocks. With 0 each body is put into a
    /// block before it is acknowledged.
    pub staged_inline_bytes_max: u64,
    /// Memory of bodies that are being written, in bytes.
    pub write_budget_bytes: u64,
    /// Memory of bodies that are being read, in bytes.
    pub read_budget_bytes: u64,
    /// Time limits of reads and writes of blocks.
    pub deadlines: Deadlines,
    /// The reader of blocks, for example a cache over the same blocks. `None` reads from the block
    /// store each time.
    pub reader: Option<Arc<dyn BlockReader>>,
    /// The ring keys, under which new content is encrypted.
    pub rings: Arc<dyn Rings>,
    /// Options of the session, which is this process's use of the metadata store.
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
            deadlines: Deadlines::default(),
            reader: None,
            rings: Arc::new(FixedRing::default()),
            session: SessionOptions::default(),
        }
    }
}

/// Creates the source of block ids. If the session may be resumed by another process, it has a
/// ledger (a file in memory that passes from one process to the next). Then ids are taken from
/// ranges that the ledger reserves, so that no process uses an id twice.
fn block_ids(session: &Session, ledger: Option<&Arc<Ledger>>) -> BlockIds {
    // Without a ledger no other process continues this session, and numbers in memory suffice.
    let Some(ledger) = ledger.map(Arc::clone) else { return BlockIds::new(session.nonce()) };
    BlockIds::reserved(session.nonce(), move || {
        let first = ledger.reserve_blocks().expect("a file in memory can be written");
        first..first + BLOCKS_RESERVED
    })
}

impl VolumeOptions {
    /// Returns the reader of blocks: the given one, or one without a cache.
    fn reader_over(&self, blocks: &Arc<dyn BlockStore>) -> Arc<dyn BlockReader> {
        let given = self.reader.clone();
        given.unwrap_or_else(|| Arc::new(UncachedReader::new(Arc::clone(blocks))))
    }

    /// Creates the state that all writers of blocks share, such as the memory budget and the source
    /// of block ids.
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

    /// Creates the state that all content writers share (the packer and the hashing), and starts
    /// the threads that compute MD5s: see [`HashingPool::workers_for`].
    pub(crate) fn writers(&self, staging: &Arc<Staging>) -> Writers {
        let processors = available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let pool = HashingPool::start(HashingPool::workers_for(processors));
        Writers {
            staging: Arc::clone(staging),
            packer: Arc::new(Packer::new(staging, self.packing)),
            hashing: Arc::new(Hashing::new(pool)),
        }
    }

    /// Creates the state that all content readers share, such as the memory budget.
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

//! Packs of which so little is alive that they are worth rewriting.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::BLOCK_BYTES_MAX;
use record::BlockId;
use session::Priority;
use tokio::sync::Notify;

/// A pack is rewritten if less than this share of it is alive, in percent. What is stored in packs
/// is then at most so much larger than what is alive: twice as large at 50.
pub const LIVE_SHARE_PERCENT: u64 = 50;

/// The most packs that are noted as sparse; the others are found by the next survey.
const NOTES_MAX: usize = 65_536;

/// With more packs than this noted as sparse, the rewriter is not throttled.
const NOTES_THROTTLED_MAX: usize = 256;

/// Whether so little of a pack is alive that it is worth rewriting.
pub(crate) const fn is_sparse(live: u64, length: u32) -> bool {
    live.saturating_mul(100) < (length as u64).saturating_mul(LIVE_SHARE_PERCENT)
}

/// What the rewriter knows between its rounds.
#[derive(Debug)]
pub(crate) struct Repacking {
    /// Content bytes of a full pack.
    pub(crate) pack_bytes: u32,
    sparse: Mutex<BTreeSet<BlockId>>,
    /// Notified when something was noted.
    pub(crate) noted: Arc<Notify>,
    /// Held by a round.
    pub(crate) round: tokio::sync::Mutex<()>,
}

impl Repacking {
    pub(crate) fn new(pack_bytes: u32) -> Repacking {
        Repacking {
            pack_bytes: pack_bytes.clamp(1, BLOCK_BYTES_MAX),
            sparse: Mutex::default(),
            noted: Arc::default(),
            round: tokio::sync::Mutex::default(),
        }
    }

    /// Takes note of packs that may be sparse.
    pub(crate) fn note(&self, packs: impl IntoIterator<Item = BlockId>) {
        let mut sparse = self.sparse();
        let before = sparse.len();
        let room = NOTES_MAX.saturating_sub(before);
        sparse.extend(packs.into_iter().take(room));
        if sparse.len() > before {
            self.noted.notify_one();
        }
    }

    /// Dead bytes must not pile up because the volume is busy.
    pub(crate) fn priority(&self) -> Priority {
        if self.sparse().len() > NOTES_THROTTLED_MAX {
            Priority::Urgent
        } else {
            Priority::Background
        }
    }

    pub(crate) fn next(&self) -> Option<BlockId> {
        self.sparse().pop_first()
    }

    /// Takes back one that was taken, for the next round.
    pub(crate) fn put_back(&self, pack: BlockId) {
        self.sparse().insert(pack);
    }

    /// The set is whole between any two statements, so a panic elsewhere leaves it usable.
    fn sparse(&self) -> MutexGuard<'_, BTreeSet<BlockId>> {
        self.sparse.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

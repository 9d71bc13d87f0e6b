//! Packs of which so few bytes are live that they are worth rewriting.
//!
//! For example, a pack of 8 MiB is sparse once deleted files leave less than 4 MiB of it live.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::BLOCK_BYTES_MAX;
use record::BlockId;
use session::Priority;
use tokio::sync::Notify;

/// A pack (block of several files) with a smaller share of live bytes than this is rewritten, in
/// percent. Packs then take up at most `100 / LIVE_SHARE_PERCENT` times their live bytes: twice as
/// much at 50.
pub const LIVE_SHARE_PERCENT: u64 = 50;

/// The most packs that wait for the rewriter. The next survey of all packs finds the others.
const NOTES_MAX: usize = 65_536;

/// If more packs than this are queued, the rewriter does not pause while requests are served.
const NOTES_THROTTLED_MAX: usize = 256;

/// Returns true if so few bytes of a pack (block of several files) are live that it is worth
/// rewriting. `live` and `length` are in content bytes.
pub(crate) const fn is_sparse(live: u64, length: u32) -> bool {
    live.saturating_mul(100) < (length as u64).saturating_mul(LIVE_SHARE_PERCENT)
}

/// The queue of packs (blocks of several files) that the rewriter looks at, because few of their
/// bytes may be live.
#[derive(Debug)]
pub(crate) struct RepackQueue {
    /// Content bytes of a full pack.
    pub(crate) pack_bytes: u32,
    sparse: Mutex<BTreeSet<BlockId>>,
    /// Notified when a pack was queued.
    pub(crate) noted: Arc<Notify>,
    /// Locked during a round of the rewriter, so that there is one at a time.
    pub(crate) round: tokio::sync::Mutex<()>,
}

impl RepackQueue {
    pub(crate) fn new(pack_bytes: u32) -> RepackQueue {
        RepackQueue {
            pack_bytes: pack_bytes.clamp(1, BLOCK_BYTES_MAX),
            sparse: Mutex::default(),
            noted: Arc::default(),
            round: tokio::sync::Mutex::default(),
        }
    }

    /// Queues packs (blocks of several files) for the rewriter, because few of their bytes may be
    /// live.
    pub(crate) fn note(&self, packs: impl IntoIterator<Item = BlockId>) {
        let mut sparse = self.sparse();
        let before = sparse.len();
        let room = NOTES_MAX.saturating_sub(before);
        // Packs beyond the limit are dropped here; the next survey finds them.
        sparse.extend(packs.into_iter().take(room));
        if sparse.len() > before {
            self.noted.notify_one();
        }
    }

    /// Returns the priority of the rewriter's next round: urgent if many packs are queued, because
    /// dead bytes must not accumulate while the volume is busy.
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

    /// Queues a pack again that was taken, for the next round.
    pub(crate) fn put_back(&self, pack: BlockId) {
        self.sparse().insert(pack);
    }

    /// Each statement leaves the set consistent, so a poisoned lock is still usable.
    fn sparse(&self) -> MutexGuard<'_, BTreeSet<BlockId>> {
        self.sparse.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

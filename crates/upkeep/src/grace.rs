//! How long a block is kept after a commit has freed it.
//!
//! A metadata store may forget its last commits: one that does not sync each of them, or a replica
//! that takes over before it has got all of them. Then records name blocks again that had been
//! freed, and these must still be there. So a block is deleted only when the record that frees it
//! is older than what the store may forget. This process knows that by its own time alone: it saw
//! the record that long ago, and sees it again now. After a restart the time begins anew, and no
//! two clocks are compared.

use std::collections::HashMap;
use std::time::Duration;

use record::BlockId;
use store::Durability;
use tokio::time::Instant;
use tracing::warn;

/// The grace where the settings of the metadata store may lose what was acknowledged last: two
/// seconds with Redis and `appendfsync everysec`, half a minute where the operating system decides
/// when to write. No grace is long enough for a store that writes nothing unless somebody asks for
/// a dump.
pub const DELETION_GRACE_RELAXED: Duration = Duration::from_mins(1);

/// Blocks whose time is known, of about a hundred bytes each. More wait until there is room.
const WAITING_MAX: usize = 1 << 20;

/// The grace that is in force: what the operator said, or what goes with the store.
pub(crate) fn in_force(said: Option<Duration>, durability: Durability) -> Duration {
    match (said, durability) {
        (Some(said), _) => said,
        (None, Durability::Relaxed) => DELETION_GRACE_RELAXED,
        (None, Durability::Strict | Durability::None) => Duration::ZERO,
    }
}

/// Blocks that await deletion, and since when this process knows of each.
#[derive(Debug, Default)]
pub(crate) struct PendingAges {
    since: HashMap<BlockId, Instant>,
    /// Those that the pass under way has seen.
    met: HashMap<BlockId, Instant>,
    /// Whether the pass has seen more than there is room for, and whether the one before had.
    full: bool,
    was_full: bool,
}

impl PendingAges {
    /// Takes note that a block awaits deletion. Answers whether it has for as long as `grace`.
    pub(crate) fn has_waited(&mut self, block: BlockId, grace: Duration) -> bool {
        if grace.is_zero() {
            return true;
        }
        let now = Instant::now();
        let since = self.since.get(&block).copied().unwrap_or(now);
        if now.duration_since(since) >= grace {
            return true;
        }
        if self.met.len() < WAITING_MAX {
            self.met.insert(block, since);
        } else {
            self.full = true;
        }
        false
    }

    /// Ends a pass that has seen all blocks that await deletion. Those that it has not seen are
    /// forgotten: if the store names one again, its time begins anew. Answers when the first of the
    /// others has waited long enough.
    pub(crate) fn end_pass(&mut self, grace: Duration) -> Option<Instant> {
        if self.full && !self.was_full {
            warn!(
                "more than {WAITING_MAX} freed blocks wait for the deletion grace of {grace:?}; \
                 no more than that are deleted in that time"
            );
        }
        self.was_full = std::mem::take(&mut self.full);
        self.since = std::mem::take(&mut self.met);
        self.since.values().min().map(|first| *first + grace)
    }

    /// Ends a pass that has not seen all.
    pub(crate) fn break_off(&mut self) {
        let met = std::mem::take(&mut self.met);
        self.since.extend(met);
    }
}

#[cfg(test)]
mod tests;

//! How long a block is kept after a commit has freed it.
//!
//! A metadata store may forget its last commits: one that does not sync each of them, or a replica
//! that takes over before it has heard of all. What it then says again of a block must still be there.
//! So a block is deleted only once the record that frees it has stood for longer than the store may
//! forget. That it has, this process knows by its own time alone: it saw the record that long ago, and
//! sees it again now. After a restart the time begins anew, and no two clocks are compared.

use std::collections::HashMap;
use std::time::Duration;

use record::BlockId;
use store::Durability;
use tokio::time::Instant;

/// The grace where the settings of the metadata store may lose what was acknowledged last. Redis with
/// `appendfsync everysec` may lose two seconds.
pub const DELETION_GRACE_RELAXED: Duration = Duration::from_secs(10);

/// Blocks whose time is known. More wait until there is room.
const WAITING_MAX: usize = 262_144;

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
pub(crate) struct Waiting {
    since: HashMap<BlockId, Instant>,
    /// Those of the pass that is under way.
    met: HashMap<BlockId, Instant>,
}

impl Waiting {
    /// A block is seen to await deletion. Whether it has for as long as `grace`.
    pub(super) fn has_waited(&mut self, block: BlockId, grace: Duration) -> bool {
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
        }
        false
    }

    /// All that await deletion have been seen. What was not is forgotten: should the store speak of
    /// it again, its time begins anew. Answers when the first of the others has waited long enough.
    pub(super) fn end_pass(&mut self, grace: Duration) -> Option<Instant> {
        self.since = std::mem::take(&mut self.met);
        self.since.values().min().map(|first| *first + grace)
    }

    /// A pass ended before it had seen all.
    pub(super) fn break_off(&mut self) {
        let met = std::mem::take(&mut self.met);
        self.since.extend(met);
    }
}

#[cfg(test)]
mod tests;

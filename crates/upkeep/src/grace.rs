//! The deletion grace: how long a block is kept after a commit has freed it.
//!
//! A metadata store may lose its last commits: one that does not sync each commit, or a replica
//! that takes over before it has received all of them. Then records reference blocks again that had
//! been freed, and these blocks must still exist. So a block is deleted only when the record that
//! frees it is older than any commit that the store may lose. A process measures that age with its
//! own clock alone: from the pass in which it first saw the record to a later pass that sees it
//! again. After a restart the wait begins anew, and the clocks of two machines are never compared.
//!
//! For example, Redis with `appendfsync everysec` may lose two seconds of commits. With the default
//! grace of one minute, the blocks of an object that was deleted in these seconds still exist after
//! the failure.

use std::collections::HashMap;
use std::time::Duration;

use record::BlockId;
use store::Durability;
use tokio::time::Instant;
use tracing::warn;

/// The deletion grace (the time for which a block is kept after a commit has freed it) for a
/// metadata store that may lose acknowledged commits: the last two seconds with Redis and
/// `appendfsync everysec`, half a minute where the operating system decides when to write. No grace
/// is long enough for a store that writes to disk only when a dump is requested.
pub const DELETION_GRACE_RELAXED: Duration = Duration::from_mins(1);

/// The most recent commits that a store with relaxed durability may lose, as a time: Linux writes
/// changed pages to disk after 30 seconds by default (`vm.dirty_expire_centisecs`).
const LOST_COMMITS_MAX: Duration = Duration::from_secs(30);

// A block is deleted only after the commit that freed it can no longer be lost.
const _: () = assert!(LOST_COMMITS_MAX.as_millis() < DELETION_GRACE_RELAXED.as_millis());

/// The most blocks whose age is known, at about a hundred bytes each. Further blocks wait until
/// others were deleted.
const WAITING_MAX: usize = 1 << 20;

/// Returns the deletion grace, the time for which a block is kept after a commit has freed it: the
/// operator's setting, or the default for the store's durability.
pub(crate) fn effective_grace(configured: Option<Duration>, durability: Durability) -> Duration {
    match (configured, durability) {
        (Some(configured), _) => configured,
        (None, Durability::Relaxed) => DELETION_GRACE_RELAXED,
        (None, Durability::Strict | Durability::None) => Duration::ZERO,
    }
}

/// The blocks that await deletion, and the time at which this process first saw each. They must
/// wait for the deletion grace.
#[derive(Debug, Default)]
pub(crate) struct PendingAges {
    since: HashMap<BlockId, Instant>,
    /// The blocks that the present pass over the blocks awaiting deletion has seen.
    seen: HashMap<BlockId, Instant>,
    /// True if the present pass has seen more blocks than `WAITING_MAX`. The others wait for a
    /// later pass.
    full: bool,
    /// True if the previous pass had. Then the warning is not repeated.
    was_full: bool,
}

impl PendingAges {
    /// Records that a pass has seen that a block awaits deletion. Returns true if this process has
    /// known that for at least `grace`, so that the block may be deleted.
    pub(crate) fn has_waited(&mut self, block: BlockId, grace: Duration) -> bool {
        if grace.is_zero() {
            return true;
        }
        let now = Instant::now();
        let since = self.since.get(&block).copied().unwrap_or(now);
        if now.duration_since(since) >= grace {
            return true;
        }
        if self.seen.len() < WAITING_MAX {
            self.seen.insert(block, since);
        } else {
            self.full = true;
        }
        false
    }

    /// Ends a pass that has seen all blocks that await deletion. Blocks that it has not seen are
    /// forgotten: if the store lists one again, its wait begins anew. Returns the time at which the
    /// first of the known blocks has waited for `grace`; `None` if there is none.
    pub(crate) fn end_pass(&mut self, grace: Duration) -> Option<Instant> {
        if self.full && !self.was_full {
            warn!(
                "more than {WAITING_MAX} freed blocks wait for the deletion grace of {grace:?}; \
                 at most this many are deleted per grace period"
            );
        }
        self.was_full = std::mem::take(&mut self.full);
        self.since = std::mem::take(&mut self.seen);
        self.since.values().min().map(|first| *first + grace)
    }

    /// Ends a pass that has not seen all blocks that await deletion. The times of all known blocks
    /// are kept.
    pub(crate) fn keep_incomplete_pass(&mut self) {
        let seen = std::mem::take(&mut self.seen);
        self.since.extend(seen);
    }
}

#[cfg(test)]
mod tests;

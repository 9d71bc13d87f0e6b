//! Counts the reads that gain from leases of the session's peers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

/// Reads of single records and of pages of listings, in one second, from which leases are worth
/// their messages.
pub(crate) const DEMAND_MIN: u64 = 20;

/// The number of reads since the last [`Demand::take`], while the session has peers.
#[derive(Debug, Default)]
pub(super) struct Demand {
    /// True if the session has peers. A session alone does not count, because all processors would
    /// write the counter.
    counts: AtomicBool,
    reads: AtomicU64,
    /// Notified when [`DEMAND_MIN`] is reached.
    began: Notify,
}

impl Demand {
    /// Counts a read that could be answered from the cache.
    pub(super) fn count(&self) {
        if self.counts.load(Ordering::Relaxed)
            && self.reads.fetch_add(1, Ordering::Relaxed) + 1 == DEMAND_MIN
        {
            self.began.notify_one();
        }
    }

    /// Begins or ends the count.
    pub(super) fn set(&self, counts: bool) {
        self.counts.store(counts, Ordering::Relaxed);
    }

    /// Returns the number of reads since the last call.
    pub(super) fn take(&self) -> u64 {
        self.reads.swap(0, Ordering::Relaxed)
    }

    /// Returns when [`DEMAND_MIN`] reads were counted since the last [`Demand::take`].
    pub(super) async fn began(&self) {
        self.began.notified().await;
    }
}

//! The nodes about which the kernel has asked lately, so that it may have cached an answer.
//!
//! A peer gives notice of each change that it makes anywhere in the volume. Most of these nodes are
//! not in the kernel's caches of this mount, and a notification for each would cost two thread
//! switches. So each request registers its node here, and a notice of other nodes is acknowledged
//! at once.
//!
//! A directory is *contested* if both this mount and a peer have changed names in it lately. The
//! kernel may cache no name of it: an invalidation waits for the directory's lock, which the kernel
//! holds during a change of this mount, and that change may itself wait for the peer.
//!
//! Nodes share slots by a hash of their number. A collision costs a needless notification.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use record::Ino;

/// The number of slots. The table takes 24 bytes for each.
const SLOTS: usize = 8_192;

/// The time after its request for which the kernel may have an answer in its caches. The answer is
/// valid for half a second at most, counted from the request. The rest is the time that the kernel
/// may take to store it.
const ANSWERED_FOR: Duration = Duration::from_secs(1);

/// The time for which a directory counts as changed.
const CHANGED_FOR: Duration = Duration::from_secs(2);

/// The nodes about which the kernel has asked lately.
#[derive(Debug)]
pub(crate) struct RecentNodes {
    origin: Instant,
    slots: Box<[Slot]>,
}

/// Times in milliseconds since the origin plus one; 0 for never.
#[derive(Debug, Default)]
struct Slot {
    /// The last request about the node whose answer the kernel may cache.
    asked: AtomicU64,
    /// The last request that changes names of the directory.
    changed_here: AtomicU64,
    /// The last notice of a peer that changes names of the directory.
    changed_by_peer: AtomicU64,
}

impl RecentNodes {
    pub(crate) fn new() -> RecentNodes {
        let slots = (0..SLOTS).map(|_| Slot::default()).collect();
        RecentNodes { origin: Instant::now(), slots }
    }

    /// Registers a request about a node. `changes_names` is true if it changes names of this
    /// directory. Returns true if the kernel may cache the answer. Called before the validity of
    /// the answer is determined, so that a notice finds either this request or no validity.
    pub(crate) fn asked(&self, node: Ino, changes_names: bool) -> bool {
        let (slot, now) = (self.slot(node), self.now());
        if changes_names {
            slot.changed_here.fetch_max(now, Ordering::SeqCst);
        }
        let is_contested = is_recent(&slot.changed_here, now, CHANGED_FOR)
            && is_recent(&slot.changed_by_peer, now, CHANGED_FOR);
        if !is_contested {
            slot.asked.fetch_max(now, Ordering::SeqCst);
        }
        !is_contested
    }

    /// Registers a rename from or to a directory, also to a contested one. The kernel moves the
    /// cached answer of the old name to the new name.
    pub(crate) fn renames(&self, directory: Ino) {
        let (slot, now) = (self.slot(directory), self.now());
        slot.changed_here.fetch_max(now, Ordering::SeqCst);
        slot.asked.fetch_max(now, Ordering::SeqCst);
    }

    /// Registers that a peer changes names of a directory.
    pub(crate) fn peer_changes_names(&self, directory: Ino) {
        self.slot(directory).changed_by_peer.fetch_max(self.now(), Ordering::SeqCst);
    }

    /// Returns true if the kernel may have an answer about the node in its caches.
    pub(crate) fn may_be_cached(&self, node: Ino) -> bool {
        is_recent(&self.slot(node).asked, self.now(), ANSWERED_FOR)
    }

    fn slot(&self, node: Ino) -> &Slot {
        // Numbers of nodes are mostly consecutive, so their lowest bits spread them evenly.
        let index = usize::try_from(node.0 % SLOTS as u64).unwrap_or(0);
        &self.slots[index]
    }

    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_millis()).map_or(u64::MAX, |now| now + 1)
    }
}

fn is_recent(time: &AtomicU64, now: u64, duration: Duration) -> bool {
    let time = time.load(Ordering::SeqCst);
    time > 0 && u128::from(now.saturating_sub(time)) <= duration.as_millis()
}

#[cfg(test)]
mod tests;

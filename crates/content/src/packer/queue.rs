//! The queue of bodies that wait to share a block, and the rule when they are sent.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use record::Slice;
use tokio::sync::oneshot;

use super::batch_rejoin::BatchRejoin;
use crate::claim::Claim;
use crate::{ContentError, Permit};

/// The settings of packing, that is, of putting several small bodies into one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// The longest body that is packed, in bytes. Longer bodies get blocks of their own; 0 turns
    /// packing off.
    pub body_bytes_max: u32,
    /// The size in bytes at which a pack (a block of several bodies) is full.
    pub pack_bytes: u32,
    /// The wait of a body for others with which it shares a block. `window_per_mib` adds a time for
    /// the body's length.
    pub window: Duration,
    /// The additional wait for each MiB of a body. Bodies of the same size take longer to arrive,
    /// too.
    pub window_per_mib: Duration,
    /// The packs (blocks of several bodies) that may be put at the same time. Four times as many
    /// are allowed if packs are full or the backend is slow.
    pub packs_in_flight: usize,
}

impl Default for Packing {
    fn default() -> Packing {
        Packing {
            body_bytes_max: 1 << 20,
            pack_bytes: 8 << 20,
            window: Duration::from_millis(2),
            window_per_mib: Duration::from_millis(12),
            packs_in_flight: 1,
        }
    }
}

/// The factor on `packs_in_flight` while packs are full or the backend is slow.
const PACKS_IN_FLIGHT_FACTOR: usize = 4;

/// A verified body that waits for its block.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) pieces: Vec<Bytes>,
    pub(crate) length: u32,
    pub(crate) permit: Option<Permit>,
    pub(crate) landed: oneshot::Sender<Result<PackedBody, ContentError>>,
}

/// The location of a stored body in a block.
#[derive(Debug)]
pub(crate) struct PackedBody {
    pub(crate) slice: Slice,
    /// The claim on the body's block, which deletes the block if no plan references it.
    pub(crate) claim: Arc<Claim>,
}

/// The bodies that wait to share a block, and the state that decides when they are sent.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) waiting: Vec<Member>,
    pub(super) waiting_bytes: u64,
    /// Packs (blocks of several bodies) that are being put.
    pub(super) packs: usize,
    /// Bodies in the packs that are being put.
    pub(super) members: usize,
    /// Bodies that were waiting or under way when the last pack was sent. The same number is
    /// expected at about the same time next.
    pub(super) recent_bodies: usize,
    /// True if the bodies have waited for others for a whole window.
    pub(super) window_passed: bool,
    /// True if the bodies have waited long enough not to wait any more for packs that are being
    /// put.
    pub(super) overdue: bool,
    /// The number of the current window, the time in which bodies wait for others. The timers of
    /// earlier windows compare it and do nothing.
    pub(super) window: u64,
    /// The predictor that decides whether bodies wait for the clients whose pack was just stored.
    pub(super) rejoin: BatchRejoin,
}

impl Queue {
    /// Creates an empty queue.
    pub(super) fn new() -> Queue {
        Queue {
            waiting: Vec::new(),
            waiting_bytes: 0,
            packs: 0,
            members: 0,
            recent_bodies: 1,
            window_passed: true,
            overdue: false,
            window: 0,
            rejoin: BatchRejoin::default(),
        }
    }

    /// Returns true if the waiting bodies, or the first of them that fill a pack, are to be put
    /// now.
    pub(super) fn is_due(&self, packing: &Packing) -> bool {
        if self.waiting.is_empty() {
            return false;
        }
        if self.overdue || self.waiting_bytes >= u64::from(packing.pack_bytes) {
            return self.packs < packing.packs_in_flight.saturating_mul(PACKS_IN_FLIGHT_FACTOR);
        }
        // If several packs may be under way, the bodies are spread over them.
        let expected = self.recent_bodies.div_ceil(packing.packs_in_flight);
        let have_waited = self.window_passed || self.waiting.len() >= expected;
        have_waited && self.packs < packing.packs_in_flight
    }

    /// Removes the bodies of the next pack (shared block) from the queue, in the order of their
    /// arrival.
    pub(super) fn take(&mut self, packing: &Packing) -> Vec<Member> {
        let mut bytes = 0;
        let fits = |member: &&Member| {
            bytes += u64::from(member.length);
            bytes <= u64::from(packing.pack_bytes)
        };
        // At least one body is taken, even if it is longer than a pack.
        let count = self.waiting.iter().take_while(fits).count().max(1);
        let rest = self.waiting.split_off(count.min(self.waiting.len()));
        let members = mem::replace(&mut self.waiting, rest);
        self.waiting_bytes = self.waiting.iter().map(|member| u64::from(member.length)).sum();
        self.recent_bodies = members.len() + self.waiting.len() + self.members;
        self.packs += 1;
        self.members += members.len();
        // A pack that is sent before its window has passed contains all bodies that were expected.
        self.rejoin.ended(!self.window_passed);
        self.window_passed = false;
        self.overdue = false;
        // The timers of the old window do nothing any more.
        self.window += 1;
        members
    }
}

//! Bodies that wait to share a block, and when they are sent.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use record::Slice;
use tokio::sync::oneshot;

use super::batch_rejoin::BatchRejoin;
use crate::claim::Claim;
use crate::{ContentError, Permit};

/// What is packed, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// Bodies of more bytes have blocks of their own; 0 packs nothing.
    pub body_bytes_max: u32,
    /// A pack of so many bytes is full.
    pub pack_bytes: u32,
    /// How long a body without bytes would wait for others at most.
    pub window: Duration,
    /// How much longer a body waits for each MiB that it has: others like it take long to arrive.
    pub window_per_mib: Duration,
    /// Packs under way at the same time. There may be one more when that is worth it, and four
    /// times as many when packs are full or the backend is slow.
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

/// How many times as many packs may be under way when they are full or the backend is slow.
const PACKS_IN_FLIGHT_FACTOR: usize = 4;

/// The fewest bodies that are sent beside a pack under way. A put for fewer costs too much for each
/// of them while there is a pack to wait for.
const EXTRA_PACK_BODIES_MIN: usize = 4;

/// A verified body that waits for its block.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) pieces: Vec<Bytes>,
    pub(crate) length: u32,
    pub(crate) permit: Option<Permit>,
    pub(crate) landed: oneshot::Sender<Result<Landed, ContentError>>,
}

/// Where a body lies now.
#[derive(Debug)]
pub(crate) struct Landed {
    pub(crate) slice: Slice,
    /// What deletes its block.
    pub(crate) claim: Arc<Claim>,
}

/// Bodies that wait, and what decides when they are sent.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) waiting: Vec<Member>,
    pub(super) waiting_bytes: u64,
    /// Packs under way.
    pub(super) packs: usize,
    /// Members of the packs under way.
    pub(super) members: usize,
    /// Bodies that were waiting or under way when the last pack was sent. As many are expected to
    /// come again at about the same time.
    pub(super) recent_bodies: usize,
    /// Whether the bodies have waited for others as long as they should.
    pub(super) window_passed: bool,
    /// Whether they have waited so much longer that they do not wait for the backend any more.
    pub(super) overdue: bool,
    /// Counts windows, so that the timers of an earlier one do nothing.
    pub(super) window: u64,
    /// Whether it pays to wait for the next bodies of the clients whose pack has landed.
    pub(super) rejoin: BatchRejoin,
}

impl Queue {
    /// No body waits yet.
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

    /// Whether a pack should be sent now.
    pub(super) fn is_due(&self, packing: &Packing) -> bool {
        if self.waiting.is_empty() {
            return false;
        }
        if self.overdue || self.waiting_bytes >= u64::from(packing.pack_bytes) {
            return self.packs < packing.packs_in_flight.saturating_mul(PACKS_IN_FLIGHT_FACTOR);
        }
        // Where several packs may be under way, the bodies are spread over them.
        let expected = self.recent_bodies.div_ceil(packing.packs_in_flight);
        let have_waited = self.window_passed || self.waiting.len() >= expected;
        have_waited && self.packs < packing.packs_in_flight || self.may_send_extra(packing)
    }

    /// Whether what waits is worth a pack by itself, beside one under way or before its window has
    /// passed. Where clients are back soon, it is better to let those who wait and those under way
    /// become one pack.
    fn may_send_extra(&self, packing: &Packing) -> bool {
        self.waiting.len() >= self.members.max(EXTRA_PACK_BODIES_MIN)
            && self.packs <= packing.packs_in_flight
            && self.rejoin.is_backing_off()
    }

    /// The members of the next pack, in the order in which they came.
    pub(super) fn take(&mut self, packing: &Packing) -> Vec<Member> {
        let mut bytes = 0;
        let fits = |member: &&Member| {
            bytes += u64::from(member.length);
            bytes <= u64::from(packing.pack_bytes)
        };
        let count = self.waiting.iter().take_while(fits).count().max(1);
        let rest = self.waiting.split_off(count.min(self.waiting.len()));
        let members = mem::replace(&mut self.waiting, rest);
        self.waiting_bytes = self.waiting.iter().map(|member| u64::from(member.length)).sum();
        self.recent_bodies = members.len() + self.waiting.len() + self.members;
        self.packs += 1;
        self.members += members.len();
        // Sent before the window has passed: then all that were expected have come.
        self.rejoin.ended(!self.window_passed);
        self.window_passed = false;
        self.overdue = false;
        self.window += 1;
        members
    }
}

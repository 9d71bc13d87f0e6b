//! Bodies that wait to share a block, and when they leave.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use record::Slice;
use tokio::sync::oneshot;

use super::reunion::Reunions;
use crate::claim::Claim;
use crate::{ContentError, Permit};

/// What is packed, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// Bodies of more bytes have blocks of their own; 0 packs nothing.
    pub body_bytes_max: u32,
    /// A pack leaves when it has as many bytes.
    pub pack_bytes: u32,
    /// How long a body without bytes would wait for company at most.
    pub window: Duration,
    /// How much longer a body waits for each MiB that it has, which takes long to arrive, too.
    pub window_per_mib: Duration,
    /// Packs under way at the same time. One more may be when it is worth it, and up to four times as
    /// many when they are full or the backend is slow.
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

/// How many times as many packs may be under way when they are full, which gain nothing by waiting,
/// or when the backend is slow.
const MORE_PACKS_FACTOR: usize = 4;

/// Bodies that leave beside a pack under way, at the least: fewer are too dear by themselves while
/// there is a pack to wait for.
const BESIDE_BODIES_MIN: usize = 4;

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

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) waiting: Vec<Member>,
    pub(super) waiting_bytes: u64,
    pub(super) packs: usize,
    /// Members of the packs under way.
    pub(super) members: usize,
    /// Members that were waiting or under way when the last pack left.
    pub(super) company: usize,
    /// Whether those who wait have waited for their window.
    pub(super) patient: bool,
    /// Whether they have waited for the backend as long as for several windows.
    pub(super) overdue: bool,
    /// Tells one window from the next.
    pub(super) window: u64,
    /// Whether it pays to wait for those whose pack has landed.
    pub(super) reunions: Reunions,
}

impl Queue {
    /// Nobody waits yet.
    pub(super) fn new() -> Queue {
        Queue {
            waiting: Vec::new(),
            waiting_bytes: 0,
            packs: 0,
            members: 0,
            company: 1,
            patient: true,
            overdue: false,
            window: 0,
            reunions: Reunions::default(),
        }
    }

    /// Whether what waits should leave now.
    pub(super) fn is_due(&self, packing: &Packing) -> bool {
        if self.overdue || self.waiting_bytes >= u64::from(packing.pack_bytes) {
            let most = packing.packs_in_flight.saturating_mul(MORE_PACKS_FACTOR);
            return !self.waiting.is_empty() && self.packs < most;
        }
        let expected = self.company.div_ceil(packing.packs_in_flight);
        let usual = !self.waiting.is_empty()
            && self.packs < packing.packs_in_flight
            && (self.patient || self.waiting.len() >= expected);
        usual || self.may_leave_beside(packing)
    }

    /// Whether what waits is worth a pack by itself, beside one under way or before its window has
    /// passed. Where clients are back soon, those who wait and those under way would rather become
    /// one.
    fn may_leave_beside(&self, packing: &Packing) -> bool {
        self.waiting.len() >= self.members.max(BESIDE_BODIES_MIN)
            && self.packs <= packing.packs_in_flight
            && self.reunions.are_in_vain()
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
        self.company = members.len() + self.waiting.len() + self.members;
        self.packs += 1;
        self.members += members.len();
        self.reunions.ended(!self.patient);
        self.patient = false;
        self.overdue = false;
        self.window += 1;
        members
    }
}

//! The lessor: gives leases, and gives notice of its batches to the sessions that hold them.
//!
//! For example, before this session sends a batch that writes a dentry, each lessee drops its copy
//! of the dentry and acknowledges the notice.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use peering::Message;
use record::Nonce;
use record::key::space;
use runtime::Moment;
use store::{Key, Plan, Write};
use tokio::sync::Notify;
use tracing::{debug, warn};

use super::given::Batch;
use super::{Leases, State};
use crate::times::{LEASE_PROMISE, SILENCE_DURATION};

/// Most sessions that hold a lease of this one at the same time. Each of them costs a message for
/// each batch.
pub(super) const LESSEES_MAX: usize = 16;

/// Limit of the keys of batches with an unknown outcome. Beyond it this session gives no lease any
/// more, because it would have to name all of them before each one.
pub(super) const UNKNOWN_KEYS_MAX: usize = 65_536;

impl State {
    /// Gives a lease to a peer, or extends it. Gives none if too many sessions hold one, or if the
    /// peer let a notice pass without an acknowledgement within the last [`SILENCE_DURATION`]: each
    /// batch would wait for it.
    pub(super) fn grant(&mut self, nonce: Nonce, number: u64, outlives_link: bool) {
        let holds =
            |(other, peer): (&Nonce, &super::Peer)| *other != nonce && !peer.given.is_over();
        let lessees = self.peers.iter().filter(|peer| holds(*peer)).count();
        if self.gives_none || lessees >= LESSEES_MAX {
            return;
        }
        let Some(super::Peer { link: Some(link), given, .. }) = self.peers.get_mut(&nonce) else {
            return;
        };
        if given.is_silent() {
            return;
        }
        // The link keeps the order, so the peer has these notices before it has the lease.
        for (batch, Batch { keys, .. }) in &self.batches {
            if given.noticed.insert(*batch) {
                self.notices_sent += 1;
                link.send(Message::Notice { batch: *batch, keys: Arc::clone(keys) });
            }
        }
        let fresh = std::mem::replace(&mut given.is_stale, false);
        given.outlives_link = outlives_link || (given.outlives_link && !given.is_over());
        given.promised_until = Some(Moment::now().after(LEASE_PROMISE));
        link.send(Message::Grant { number, fresh });
        given.promised_over = Some(link.id());
    }

    /// Handles a peer's acknowledgement of the notice of a batch.
    pub(super) fn acknowledged(&mut self, nonce: Nonce, batch: u64) {
        if let Some(peer) = self.peers.get_mut(&nonce) {
            peer.given.silent_until = None;
        }
        if let Some(batch) = self.batches.get_mut(&batch) {
            batch.end_wait(nonce);
        }
    }

    /// Ends the promise to a peer, which has certainly given up its lease, unless caches outside of
    /// its process may still rely on it.
    pub(super) fn promise_ended(&mut self, nonce: Nonce) {
        if let Some(peer) = self.peers.get_mut(&nonce) {
            if peer.given.outlives_link {
                return;
            }
            peer.given.promised_until = None;
            // The peer gets no notice of batches that are sent from now on.
            peer.given.is_stale = true;
        }
        for batch in self.batches.values_mut() {
            batch.end_wait(nonce);
        }
    }

    /// Registers a batch and gives notice of it to each peer with a running promise.
    fn register(&mut self, keys: &Arc<[Key]>) -> u64 {
        self.last_batch += 1;
        let number = self.last_batch;
        let (mut waits, mut not_before) = (HashMap::new(), None::<Moment>);
        for (nonce, peer) in &mut self.peers {
            let Some(until) = peer.given.promised_until() else {
                peer.given.is_stale = true;
                continue;
            };
            waits.insert(*nonce, until);
            let unlinked = peer.given.unlinked_until.filter(|until| !until.has_passed());
            not_before = not_before.into_iter().chain(unlinked).max_by_key(|at| at.remaining());
            if let Some(link) = &peer.link {
                peer.given.noticed.insert(number);
                self.notices_sent += 1;
                link.send(Message::Notice { batch: number, keys: Arc::clone(keys) });
            }
        }
        let (keys, acknowledged) = (Arc::clone(keys), Arc::default());
        let unsettled = HashSet::new();
        let batch = Batch { keys, waits, not_before, unsettled, acknowledged };
        self.batches.insert(number, batch);
        number
    }

    /// Ends the waits of a batch whose promises have passed. Returns the longest remaining wait
    /// with the signal of its end; `None` if the batch may be sent.
    fn remaining_wait(&mut self, number: u64) -> Option<(Duration, Arc<Notify>)> {
        let batch = self.batches.get_mut(&number)?;
        let peers = &mut self.peers;
        batch.waits.retain(|nonce, until| {
            let waits = !until.has_passed();
            if !waits {
                debug!(peer = %nonce, "a peer did not acknowledge a notice in time");
                if let Some(peer) = peers.get_mut(nonce) {
                    peer.given.is_stale = true;
                    let until = || Moment::now().after(SILENCE_DURATION);
                    peer.given.silent_until = peer.link.as_ref().map(|_| until());
                }
            }
            waits
        });
        let not_before = batch.not_before.filter(|until| !until.has_passed());
        let waits = batch.waits.values().chain(&not_before).map(|until| until.remaining());
        let longest = waits.max()?;
        Some((longest, Arc::clone(&batch.acknowledged)))
    }

    /// Ends a batch whose outcome is certain.
    fn batch_done(&mut self, number: u64) {
        self.batches.remove(&number);
        for peer in self.peers.values_mut() {
            if peer.given.noticed.remove(&number)
                && let Some(link) = &peer.link
            {
                link.send(Message::Done { batch: number });
            }
        }
    }

    /// Keeps a batch with an unknown outcome: it may commit at any time, so each later lease begins
    /// with a notice of it, until its plans in these slots have settled.
    fn batch_unknown(&mut self, number: u64, slots: HashSet<Key>) {
        let Some(batch) = self.batches.get_mut(&number) else { return };
        batch.unsettled = slots;
        self.unknown_keys += batch.keys.len();
        if self.unknown_keys > UNKNOWN_KEYS_MAX {
            if !self.gives_none {
                warn!("too many commits with an unknown outcome: peers get no lease any more");
            }
            self.gives_none = true;
            self.batches.remove(&number);
        }
    }

    /// Removes a slot from the batches with an unknown outcome, because the outcome of its plan is
    /// known. Returns the numbers of the batches that have no other plan with an unknown outcome.
    fn slot_settled(&mut self, slot: &Key) -> Vec<u64> {
        let settled = |(number, batch): (&u64, &mut Batch)| {
            (batch.unsettled.remove(slot) && batch.unsettled.is_empty()).then_some(*number)
        };
        self.batches.iter_mut().filter_map(settled).collect()
    }
}

/// Returns the idempotency slots of these plans; none if a plan has no slot, so that its outcome
/// will never be known.
fn slots_of(plans: &[Plan]) -> HashSet<Key> {
    let slot = |plan: &Plan| {
        plan.writes.iter().find_map(|write| match write {
            Write::Put(key, _) if key.space() == space::IDEMPOTENCY_SLOT => Some(key.clone()),
            Write::Put(..)
            | Write::Delete(_)
            | Write::Add(..)
            | Write::Max(..)
            | Write::Set(..)
            | Write::Clear(..) => None,
        })
    };
    plans.iter().map(slot).collect::<Option<_>>().unwrap_or_default()
}

impl Leases {
    /// Records that the plan in an idempotency slot has committed or never will, after its outcome
    /// was unknown. If that is true of all plans of its batch, the batch ends for this session and
    /// for its lessees.
    pub(crate) fn slot_settled(&self, slot: &Key) {
        let mut state = self.state();
        for number in state.slot_settled(slot) {
            let Some(batch) = state.batches.get(&number) else { continue };
            let keys = Arc::clone(&batch.keys);
            state.unknown_keys = state.unknown_keys.saturating_sub(keys.len());
            self.records.unknown_batch_settled(&keys);
            state.batch_done(number);
        }
    }

    /// Registers a batch that will write these records and counters, and gives notice of it to each
    /// session that holds a lease. The batch may be sent after [`Notice::acknowledged`].
    pub(crate) fn give_notice(self: &Arc<Self>, keys: &Arc<[Key]>) -> Notice {
        let number = if keys.is_empty() { None } else { Some(self.state().register(keys)) };
        Notice { leases: Arc::clone(self), number }
    }
}

/// The notice of a batch. If it is dropped before [`Notice::done`], the outcome of the batch stays
/// unknown.
#[derive(Debug)]
pub(crate) struct Notice {
    leases: Arc<Leases>,
    /// The number of the batch; `None` if it has ended, or writes nothing that sessions cache.
    number: Option<u64>,
}

impl Notice {
    /// Waits until no other session answers reads of the batch's records from its cache: each one
    /// has acknowledged the notice, or its promise has ended, which takes at most
    /// [`LEASE_PROMISE`].
    pub(crate) async fn acknowledged(&self) {
        let Some(number) = self.number else { return };
        loop {
            let Some((wait, acknowledged)) = self.leases.state().remaining_wait(number) else {
                return;
            };
            let _ended_or_late = tokio::time::timeout(wait, acknowledged.notified()).await;
        }
    }

    /// Keeps the notice of a batch whose outcome is unknown until each of its plans has settled.
    pub(crate) fn unknown(mut self, plans: &[Plan]) {
        if let Some(number) = self.number.take() {
            self.leases.state().batch_unknown(number, slots_of(plans));
        }
    }

    /// Ends the batch: it has committed, or it never will.
    pub(crate) fn done(mut self) {
        if let Some(number) = self.number.take() {
            self.leases.state().batch_done(number);
        }
    }
}

impl Drop for Notice {
    fn drop(&mut self) {
        if let Some(number) = self.number.take() {
            self.leases.state().batch_unknown(number, HashSet::new());
        }
    }
}

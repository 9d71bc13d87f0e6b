//! The lessee: holds leases of its peers, and handles the notices of their batches.

use std::sync::Arc;

use peering::Message;
use record::Nonce;
use store::Key;
use tracing::warn;

use super::{Leases, State};
use crate::times::AUTHORITY_DURATION;

/// Most keys of one peer's batches in flight. Beyond it this session gives the lease up.
const NOTICED_KEYS_MAX: usize = 65_536;

impl Leases {
    /// Handles a grant of a peer. If it is fresh, the peer has changed records without notice, so
    /// a new generation begins.
    pub(super) fn granted(&self, state: &mut State, nonce: Nonce, number: u64, fresh: bool) {
        let Some(peer) = state.peers.get_mut(&nonce) else { return };
        // Also if the question is forgotten: the peer marks only one grant as fresh.
        if fresh {
            self.records.end_authority();
        }
        // The time before the question counts, because the peer may have granted at once.
        if let Some(asked) = peer.held.answered(number) {
            peer.held.until = Some(asked.after(AUTHORITY_DURATION));
            self.extend_authority(state);
        }
    }

    /// Handles the notice of a peer's batch: its records are hints until the batch has ended.
    pub(super) fn noticed(&self, state: &mut State, nonce: Nonce, batch: u64, keys: Arc<[Key]>) {
        let Some(peer) = state.peers.get_mut(&nonce) else { return };
        let held = &mut peer.held;
        held.noticed_keys += keys.len();
        if held.noticed_keys > NOTICED_KEYS_MAX {
            warn!(peer = %nonce, "a peer has too many changes in flight: its lease is given up");
            self.records.end_authority();
            held.release(&self.records, &self.watches);
            if let Some(link) = peer.link.take() {
                peer.given.forget_link();
                link.close();
            }
            return;
        }
        self.records.peer_batch_sent(&keys);
        let link = peer.link.clone();
        let acknowledge = move || {
            if let Some(link) = link {
                link.send(Message::Ack { batch });
            }
        };
        self.watches.peer_batch_sent(&keys, Box::new(acknowledge));
        held.noticed.insert(batch, keys);
    }

    /// Handles the end of a peer's batch: its records may be read and cached again.
    pub(super) fn peer_batch_done(&self, state: &mut State, nonce: Nonce, batch: u64) {
        let Some(peer) = state.peers.get_mut(&nonce) else { return };
        if let Some(keys) = peer.held.noticed.remove(&batch) {
            peer.held.noticed_keys -= keys.len();
            self.records.peer_batch_ended(&keys);
            self.watches.peer_batches_ended(1);
        }
    }
}

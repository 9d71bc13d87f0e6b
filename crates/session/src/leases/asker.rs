//! The asker: asks all peers for leases while reads of this session gain from them.
//!
//! A session that serves no reads holds no leases, so it costs the sessions that write nothing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use peering::Message;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::Leases;
use crate::records::DEMAND_MIN;
use crate::times::LEASE_INTERVAL;

/// Time over which reads are counted, in intervals of [`LEASE_INTERVAL`].
const DEMAND_INTERVALS: usize = 10;

/// Pause before a peer that has answered no question is asked again.
const UNANSWERED_PAUSE: Duration = Duration::from_secs(1);

impl Leases {
    /// Asks for leases, while reads gain from them, until the session closes.
    pub(crate) async fn ask(self: Arc<Self>, closing: CancellationToken) {
        let mut ticks = tokio::time::interval(LEASE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut counts: VecDeque<u64> = VecDeque::with_capacity(DEMAND_INTERVALS);
        let mut asks = false;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                // Reads that begin suddenly do not wait for the next interval. A session that asks
                // already is not woken, because its reads reach the minimum thousands of times a
                // second.
                () = self.records.demand_began(), if !asks => {}
                () = closing.cancelled() => return,
            }
            counts.push_back(self.records.take_demand());
            if counts.len() > DEMAND_INTERVALS {
                counts.pop_front();
            }
            asks = counts.iter().sum::<u64>() >= DEMAND_MIN;
            if asks {
                self.ask_peers();
            }
        }
    }

    /// Asks each peer for a lease, if all of them can be asked. A lease of some of them has no use.
    pub(super) fn ask_peers(&self) {
        let mut state = self.state();
        let state = &mut *state;
        let Some(others) = &state.others else { return };
        let is_linked = |nonce| state.peers.get(nonce).is_some_and(|peer| peer.link.is_some());
        if !others.iter().all(is_linked) {
            return;
        }
        for nonce in others {
            let Some(peer) = state.peers.get_mut(nonce) else { continue };
            let Some(link) = &peer.link else { continue };
            state.last_ask += 1;
            let number = state.last_ask;
            let asks = peer.held.ask(number)
                || (peer.held.give_up_asking(UNANSWERED_PAUSE) && peer.held.ask(number));
            if asks {
                // Read after the time of the question was taken: a watch that is set in between
                // permits no caching under this lease.
                let outlives_link = self.watches.may_outlive_links();
                link.send(Message::Ask { number, outlives_link });
            }
        }
    }
}

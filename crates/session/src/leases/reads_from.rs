//! The place from which this session answers reads, for operators.

use std::collections::BTreeSet;
use std::fmt;

use peering::LinkState;
use record::Nonce;

use super::{Leases, State};
use crate::records::Basis;

/// The place from which a session answers reads of records that it knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadsFrom {
    /// From memory, because the session has no peers.
    MemoryAlone,
    /// From memory, because the session holds leases of this number of peers.
    MemoryLeased(usize),
    /// From the store, for a reason.
    Store(WhyAsks),
}

/// The reason for which a session asks the store for each read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyAsks {
    /// Reads from memory are turned off.
    Off,
    /// The list of sessions or the change feed is not known yet, or no longer.
    Unsettled,
    /// The session serves too few reads to gain from leases.
    Idle,
    /// A peer cannot be reached. The sentence says why.
    NoLink(Nonce, String),
    /// A peer is reached and has given no lease lately.
    NoLease(Nonce),
}

impl ReadsFrom {
    /// Names all places and reasons, for the labels of metrics.
    pub const LABELS: [&str; 7] =
        ["alone", "leased", "off", "unsettled", "idle", "no_link", "no_lease"];

    /// Returns the name in [`ReadsFrom::LABELS`].
    pub fn label(&self) -> &'static str {
        match self {
            ReadsFrom::MemoryAlone => "alone",
            ReadsFrom::MemoryLeased(_) => "leased",
            ReadsFrom::Store(WhyAsks::Off) => "off",
            ReadsFrom::Store(WhyAsks::Unsettled) => "unsettled",
            ReadsFrom::Store(WhyAsks::Idle) => "idle",
            ReadsFrom::Store(WhyAsks::NoLink(..)) => "no_link",
            ReadsFrom::Store(WhyAsks::NoLease(_)) => "no_lease",
        }
    }
}

impl fmt::Display for ReadsFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadsFrom::MemoryAlone => f.write_str("alone"),
            ReadsFrom::MemoryLeased(1) => f.write_str("leased (1 peer)"),
            ReadsFrom::MemoryLeased(peers) => write!(f, "leased ({peers} peers)"),
            ReadsFrom::Store(why) => write!(f, "asks ({why})"),
        }
    }
}

impl fmt::Display for WhyAsks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WhyAsks::Off => f.write_str("reads from memory are turned off"),
            WhyAsks::Unsettled => f.write_str("the sessions are being listed"),
            WhyAsks::Idle => f.write_str("idle"),
            WhyAsks::NoLink(peer, why) => write!(f, "no link to session {peer}: {why}"),
            WhyAsks::NoLease(peer) => write!(f, "session {peer} gives no lease"),
        }
    }
}

impl Leases {
    /// Returns the place from which reads are answered now, and the reason if that is the store.
    pub(crate) fn reads_from(&self) -> ReadsFrom {
        let state = self.state();
        match self.records.basis() {
            Some(Basis::Alone) => ReadsFrom::MemoryAlone,
            Some(Basis::Leases) => {
                ReadsFrom::MemoryLeased(state.others.as_ref().map_or(0, BTreeSet::len))
            }
            None => ReadsFrom::Store(self.why_asks(&state)),
        }
    }

    fn why_asks(&self, state: &State) -> WhyAsks {
        if !self.records.is_authoritative() {
            return WhyAsks::Off;
        }
        let Some(others) = state.others.as_ref().filter(|others| !others.is_empty()) else {
            return WhyAsks::Unsettled;
        };
        let Some(links) = self.links.get() else { return WhyAsks::Off };
        let peer = |nonce: &Nonce| state.peers.get(nonce);
        let unlinked = |nonce: &&Nonce| peer(nonce).is_none_or(|peer| peer.link.is_none());
        if let Some(nonce) = others.iter().find(unlinked) {
            let states = links.states();
            let of_peer = states.into_iter().find(|(other, _)| other == nonce);
            let why = match of_peer.map(|(_, state)| state) {
                Some(LinkState::Failed(why)) => why,
                Some(LinkState::Unreachable) => "it has no address for this machine".to_owned(),
                Some(LinkState::Open { .. } | LinkState::Connecting) | None => {
                    "it is being connected".to_owned()
                }
            };
            return WhyAsks::NoLink(*nonce, why);
        }
        let refuses = |nonce: &&Nonce| peer(nonce).is_some_and(|peer| peer.held.is_unanswered());
        match others.iter().find(refuses) {
            Some(nonce) => WhyAsks::NoLease(*nonce),
            None => WhyAsks::Idle,
        }
    }

    /// Returns the number of notices that this session has sent to others.
    pub(crate) fn notices_sent(&self) -> u64 {
        self.state().notices_sent
    }

    /// Returns the number of sessions that hold a lease of this one.
    pub(crate) fn lessees(&self) -> usize {
        self.state().peers.values().filter(|peer| !peer.given.is_over()).count()
    }
}

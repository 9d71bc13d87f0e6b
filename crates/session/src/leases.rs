//! Leases between sessions, which let a session with peers answer reads from its cache.
//!
//! Roles. Of two sessions each can be the lessor of the other one. A *lessor* writes: it promises
//! its lessee, for a time, to give notice of each batch before it sends the batch to the store. A
//! *lessee* reads: while it holds a lease of each of its peers, it is authoritative, because it
//! learns of each change before the change can happen. The *asker* is the task that asks all peers
//! for leases while reads of this session gain from them.
//!
//! ```text
//! lessee                         lessor
//!   ask n          ------------->  promises notice for LEASE_PROMISE from now on
//!   has a lease    <-- grant n --
//!   until AUTHORITY_DURATION after it asked
//!
//!   demotes the    <-- notice b --  wants to send batch b, which writes these keys
//!   entries        --- ack b ---->  sends batch b to the store
//!   reads again    <-- done b ----  has the verdict
//! ```
//!
//! 1. A lease ends before the promise that it rests on, because it is counted from before the
//!    question, lasts half as long, and clocks of two machines differ by less than a factor of two.
//!    So a lessor that gets no acknowledgement waits until its promise ends, at most once, and then
//!    writes without notice.
//! 2. A batch without notice makes the next grant *fresh*: the lessee begins a new generation, in
//!    which no entry is current until it is read again.
//! 3. Before a grant the lessor gives notice of each batch that is in flight or has an unknown
//!    outcome.
//! 4. If a link ends, the lessee gives up the lease and begins a new generation.
//!
//! Keys are sent before the commit, and not between the commit and its answer. Otherwise a third
//! session could read the new value from the store, and after that the lessee could still answer
//! with the old one.
//!
//! For example, gateway A serves GETs and holds a lease of gateway B. A client overwrites `a/b` at
//! B. B sends A the keys of the dentry and the inode, waits for the acknowledgement (50 µs), and
//! commits. A answers GETs of all other keys from its cache meanwhile, and reads `a/b` from the
//! store.

mod asker;
mod given;
mod held;
mod lessee;
mod lessor;
mod reads_from;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use peering::{Link, LinkEvents, Links, Message};
use record::Nonce;
use runtime::Moment;
use tracing::debug;

use crate::records::{Basis, RecordCache};
use crate::times::AUTHORITY_DURATION;
use crate::watch::Watches;
use given::{Batch, Given};
use held::Held;

pub use reads_from::{ReadsFrom, WhyAsks};

/// The leases of this session: those that it holds, and those that it has given. Decides until when
/// the record cache answers reads.
#[derive(Debug)]
pub(crate) struct Leases {
    records: Arc<RecordCache>,
    /// Caches outside of this process, which notices of peers invalidate.
    watches: Arc<Watches>,
    /// The links to other sessions; empty if this session neither gives nor takes leases.
    links: OnceLock<Links>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The other sessions of the volume; `None` if there may be more, and before the first list.
    others: Option<BTreeSet<Nonce>>,
    /// Time until which no session can change records that is not in `others`.
    feed_until: Option<Moment>,
    peers: HashMap<Nonce, Peer>,
    /// The batches of this session that are in flight or have an unknown outcome, by number.
    batches: BTreeMap<u64, Batch>,
    last_batch: u64,
    /// Notices that were sent.
    notices_sent: u64,
    /// Keys of batches with an unknown outcome.
    unknown_keys: usize,
    /// True if this session gives no lease any more.
    gives_none: bool,
    /// Number of the last question for a lease.
    last_ask: u64,
}

/// Another session, with the lease that each of the two has given to the other one.
#[derive(Debug, Default)]
struct Peer {
    link: Option<Link>,
    given: Given,
    held: Held,
}

impl Peer {
    /// Returns true if this entry can be dropped, because nothing depends on it.
    fn is_idle(&self) -> bool {
        self.link.is_none() && self.given.is_over() && self.held.is_empty()
    }
}

impl Leases {
    /// Creates the leases of a session, which holds none and has given none. Until the first call
    /// of [`Leases::sessions_listed`] it assumes that there are other sessions.
    pub(crate) fn new(records: &Arc<RecordCache>, watches: &Arc<Watches>) -> Arc<Leases> {
        let (links, state) = (OnceLock::new(), Mutex::default());
        let (records, watches) = (Arc::clone(records), Arc::clone(watches));
        Arc::new(Leases { records, watches, links, state })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets this session give and take leases over these links. Called once.
    pub(crate) fn connect(&self, links: Links) {
        if self.links.set(links).is_err() {
            debug!("the session is connected already");
        }
        // The next list names the peers to the links.
        self.sessions_changed();
    }

    /// Records that sessions have begun or ended, or that the change feed may lack some. Ends the
    /// authority until [`Leases::sessions_listed`].
    pub(crate) fn sessions_changed(&self) {
        let mut state = self.state();
        if state.others.take().is_some() {
            debug!("this session may have other peers than before");
        }
        self.records.end_authority();
    }

    /// Returns true if the sessions must be listed before the session can be authoritative.
    pub(crate) fn wants_list(&self) -> bool {
        self.state().others.is_none()
    }

    /// Sets the other sessions, with their addresses. The list was asked for at `asked`, and the
    /// change feed will report each session that begins later.
    pub(crate) fn sessions_listed(&self, asked: Moment, others: Vec<peering::Peer>) {
        {
            let mut state = self.state();
            let nonces: BTreeSet<Nonce> = others.iter().map(|other| other.nonce).collect();
            self.records.set_has_peers(!nonces.is_empty());
            for (nonce, peer) in &mut state.peers {
                // No batch of an ended session can commit any more.
                if !nonces.contains(nonce) {
                    peer.held.release(&self.records, &self.watches);
                }
            }
            state.others = Some(nonces);
            state.feed_until = Some(asked.after(AUTHORITY_DURATION));
            state.peers.retain(|_, peer| !peer.is_idle());
            self.extend_authority(&state);
        }
        if let Some(links) = self.links.get() {
            links.set_peers(others);
        }
    }

    /// Handles an answer of the change feed, which has delivered all changes up to the time
    /// `asked`.
    pub(crate) fn feed_checked(&self, asked: Moment) {
        let mut state = self.state();
        if state.others.is_some() {
            state.feed_until = Some(asked.after(AUTHORITY_DURATION));
            self.extend_authority(&state);
        }
    }

    /// Extends the authority to the time until which no session can change records without notice.
    fn extend_authority(&self, state: &State) {
        let (Some(others), Some(mut until)) = (&state.others, state.feed_until) else { return };
        if others.is_empty() {
            self.records.extend_authority(until, Basis::Alone);
            return;
        }
        for other in others {
            let lease = state.peers.get(other).and_then(|peer| peer.held.until());
            let Some(lease) = lease else { return };
            until = until.earlier_of(lease);
        }
        if !until.has_passed() {
            self.records.extend_authority(until, Basis::Leases);
        }
    }

    /// Gives up all leases and gives none any more, because the session ends. Links end after the
    /// peers have learned of it.
    pub(crate) fn close(&self) {
        {
            let mut state = self.state();
            state.gives_none = true;
            state.others = None;
            self.records.disable();
            for peer in state.peers.values_mut() {
                peer.held.release(&self.records, &self.watches);
                if let Some(link) = &peer.link {
                    link.send(Message::Bye);
                }
            }
        }
        if let Some(links) = self.links.get() {
            links.close();
        }
    }
}

impl LinkEvents for Leases {
    fn opened(&self, link: &Link) {
        let mut state = self.state();
        let peer = state.peers.entry(link.peer()).or_default();
        // The session at the other end may be a new process of the same name.
        self.end_lease(peer);
        peer.given.forget_link();
        peer.link = Some(link.clone());
    }

    fn received(&self, link: &Link, message: Message) {
        let mut state = self.state();
        let state = &mut *state;
        let known = state.peers.get(&link.peer()).and_then(|peer| peer.link.as_ref());
        // Messages of a link that was replaced or given up are ignored.
        if known.is_none_or(|known| known.id() != link.id()) {
            return;
        }
        match message {
            Message::Ask { number, outlives_link } => {
                state.grant(link.peer(), number, outlives_link);
            }
            Message::Ack { batch } => state.acknowledged(link.peer(), batch),
            Message::Bye => state.promise_ended(link.peer()),
            Message::Grant { number, fresh } => self.granted(state, link.peer(), number, fresh),
            Message::Notice { batch, keys } => self.noticed(state, link.peer(), batch, keys),
            Message::Done { batch } => self.peer_batch_done(state, link.peer(), batch),
        }
    }

    fn closed(&self, link: &Link) {
        let mut state = self.state();
        let state = &mut *state;
        let Some(peer) = state.peers.get_mut(&link.peer()) else { return };
        if peer.link.as_ref().is_none_or(|known| known.id() != link.id()) {
            return;
        }
        peer.link = None;
        self.end_lease(peer);
        peer.given.forget_link();
        let is_of_promise = peer.given.promised_over == Some(link.id());
        // The peer gives up its lease before it closes a link, and on one machine no network can
        // end the link. So a link that the peer has ended proves that the lease has, unless caches
        // outside of the peer's process rely on it. A link over which the peer has no lease proves
        // nothing: if both sessions dial at once, the peer may drop one of the two connections
        // while it has the lease of the other one, whose end it has not seen yet.
        if link.peer_has_left() && is_of_promise {
            state.promise_ended(link.peer());
        }
        state.peers.retain(|_, peer| !peer.is_idle());
    }
}

impl Leases {
    /// Gives up the lease of a peer whose notices may have been lost.
    fn end_lease(&self, peer: &mut Peer) {
        if !peer.held.is_empty() {
            self.records.end_authority();
        }
        // Questions without an answer end with the link, too.
        peer.held.release(&self.records, &self.watches);
    }
}

#[cfg(test)]
mod tests;

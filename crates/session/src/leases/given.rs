//! The lease that this session has given to a peer, and the batches of which lessees have notice.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use peering::LinkId;
use record::Nonce;
use runtime::Moment;
use store::Key;
use tokio::sync::Notify;

/// The lease that this session has given to a peer.
#[derive(Debug)]
pub(super) struct Given {
    /// Time until which this session gives notice before it changes records. The lease of the peer
    /// ends earlier. `None` if nothing was promised, or the peer has given its lease up.
    pub(super) promised_until: Option<Moment>,
    /// The link over which the last promise was given. If the peer ends another link, that proves
    /// nothing about this promise.
    pub(super) promised_over: Option<LinkId>,
    /// True if a batch was sent without notice since the last grant over this link.
    pub(super) is_stale: bool,
    /// Time until which the peer gets no lease, because it did not acknowledge a notice before the
    /// promise ended, and has acknowledged none since.
    pub(super) silent_until: Option<Moment>,
    /// True if caches outside of the peer's process may rely on the lease, so that only time ends
    /// the promise.
    pub(super) outlives_link: bool,
    /// The end of the last promise over an ended link on which caches outside of the peer's process
    /// may rely. A new process of the peer may not know them, so it cannot acknowledge for them.
    pub(super) unlinked_until: Option<Moment>,
    /// The batches of which the peer has notice over this link.
    pub(super) noticed: HashSet<u64>,
}

impl Default for Given {
    fn default() -> Given {
        Given {
            promised_until: None,
            promised_over: None,
            is_stale: true,
            silent_until: None,
            outlives_link: false,
            unlinked_until: None,
            noticed: HashSet::new(),
        }
    }
}

impl Given {
    /// Returns the time until which this session must give notice, if that has not passed.
    pub(super) fn promised_until(&self) -> Option<Moment> {
        self.promised_until.filter(|until| !until.has_passed())
    }

    /// Returns true if no promise runs.
    pub(super) fn is_over(&self) -> bool {
        self.promised_until().is_none()
    }

    /// Returns true if the peer gets no lease now, because each batch would wait for it.
    pub(super) fn is_silent(&self) -> bool {
        self.silent_until.is_some_and(|until| !until.has_passed())
    }

    /// A link begins or ends: from now on the peer knows nothing of this session's batches.
    pub(super) fn forget_link(&mut self) {
        self.is_stale = true;
        self.silent_until = None;
        self.noticed.clear();
        if self.outlives_link && !self.is_over() {
            self.unlinked_until = self.promised_until;
        }
    }
}

/// A batch of this session that is in flight or has an unknown outcome.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) keys: Arc<[Key]>,
    /// The peers that have not acknowledged the notice, each with the end of the promise that ran
    /// when the batch was registered. A later promise was given after a notice of this batch.
    pub(super) waits: HashMap<Nonce, Moment>,
    /// Time before which the batch may not be sent, even if all peers have acknowledged it.
    pub(super) not_before: Option<Moment>,
    /// The slots of its plans with an unknown outcome. Empty if the batch is in flight, or if its
    /// outcome will never be known.
    pub(super) unsettled: HashSet<Key>,
    /// Notified when no peer is left in `waits`.
    pub(super) acknowledged: Arc<Notify>,
}

impl Batch {
    /// Stops waiting for a peer.
    pub(super) fn end_wait(&mut self, peer: Nonce) {
        if self.waits.remove(&peer).is_some() && self.waits.is_empty() {
            self.acknowledged.notify_one();
        }
    }
}

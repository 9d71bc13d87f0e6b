//! Finds the *peers* of this session (the other sessions of the volume), so that [`crate::leases`]
//! knows whose changes it must learn of before it answers reads from the cache.
//!
//! Two rules make sure that no unknown session changes records, without a comparison of clocks:
//!
//! 1. A process that begins a session while another one exists changes nothing for
//!    [`crate::JOIN_PATIENCE`] (1 s) after its session record was committed. Only processes with a
//!    session change cached records.
//! 2. A session extends its authority only to `asked + AUTHORITY_DURATION` (0.5 s), where `asked`
//!    is the time *before* it asked the store. First it asks for the list of sessions. From then on
//!    it asks for the change feed, ten times a second, and the feed reports session records as
//!    well.
//!
//! The invariant is `authority <= join_patience / 2`, checked at compile time. It tolerates clocks
//! of which one runs at most twice as fast as the other.
//!
//! For example, session A is the only one. At 10.0 s it asks the feed, and learns of no new
//! session: it is authoritative until 10.5 s. Session B commits its record at 10.01 s and changes
//! nothing before 11.01 s. A's next answer from the feed reports B, and A ends its authority until
//! it has a lease of B. If A gets no answer, or its process is stopped, its authority ends at 10.5
//! s by itself, before B's first change.

use std::sync::Arc;
use std::time::Duration;

use peering::Peer;
use record::{Nonce, SessionRecord, key, key::space};
use runtime::Moment;
use store::{Entry, Key, MetaStore, Read, StoreError};
use tracing::debug;

use crate::leases::Leases;
use crate::state;

/// Pause after a list of sessions before the next one. A session record changes seldom, and each
/// change ends the authority, so many lists in a row would gain nothing.
const LIST_PAUSE: Duration = Duration::from_millis(100);

/// Finds the other sessions of the volume.
#[derive(Debug)]
pub(crate) struct Peers {
    nonce: Nonce,
    leases: Arc<Leases>,
    /// The time of the next list of sessions; `None` before the first one.
    next_list: Option<Moment>,
}

impl Peers {
    /// Creates the finder of other sessions.
    pub(crate) fn new(nonce: Nonce, leases: &Arc<Leases>) -> Peers {
        Peers { nonce, leases: Arc::clone(leases), next_list: None }
    }

    /// Handles a notification that the record of `key` changed. If it is the record of another
    /// session, ends the authority (the right to answer reads from the cache) and returns true.
    pub(crate) fn notified(&self, key: &Key) -> bool {
        let other = key.space() == space::SESSION && key.suffix() != self.nonce.0;
        if other {
            self.leases.sessions_changed();
        }
        other
    }

    /// Ends the authority, the right to answer reads from the cache, because unknown sessions may
    /// exist or the change feed has a gap.
    pub(crate) fn assume_unknown_peers(&self) {
        self.leases.sessions_changed();
    }

    /// Extends the authority, because the change feed has delivered all changes up to the time
    /// `asked`.
    pub(crate) fn feed_checked(&self, asked: Moment) {
        self.leases.feed_checked(asked);
    }

    /// Lists the sessions, if unknown ones may exist. The position of the change feed was taken
    /// before this, so the feed reports every session that begins after the list.
    pub(crate) async fn check(&mut self, store: &dyn MetaStore) {
        let waits = self.next_list.is_some_and(|at| !at.has_passed());
        if waits || !self.leases.wants_list() {
            return;
        }
        // The time before the question counts: a session may begin while the answer is on its way.
        let asked = Moment::now();
        self.next_list = Some(asked.after(LIST_PAUSE));
        match list(store, self.nonce).await {
            Ok(Some(others)) => {
                debug!(peers = others.len(), "the sessions of the volume are listed");
                self.leases.sessions_listed(asked, others);
            }
            Ok(None) => debug!("this session's record is missing"),
            Err(error) => debug!(%error, "cannot read the sessions"),
        }
    }
}

/// Returns all sessions but `own`, with their addresses; `None` if the record of `own` is missing,
/// there are more sessions than one read returns, or a key names no session.
async fn list(store: &dyn MetaStore, own: Nonce) -> Result<Option<Vec<Peer>>, StoreError> {
    let (start, end) = key::partition(space::SESSION, 0);
    let limit = state::SESSIONS_MAX.min(store.limits().range_records);
    let found = store.read(&[Read::Range { start, end, limit, follow: None }]).await?;
    let sessions = state::entries(found.into_iter().next());
    let own = key::session(own);
    let is_whole = sessions.len() < usize::try_from(limit).unwrap_or(usize::MAX);
    if !is_whole || !sessions.iter().any(|entry| entry.key == own) {
        return Ok(None);
    }
    Ok(sessions.iter().filter(|entry| entry.key != own).map(peer).collect())
}

/// Returns the session of a record. If the record cannot be read, the session has no address, so no
/// lease can be had of it.
fn peer(entry: &Entry) -> Option<Peer> {
    let nonce = state::session_in_key(&entry.key)?;
    Some(match SessionRecord::decode(&entry.key, &entry.value) {
        Ok(SessionRecord { reach, socket_secret, .. }) => Peer { nonce, reach, socket_secret },
        Err(_) => Peer::without_addresses(nonce),
    })
}

/// Waits, after the record of session `own` was committed, until every other session has stopped
/// answering reads from its cache. Returns at once if there is no other session. Fails if the store
/// cannot be read.
pub(crate) async fn join(
    store: &dyn MetaStore,
    own: Nonce,
    patience: Duration,
) -> Result<(), StoreError> {
    let is_alone = list(store, own).await?.is_some_and(|others| others.is_empty());
    if !is_alone {
        tokio::time::sleep(patience).await;
    }
    Ok(())
}

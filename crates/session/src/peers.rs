//! Detects if this session has *peers* (other sessions of the volume), and until when it may act as
//! the only one.
//!
//! While a session has no peers it is *authoritative*: it may answer from its cache, because every
//! change is its own. Authority is a lease in time. Two rules make it safe, without a comparison of
//! clocks:
//!
//! 1. A process that begins a session while another one exists changes nothing for
//!    [`crate::JOIN_PATIENCE`] (1 s) after its session record was committed. Only processes with a session
//!    change cached records.
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
//! nothing before 11.01 s. A's next answer from the feed reports B, and A ends its authority. If A
//! gets no answer, or its process is stopped, its authority ends at 10.5 s by itself, before B's
//! first change.

use std::sync::Arc;
use std::time::Duration;

use record::{Nonce, key, key::space};
use runtime::Moment;
use store::{Key, MetaStore, Read, StoreError};
use tracing::debug;

use crate::records::RecordCache;
use crate::state;
use crate::times::AUTHORITY_DURATION;

/// Interval at which a session that has peers (other sessions of the volume) checks if it still has
/// some.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Detects peers (other sessions of the volume). Starts and ends the authority of the record cache:
/// its right to answer reads without the store.
#[derive(Debug)]
pub(crate) struct Peers {
    nonce: Nonce,
    records: Arc<RecordCache>,
    /// True if a list of the sessions has shown no other one, and the change feed has reported none
    /// since.
    is_sole: bool,
    /// The time of the next list of sessions; `None` before the first one.
    next_check: Option<Moment>,
}

impl Peers {
    /// Creates the detector of other sessions. It assumes that there are some until it has listed
    /// the sessions.
    pub(crate) fn new(nonce: Nonce, records: &Arc<RecordCache>) -> Peers {
        Peers { nonce, records: Arc::clone(records), is_sole: false, next_check: None }
    }

    /// Handles a notification that the record of `key` changed. If it is the record of another
    /// session, ends the authority (the right to answer reads from the cache) and returns true.
    pub(crate) fn notified(&mut self, key: &Key) -> bool {
        let other = key.space() == space::SESSION && key.suffix() != self.nonce.0;
        if other {
            self.assume_peers();
        }
        other
    }

    /// Ends the authority, the right to answer reads from the cache, because other sessions may
    /// exist or the change feed has a gap.
    pub(crate) fn assume_peers(&mut self) {
        if self.is_sole {
            debug!("this session may have peers");
        }
        self.is_sole = false;
        self.records.end_authority();
    }

    /// Extends the authority, the right to answer reads from the cache, because the change feed has
    /// delivered all changes up to the time `asked`. Does nothing while other sessions are assumed.
    pub(crate) fn feed_checked(&self, asked: Moment) {
        if self.is_sole {
            self.records.extend_authority(asked.after(AUTHORITY_DURATION));
        }
    }

    /// Lists the sessions, if other sessions are assumed and [`CHECK_INTERVAL`] has passed. If
    /// there are none, the authority can begin. The position of the change feed was taken before
    /// this, so the feed reports every session that begins after the list.
    pub(crate) async fn check(&mut self, store: &dyn MetaStore) {
        let waits = self.next_check.is_some_and(|at| !at.has_passed());
        if self.is_sole || waits || !self.records.is_authoritative() {
            return;
        }
        // The time before the question counts: a session may begin while the answer is on its way.
        let asked = Moment::now();
        self.next_check = Some(asked.after(CHECK_INTERVAL));
        match has_others(store, self.nonce).await {
            Ok(false) => {
                debug!("this session is the only one of its volume");
                self.is_sole = true;
                self.feed_checked(asked);
            }
            Ok(true) => {}
            Err(error) => debug!(%error, "cannot read the sessions"),
        }
    }
}

/// Returns true if a session other than `own` exists, or the record of `own` is missing.
async fn has_others(store: &dyn MetaStore, own: Nonce) -> Result<bool, StoreError> {
    let (start, end) = key::partition(space::SESSION, 0);
    let found = store.read(&[Read::Range { start, end, limit: 2, follow: None }]).await?;
    let sessions = state::entries(found.into_iter().next());
    Ok(!matches!(&sessions[..], [only] if only.key == key::session(own)))
}

/// Waits, after the record of session `own` was committed, until every other session has stopped
/// answering reads from its cache. Returns at once if there is no other session. Fails if the store
/// cannot be read.
pub(crate) async fn join(
    store: &dyn MetaStore,
    own: Nonce,
    patience: Duration,
) -> Result<(), StoreError> {
    if has_others(store, own).await? {
        tokio::time::sleep(patience).await;
    }
    Ok(())
}

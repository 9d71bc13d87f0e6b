//! Whether this session has peers, and until when it may rely on having none.
//!
//! Two rules make it certain, and no clocks are compared for them:
//!
//! - Whoever begins a session where there is another one changes nothing for [`JOIN_PATIENCE`]
//!   after its record is committed. Whoever changes what is remembered has a session.
//! - A session relies on being the only one for [`AUTHORITY_DURATION`] at a time, counted from before it
//!   asked the store. First it asks which sessions there are; from then on it asks what changed, which
//!   it does ten times a second anyway, and the store tells of a session's record as of any other.
//!
//! So a session whose last answer named no newcomer had asked before the newcomer's record was
//! acknowledged, and its reliance has run out when the newcomer changes something. If the store does
//! not answer in time, or this process does not run, reliance ends by itself. All that is asked of the
//! machines is that a second on one of them is not as long as two on another.

use std::sync::Arc;
use std::time::Duration;

use record::{Nonce, Timestamp, key, key::space};
use runtime::Moment;
use store::{Guard, Key, MetaStore, Plan, Read, StoreError, Write};
use tracing::debug;

use crate::error::VolumeError;
use crate::records::RecordCache;
use crate::state;

/// For how long a session relies on an answer that named no peers.
pub const AUTHORITY_DURATION: Duration = Duration::from_millis(500);

/// How long whoever begins a session waits before its first change if there are others: twice as
/// long as they rely on having no peers.
pub const JOIN_PATIENCE: Duration = Duration::from_secs(1);

const _: () = assert!(JOIN_PATIENCE.as_millis() >= 2 * AUTHORITY_DURATION.as_millis());

/// How often a session that has peers looks whether it still has.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Finds out whether a session has peers, and tells its memory of records.
#[derive(Debug)]
pub(crate) struct Peers {
    nonce: Nonce,
    records: Arc<RecordCache>,
    /// Whether there was no other session once, and none has been seen or notified of since.
    is_sole: bool,
    /// When it is worth looking again.
    next_check: Option<Moment>,
}

impl Peers {
    /// Begins in doubt.
    pub(crate) fn new(nonce: Nonce, records: &Arc<RecordCache>) -> Peers {
        Peers { nonce, records: Arc::clone(records), is_sole: false, next_check: None }
    }

    /// Takes a notification that a record changed. Answers whether it is another session's record.
    pub(crate) fn notified(&mut self, key: &Key) -> bool {
        let other = key.space() == space::SESSION && key.suffix() != self.nonce.0;
        if other {
            self.assume_peers();
        }
        other
    }

    /// Anything may have changed since the last time.
    pub(crate) fn assume_peers(&mut self) {
        if self.is_sole {
            debug!("this session may have peers");
        }
        self.is_sole = false;
        self.records.end_authority();
    }

    /// Notifications have come of all that changed until `asked`, and maybe of more.
    pub(crate) fn feed_checked(&self, asked: Moment) {
        if self.is_sole {
            self.records.extend_authority(asked.after(AUTHORITY_DURATION));
        }
    }

    /// Looks for other sessions, now and then, while there may be some. The feed stands at a
    /// position taken before, so it notifies of every change after this.
    pub(crate) async fn check(&mut self, store: &dyn MetaStore) {
        let waits = self.next_check.is_some_and(|at| !at.has_come());
        if self.is_sole || waits || !self.records.is_authoritative() {
            return;
        }
        let asked = Moment::now();
        self.next_check = Some(asked.after(CHECK_INTERVAL));
        match has_others(store, self.nonce).await {
            Ok(false) => {
                debug!("this session is the only one of its volume");
                self.is_sole = true;
                self.feed_checked(asked);
            }
            Ok(true) => {}
            Err(error) => debug!(%error, "the sessions could not be read"),
        }
    }
}

/// Whether there is another session, or this one has none.
async fn has_others(store: &dyn MetaStore, own: Nonce) -> Result<bool, StoreError> {
    let (start, end) = key::partition(space::SESSION, 0);
    let found = store.read(&[Read::Range { start, end, limit: 2, follow: None }]).await?;
    let sessions = state::entries(found.into_iter().next());
    Ok(!matches!(&sessions[..], [only] if only.key == key::session(own)))
}

/// Waits, after a session's record was committed, until no other session relies on having no peers.
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

/// A session for a few changes beside gateways, without a heartbeat.
#[derive(Debug)]
pub struct ShortSession {
    nonce: Nonce,
}

/// Begins a session for a change that is over in less than [`crate::SESSION_SILENCE`], and waits for
/// [`JOIN_PATIENCE`] if there are others.
///
/// # Errors
/// If the store cannot be read or written.
pub async fn begin_short_session(
    store: &dyn MetaStore,
    place: &str,
    now: Timestamp,
) -> Result<ShortSession, VolumeError> {
    let (nonce, ..) = state::begin(store, place, now).await?;
    join(store, nonce, JOIN_PATIENCE).await?;
    Ok(ShortSession { nonce })
}

impl ShortSession {
    /// What every plan of the session has to guard: none of them commits once it has ended.
    pub fn guard(&self) -> Guard {
        Guard::Present(key::session(self.nonce))
    }

    /// Ends the session. If that fails now, a gateway ends it later.
    pub async fn end(self, store: &dyn MetaStore) {
        let (session, beat) = (key::session(self.nonce), key::heartbeat(self.nonce));
        let plan =
            Plan { guards: Vec::new(), writes: vec![Write::Delete(session), Write::Delete(beat)] };
        if let Err(error) = store.commit(&[plan]).await {
            debug!(%error, "a short session could not be ended");
        }
    }
}

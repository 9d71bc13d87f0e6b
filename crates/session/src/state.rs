//! The state of a session: its records in the store, and its end.
//!
//! Every plan guards that the session's record is present. So no plan of a session commits after
//! another process has ended the session, however late the plan arrives. The heartbeat is a record
//! with a counter and the *passed epoch*: no reader of this session is in an older epoch. Each beat
//! guards the value of the beat before it.
//!
//! - If another session ended this one, the next beat is refused, because the session's record is
//!   gone.
//! - If the store lost its last commits, the next beat is refused, because the beat before it is
//!   not there.
//! - If the store lost only commits after the last beat, the next beat is refused too: after a gap
//!   in the change feed, or a failure to read it, the beat also guards the idempotency slots that
//!   carry no plan.
//!
//! In each case the session becomes *fenced* and stops acknowledging.
//!
//! ```text
//! begun -> live -> closed    its own process deletes the records
//!          live -> resumed   the next process takes the heartbeat over
//!          live -> fenced    another session ends it after `session_silence` without a beat,
//!                            or the store has lost its records
//! ```

mod heartbeat;
mod mark;
mod observe;
mod resume;
mod start;

use std::sync::atomic::{AtomicBool, Ordering};

use record::{Nonce, key};
use store::{Guard, Key, Value};
use tokio_util::sync::CancellationToken;
use tracing::error;

pub use heartbeat::other_sessions;
pub(crate) use heartbeat::{Heartbeat, end, end_at_once};
pub use mark::is_mark;
pub use observe::{ObservedSession, nonce as session_in_key};
pub(crate) use observe::{SESSIONS_MAX, fence};
pub(crate) use resume::{Resumed, note_facts, note_session, resume};
pub(crate) use start::{OpenSettings, Started, begin, existing_volume, find_volume, start};
pub use start::{check_block_owner, check_volume_format};

/// The state of this process's session: its name, and if it has ended or was fenced (ended from
/// outside).
#[derive(Debug)]
pub(crate) struct SessionState {
    pub nonce: Nonce,
    fenced: AtomicBool,
    /// True if the volume had other sessions when this one last read them.
    has_peers: AtomicBool,
    /// True if the store may have lost commits since a beat has last guarded the slots.
    may_have_lost: AtomicBool,
    /// Cancelled when the session has ended: closed, handed over or fenced.
    pub ended: CancellationToken,
}

impl SessionState {
    pub(crate) fn new(nonce: Nonce) -> SessionState {
        let [fenced, has_peers, may_have_lost] = [false; 3].map(AtomicBool::new);
        SessionState { nonce, fenced, has_peers, may_have_lost, ended: CancellationToken::new() }
    }

    pub(crate) fn key(&self) -> Key {
        key::session(self.nonce)
    }

    /// Returns the guard that this session still exists. Every plan of the session carries it.
    pub(crate) fn guard(&self) -> Guard {
        Guard::Present(self.key())
    }

    /// Marks this session as fenced, that is, ended from outside: nothing is acknowledged any more.
    /// `how` is the reason, for the log.
    pub(crate) fn fence(&self, how: &str) {
        if !self.fenced.swap(true, Ordering::SeqCst) {
            error!(session = %self.nonce, how, "this session has ended; nothing is served any more");
        }
        self.ended.cancel();
    }

    /// Records if the volume has other sessions, as this one has just read them.
    pub(crate) fn note_peers(&self, has_peers: bool) {
        self.has_peers.store(has_peers, Ordering::Relaxed);
    }

    /// Returns true if the volume had other sessions when this one last read them, which may be one
    /// heartbeat interval ago.
    pub(crate) fn has_peers(&self) -> bool {
        self.has_peers.load(Ordering::Relaxed)
    }

    /// Notices that the store may have lost commits of this session, for example in a failover.
    pub(crate) fn suspect_loss(&self) {
        self.may_have_lost.store(true, Ordering::SeqCst);
    }

    /// Returns true if the store may have lost commits, and forgets it.
    fn take_suspicion(&self) -> bool {
        self.may_have_lost.swap(false, Ordering::SeqCst)
    }

    pub(crate) fn is_fenced(&self) -> bool {
        self.fenced.load(Ordering::SeqCst)
    }
}

/// Returns the value of the record that a read has found; `None` if it has found no record.
pub fn value(found: Option<&store::ReadResult>) -> Option<Value> {
    match found {
        Some(store::ReadResult::Record(Some(entry))) => Some(entry.value.clone()),
        _ => None,
    }
}

/// Returns the number of the counter that a read has found; 0 if the read returned something else.
pub fn counter(found: Option<&store::ReadResult>) -> i64 {
    match found {
        Some(store::ReadResult::Counter(number)) => *number,
        _ => 0,
    }
}

/// Returns the entries of the range that a read has found; none if the read returned something
/// else.
pub fn entries(found: Option<store::ReadResult>) -> Vec<store::Entry> {
    match found {
        Some(store::ReadResult::Range(entries)) => entries,
        _ => Vec::new(),
    }
}

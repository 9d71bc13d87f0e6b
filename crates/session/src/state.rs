//! One run of this process against the volume: its name, and whether it still counts.
//!
//! Every plan guards the session's record, so that nothing of a session commits once somebody has
//! ended it, however late it arrives. The heartbeat shows others that the session lives, and how
//! far its readers have let go; it is guarded by its own last value, so a session that was ended,
//! or whose store forgot something, learns it from its next beat and stops acknowledging.

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
pub(crate) use heartbeat::{Heartbeat, end};
pub(crate) use observe::fence;
pub use observe::{ObservedSession, nonce as session_in_key};
pub(crate) use resume::{Resumed, note_session, resume};
pub(crate) use start::{OpenSettings, begin, find_volume, start};
pub use start::{check_block_owner, check_volume_format};

/// This process's session.
#[derive(Debug)]
pub(crate) struct SessionState {
    pub nonce: Nonce,
    fenced: AtomicBool,
    /// Whether the volume had other sessions when this one looked last.
    has_peers: AtomicBool,
    /// Cancelled when the session has ended, by itself or from outside.
    pub ended: CancellationToken,
}

impl SessionState {
    pub(crate) fn new(nonce: Nonce) -> SessionState {
        let [fenced, has_peers] = [false; 2].map(AtomicBool::new);
        SessionState { nonce, fenced, has_peers, ended: CancellationToken::new() }
    }

    pub(crate) fn key(&self) -> Key {
        key::session(self.nonce)
    }

    /// The guard that the session still counts.
    pub(crate) fn guard(&self) -> Guard {
        Guard::Present(self.key())
    }

    /// Takes note that the session was ended from outside: nothing is acknowledged any more.
    pub(crate) fn fence(&self, how: &str) {
        if !self.fenced.swap(true, Ordering::SeqCst) {
            error!(session = %self.nonce, how, "this session has ended; nothing is served any more");
        }
        self.ended.cancel();
    }

    /// Takes note of whether the volume has other sessions.
    pub(crate) fn note_peers(&self, has_peers: bool) {
        self.has_peers.store(has_peers, Ordering::Relaxed);
    }

    /// Whether the volume had other sessions when this one looked last. That may be a heartbeat ago.
    pub(crate) fn has_peers(&self) -> bool {
        self.has_peers.load(Ordering::Relaxed)
    }

    pub(crate) fn is_fenced(&self) -> bool {
        self.fenced.load(Ordering::SeqCst)
    }
}

/// A record's bytes, if the store answered with a record.
pub fn value(found: Option<&store::ReadResult>) -> Option<Value> {
    match found {
        Some(store::ReadResult::Record(Some(entry))) => Some(entry.value.clone()),
        _ => None,
    }
}

/// A counter's number; 0 if the store answered with something else.
pub fn counter(found: Option<&store::ReadResult>) -> i64 {
    match found {
        Some(store::ReadResult::Counter(number)) => *number,
        _ => 0,
    }
}

/// A record's bytes under its key, as read in a range.
pub fn entries(found: Option<store::ReadResult>) -> Vec<store::Entry> {
    match found {
        Some(store::ReadResult::Range(entries)) => entries,
        _ => Vec::new(),
    }
}

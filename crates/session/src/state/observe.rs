//! Watching the other sessions, and ending those that fell silent.
//!
//! No clocks are compared. A session is silent when its beat has not changed for a while of this
//! process's own time; the plan that ends it holds only if it still has not. A wrong end costs
//! that session a restart, and no data.

use std::collections::HashMap;
use std::time::Duration;

use record::{HeartbeatRecord, Mark, Nonce, key};
use store::{Guard, Key, MetaStore, Plan, StoreError, Value, Verdict, Write};
use tokio::time::Instant;
use tracing::warn;

/// Sessions that one look takes in. A volume has a gateway or mount on each of some machines.
pub(crate) const SESSIONS_MAX: u32 = 4_096;

/// A session as seen in one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedSession {
    /// Its name.
    pub nonce: Nonce,
    /// Its heartbeat's bytes.
    pub beat: Option<Value>,
}

impl ObservedSession {
    /// The sessions among the records of sessions and of beats.
    pub fn all(sessions: &[store::Entry], beats: &[store::Entry]) -> Vec<ObservedSession> {
        let beats: HashMap<Nonce, &Value> =
            beats.iter().filter_map(|entry| Some((nonce(&entry.key)?, &entry.value))).collect();
        let seen = |entry: &store::Entry| {
            let nonce = nonce(&entry.key)?;
            Some(ObservedSession { nonce, beat: beats.get(&nonce).map(|value| (*value).clone()) })
        };
        sessions.iter().filter_map(seen).collect()
    }

    /// How far the session's readers have let go; 0 when its beat does not say.
    pub fn passed(&self) -> u64 {
        let at = key::heartbeat(self.nonce);
        let beat = self.beat.as_ref().and_then(|value| HeartbeatRecord::decode(&at, value).ok());
        beat.map_or(0, |beat| beat.passed)
    }
}

/// The session that a key of sessions, beats or fences names.
pub fn nonce(key: &Key) -> Option<Nonce> {
    key.suffix().try_into().ok().map(Nonce)
}

/// The other sessions, and since when each has been silent.
#[derive(Debug, Default)]
pub(crate) struct SilenceTracker {
    silent: HashMap<Nonce, (Option<Value>, Instant)>,
    /// When they were last seen.
    observed_at: Option<Instant>,
}

/// The share of the silence that may pass between two looks. Whoever did not look for longer,
/// because the store was away or this process was stopped, has no right to call others silent.
const OBSERVATION_GAP_SHARE: u32 = 4;

impl SilenceTracker {
    /// Takes note of the sessions as they are now, and answers those that have been silent for
    /// `silence`. Time in which nobody observed_at does not count.
    pub(crate) fn observe(
        &mut self,
        own: Nonce,
        seen: Vec<ObservedSession>,
        now: Instant,
        silence: Duration,
    ) -> Vec<ObservedSession> {
        let since_last =
            self.observed_at.map_or(Duration::ZERO, |observed_at| now.duration_since(observed_at));
        let unobserved = since_last.saturating_sub(silence / OBSERVATION_GAP_SHARE);
        self.observed_at = Some(now);
        let mut silent = HashMap::with_capacity(seen.len());
        let mut ended = Vec::new();
        for session in seen.into_iter().filter(|session| session.nonce != own) {
            let since = match self.silent.get(&session.nonce) {
                Some((beat, since)) if *beat == session.beat => *since + unobserved,
                _ => now,
            };
            silent.insert(session.nonce, (session.beat.clone(), since));
            if now.duration_since(since) >= silence {
                ended.push(session);
            }
        }
        self.silent = silent;
        ended
    }
}

/// Ends a session as it was seen. Answers whether it is ended now; a beat in between saves it.
pub(crate) async fn fence(
    store: &dyn MetaStore,
    own: &super::SessionState,
    seen: &ObservedSession,
) -> Result<bool, StoreError> {
    let (session, beat) = (key::session(seen.nonce), key::heartbeat(seen.nonce));
    let fenced = key::fenced(seen.nonce);
    let beat_unchanged = match &seen.beat {
        Some(value) => Guard::Equals(beat.clone(), value.clone()),
        None => Guard::Absent(beat.clone()),
    };
    let plan = Plan {
        guards: vec![own.guard(), beat_unchanged, Guard::Present(session.clone())],
        writes: vec![
            Write::Delete(session),
            Write::Delete(beat),
            Write::Put(fenced.clone(), Mark.encode(&fenced)),
        ],
    };
    // Sent twice it refuses itself; the next look shows what became of it.
    let verdicts = store.commit(&[plan]).await?;
    let ended = matches!(verdicts.first(), Some(Verdict::Committed));
    if ended {
        warn!(session = %seen.nonce, "a silent session was ended");
    }
    Ok(ended)
}

#[cfg(test)]
mod tests;

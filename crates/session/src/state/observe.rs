//! Observes the other sessions, and ends those that fell silent.
//!
//! No clocks are compared. A session is silent if its heartbeat record has not changed for some
//! time on this process's own clock. The plan that ends it guards the heartbeat record as it was
//! seen. For example, a gateway was stopped for 40 s and beats again just before the plan commits:
//! the guard fails, and its session goes on. A session that is ended wrongly must restart; it loses
//! no data.

use std::collections::HashMap;
use std::time::Duration;

use record::{HeartbeatRecord, Mark, Nonce, key};
use store::{Guard, Key, MetaStore, Plan, StoreError, Value, Verdict, Write};
use tokio::time::Instant;
use tracing::warn;

/// Most sessions that one observation reads. Each gateway and each mount of the volume has one
/// session.
pub(crate) const SESSIONS_MAX: u32 = 4_096;

/// A session and its heartbeat (its sign of life) as they were read in one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedSession {
    /// The name of the session.
    pub nonce: Nonce,
    /// The value of the session's heartbeat record; `None` if it has none.
    pub beat: Option<Value>,
}

impl ObservedSession {
    /// Returns the sessions of these session records and heartbeat records.
    pub fn all(sessions: &[store::Entry], beats: &[store::Entry]) -> Vec<ObservedSession> {
        let beats: HashMap<Nonce, &Value> =
            beats.iter().filter_map(|entry| Some((nonce(&entry.key)?, &entry.value))).collect();
        let seen = |entry: &store::Entry| {
            let nonce = nonce(&entry.key)?;
            Some(ObservedSession { nonce, beat: beats.get(&nonce).map(|value| (*value).clone()) })
        };
        sessions.iter().filter_map(seen).collect()
    }

    /// Returns the passed epoch in the session's heartbeat: no reader of the session pins an older
    /// one. 0 if there is no valid heartbeat.
    pub fn passed(&self) -> u64 {
        let at = key::heartbeat(self.nonce);
        let beat = self.beat.as_ref().and_then(|value| HeartbeatRecord::decode(&at, value).ok());
        beat.map_or(0, |beat| beat.passed)
    }
}

/// Returns the session in a key of a session, heartbeat or fence record; `None` if the key has
/// another form.
pub fn nonce(key: &Key) -> Option<Nonce> {
    key.suffix().try_into().ok().map(Nonce)
}

/// Tracks since when each other session has been silent, that is, its heartbeat record has not
/// changed.
#[derive(Debug, Default)]
pub(crate) struct SilenceTracker {
    silent: HashMap<Nonce, (Option<Value>, Instant)>,
    /// The time at which the sessions were last read.
    observed_at: Option<Instant>,
}

/// The part of the silence limit that may pass between two observations, as a divisor. A longer gap
/// means that the store was away or this process was stopped, so the time does not count as silence
/// of the others.
const OBSERVATION_GAP_SHARE: u32 = 4;

impl SilenceTracker {
    /// Takes an observation of all sessions. Returns those that have been silent for `silence`.
    /// Time between observations beyond the allowed gap does not count.
    pub(crate) fn observe(
        &mut self,
        own: Nonce,
        seen: Vec<ObservedSession>,
        now: Instant,
        silence: Duration,
    ) -> Vec<ObservedSession> {
        let since_last =
            self.observed_at.map_or(Duration::ZERO, |observed_at| now.duration_since(observed_at));
        // The time since the last observation counts as silence only up to the allowed gap.
        let unobserved = since_last.saturating_sub(silence / OBSERVATION_GAP_SHARE);
        self.observed_at = Some(now);
        let mut silent = HashMap::with_capacity(seen.len());
        let mut ended = Vec::new();
        for session in seen.into_iter().filter(|session| session.nonce != own) {
            // A changed beat starts the time again. For an unchanged one the start moves forward by
            // the unobserved time.
            let since = match self.silent.get(&session.nonce) {
                Some((beat, since)) if *beat == session.beat => *since + unobserved,
                _ => now,
            };
            silent.insert(session.nonce, (session.beat.clone(), since));
            if now.duration_since(since) >= silence {
                ended.push(session);
            }
        }
        // Replaces the map, so that sessions which have ended are forgotten.
        self.silent = silent;
        ended
    }
}

/// Ends the session `seen` if its heartbeat record is still as it was seen. Returns true if this
/// call has ended it, and false if the plan was refused.
pub(crate) async fn fence(
    store: &dyn MetaStore,
    own: &super::SessionState,
    seen: &ObservedSession,
) -> Result<bool, StoreError> {
    let (session, beat) = (key::session(seen.nonce), key::heartbeat(seen.nonce));
    let fenced = key::fenced(seen.nonce);
    // The beat as it was seen is the guard, so a session that shows life in between survives.
    let beat_unchanged = match &seen.beat {
        Some(value) => Guard::Equals(beat.clone(), value.clone()),
        None => Guard::Absent(beat.clone()),
    };
    // By the fence record the sweeper knows that the session's leftovers may be deleted. It also
    // keeps the name from being used again.
    let plan = Plan {
        guards: vec![own.guard(), beat_unchanged, Guard::Present(session.clone())],
        writes: vec![
            Write::Delete(session),
            Write::Delete(beat),
            Write::Put(fenced.clone(), Mark.encode(&fenced)),
        ],
    };
    // If the plan is sent twice, the second one is refused. The next observation shows the result.
    let verdicts = store.commit(&[plan]).await?;
    let ended = matches!(verdicts.first(), Some(Verdict::Committed));
    if ended {
        warn!(session = %seen.nonce, "a silent session was ended");
    }
    Ok(ended)
}

#[cfg(test)]
mod tests;

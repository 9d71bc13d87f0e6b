//! The heartbeat.

use std::sync::Arc;
use std::time::Duration;

use record::{HeartbeatRecord, Sequence, key, key::space};
use store::{Guard, MetaStore, Plan, Read, StoreErrorKind, Value, Verdict, Write};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::observe::{SESSIONS_MAX, SilenceTracker};
use super::{ObservedSession, SessionState, entries, fence, value};
use crate::epoch::Epochs;

/// The shortest pause between two beats, when readers let go or the reaper asks.
const BEAT_PAUSE: Duration = Duration::from_millis(20);

/// What a session's heartbeat needs.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    store: Arc<dyn MetaStore>,
    state: Arc<SessionState>,
    epochs: Arc<Epochs>,
    interval: Duration,
    silence: Duration,
    /// The last beat that certainly stands.
    beat: (HeartbeatRecord, Value),
    /// Beats that may have followed it.
    unconfirmed: Vec<(HeartbeatRecord, Value)>,
    silence_tracker: SilenceTracker,
    /// Notified when another session was ended: it may have left something.
    pub(crate) session_ended: Arc<tokio::sync::Notify>,
}

/// Beats in doubt that are remembered: one for each failed try, so the store has been failing for
/// long when there are more.
const UNCONFIRMED_MAX: usize = 64;

impl Heartbeat {
    /// Beats at an interval from the beat that the session began with, and ends others that were silent
    /// for `silence`.
    pub(crate) fn new(
        store: &Arc<dyn MetaStore>,
        state: &Arc<SessionState>,
        epochs: &Arc<Epochs>,
        interval: Duration,
        silence: Duration,
        beat: (HeartbeatRecord, Value),
    ) -> Heartbeat {
        Heartbeat {
            store: Arc::clone(store),
            state: Arc::clone(state),
            epochs: Arc::clone(epochs),
            interval,
            silence,
            beat,
            unconfirmed: Vec::new(),
            silence_tracker: SilenceTracker::default(),
            session_ended: Arc::default(),
        }
    }

    /// Beats until the session has ended or is closed.
    pub(crate) async fn run(mut self, closed: tokio_util::sync::CancellationToken) -> Heartbeat {
        let mut next = Instant::now() + self.interval;
        let epochs = Arc::clone(&self.epochs);
        loop {
            tokio::select! {
                () = closed.cancelled() => return self,
                () = self.state.ended.cancelled() => return self,
                () = tokio::time::sleep_until(next) => {}
                () = epochs.passed_changed.notified() => {
                    // Many readers end at once; one beat tells of them all.
                    tokio::time::sleep(BEAT_PAUSE).await;
                }
            }
            self.observe_sessions().await;
            self.beat().await;
            next = Instant::now() + self.interval;
        }
    }

    /// Reads the epoch and the other sessions, and ends those that fell silent.
    async fn observe_sessions(&mut self) {
        let (sessions, sessions_end) = key::partition(space::SESSION, 0);
        let (beats, beats_end) = key::partition(space::HEARTBEAT, 0);
        let limit = SESSIONS_MAX.min(self.store.limits().range_records);
        let range = |start, end| Read::Range { start, end, limit, follow: None };
        let epoch_key = key::epoch();
        let reads = [
            Read::Record { key: epoch_key.clone(), follow: None },
            range(sessions, sessions_end),
            range(beats, beats_end),
        ];
        let found = match self.store.read(&reads).await {
            Ok(found) => found,
            Err(error) => {
                debug!(%error, "the sessions could not be read");
                return;
            }
        };
        let mut found = found.into_iter();
        let epoch = value(found.next().as_ref());
        if let Some(Ok(Sequence(epoch))) = epoch.map(|value| Sequence::decode(&epoch_key, &value)) {
            self.epochs.observe(epoch);
        }
        let seen = ObservedSession::all(&entries(found.next()), &entries(found.next()));
        let own = self.state.nonce;
        self.state.note_peers(seen.iter().any(|session| session.nonce != own));
        let silent = self.silence_tracker.observe(own, seen, Instant::now(), self.silence);
        for session in silent {
            match fence(&*self.store, &self.state, &session).await {
                Ok(true) => self.session_ended.notify_one(),
                Ok(false) => {}
                Err(error) => {
                    warn!(session = %session.nonce, %error, "a silent session could not be ended");
                }
            }
        }
    }

    /// Shows that the session lives, and how far its readers have let go.
    async fn beat(&mut self) {
        let key = key::heartbeat(self.state.nonce);
        let count = self.unconfirmed.last().map_or(self.beat.0.count, |(beat, _)| beat.count) + 1;
        let beat = HeartbeatRecord { count, passed: self.epochs.passed() };
        let value = beat.encode(&key);
        let plan = Plan {
            guards: vec![self.state.guard(), Guard::Equals(key.clone(), self.beat.1.clone())],
            writes: vec![Write::Put(key, value.clone())],
        };
        match self.store.commit(&[plan]).await.map(|verdicts| verdicts.into_iter().next()) {
            Ok(Some(Verdict::Committed)) => {
                self.beat = (beat, value);
                self.unconfirmed.clear();
            }
            Ok(Some(Verdict::Refused { guard: 1, found })) => {
                // An earlier beat arrived after all: it is ours, and the next one follows it.
                let arrived = |(_, sent): &(HeartbeatRecord, Value)| found.as_ref() == Some(sent);
                match self.unconfirmed.iter().position(arrived) {
                    Some(index) => {
                        self.beat = self.unconfirmed.swap_remove(index);
                        self.unconfirmed.clear();
                    }
                    None => self.state.fence("the heartbeat is not the one that was written"),
                }
            }
            Ok(_) => self.state.fence("the session's record is gone"),
            Err(error) => {
                if error.kind() == StoreErrorKind::Unknown
                    && self.unconfirmed.len() < UNCONFIRMED_MAX
                {
                    self.unconfirmed.push((beat, value));
                }
                warn!(%error, "a heartbeat failed");
            }
        }
    }
}

impl Heartbeat {
    /// Ends every other session, when this process is the only one that uses the store.
    pub(crate) async fn end_others(&self) -> Result<(), crate::error::VolumeError> {
        for seen in other_sessions(&*self.store, self.state.nonce).await? {
            fence(&*self.store, &self.state, &seen).await?;
        }
        Ok(())
    }
}

/// The live sessions besides this one.
pub async fn other_sessions(
    store: &dyn MetaStore,
    own: record::Nonce,
) -> Result<Vec<ObservedSession>, store::StoreError> {
    let (sessions, sessions_end) = key::partition(space::SESSION, 0);
    let (beats, beats_end) = key::partition(space::HEARTBEAT, 0);
    let limit = SESSIONS_MAX.min(store.limits().range_records);
    let range = |start, end| Read::Range { start, end, limit, follow: None };
    let found = store.read(&[range(sessions, sessions_end), range(beats, beats_end)]).await?;
    let mut found = found.into_iter();
    let mut seen = ObservedSession::all(&entries(found.next()), &entries(found.next()));
    seen.retain(|session| session.nonce != own);
    Ok(seen)
}

/// Ends this session in good order: its record, its beat, and the slots that nothing can be in
/// any more once the record is gone.
pub(crate) async fn end(
    store: &dyn MetaStore,
    session: &SessionState,
    slots: &crate::slots::IdempotencySlots,
) -> Result<(), store::StoreError> {
    let plan = Plan {
        guards: vec![session.guard()],
        writes: vec![Write::Delete(session.key()), Write::Delete(key::heartbeat(session.nonce))],
    };
    store.commit(&[plan]).await?;
    let per_plan = store.limits().plan_items.max(1);
    for keys in slots.keys().chunks(per_plan) {
        let writes = keys.iter().cloned().map(Write::Delete).collect();
        store.commit(&[Plan { guards: Vec::new(), writes }]).await?;
    }
    Ok(())
}

//! The heartbeat: shows other sessions that this one lives, and ends sessions that fell silent.
//!
//! Each beat increases the counter in the session's heartbeat record and publishes the passed
//! epoch. In the same step the task reads the volume's epoch and the other sessions. For example,
//! if a gateway is killed, its beat stops changing, and after `session_silence` (30 s) another
//! gateway ends its session.

use std::sync::Arc;
use std::time::Duration;

use record::{HeartbeatRecord, Sequence, key, key::space};
use store::{Guard, MetaStore, Plan, Read, StoreErrorKind, Value, Verdict, Write};
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{debug, warn};

use super::observe::{SESSIONS_MAX, SilenceTracker};
use super::start::commit_once;
use super::{ObservedSession, SessionState, entries, fence, value};
use crate::epoch::Epochs;
use crate::leases::Leases;
use crate::slots::{IdempotencySlots, TakenSlot};
use crate::times::{COMMIT_DEADLINE, META_READ_DEADLINE};

/// Pause before an extra beat, which is sent when the passed epoch grows. Readers that end within
/// the pause share the beat.
const BEAT_PAUSE: Duration = Duration::from_millis(20);

/// The task of a session's heartbeat.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    store: Arc<dyn MetaStore>,
    state: Arc<SessionState>,
    slots: Arc<IdempotencySlots>,
    epochs: Arc<Epochs>,
    interval: Duration,
    silence: Duration,
    /// The last beat that is certainly in the store, and its encoded value.
    beat: (HeartbeatRecord, Value),
    leases: Arc<Leases>,
    /// Later beats whose outcome is unknown. One of them may have replaced `beat`.
    unconfirmed: Vec<(HeartbeatRecord, Value)>,
    silence_tracker: SilenceTracker,
    /// Notified when another session was ended. It may have left blocks and records to clean up.
    pub(crate) session_ended: Arc<tokio::sync::Notify>,
}

/// Longest text about reads in a heartbeat, in bytes. A longer one, with the long address of a
/// peer, is cut.
const READS_BYTES_MAX: usize = 240;

/// The reason of fencing if a slot is not as this session wrote it.
const LOST_SLOT: &str = "the store has lost acknowledged commits of this session";

/// Limit of the slots that a beat guards, after the store may have lost commits. The last used ones
/// come first. A loss in any other slot is found by its next plan.
const SLOTS_CHECKED_MAX: usize = 256;

/// Limit of `unconfirmed`. Each failed try adds one, so more than this means that the store has
/// failed for a long time.
const UNCONFIRMED_MAX: usize = 64;

impl Heartbeat {
    /// Creates the heartbeat of a session that began with `beat`. Beats every `interval`, and ends
    /// other sessions after `silence` without a beat.
    pub(crate) fn new(
        store: &Arc<dyn MetaStore>,
        (state, slots): (&Arc<SessionState>, &Arc<IdempotencySlots>),
        epochs: &Arc<Epochs>,
        leases: &Arc<Leases>,
        interval: Duration,
        silence: Duration,
        beat: (HeartbeatRecord, Value),
    ) -> Heartbeat {
        Heartbeat {
            store: Arc::clone(store),
            state: Arc::clone(state),
            slots: Arc::clone(slots),
            epochs: Arc::clone(epochs),
            leases: Arc::clone(leases),
            interval,
            silence,
            beat,
            unconfirmed: Vec::new(),
            silence_tracker: SilenceTracker::default(),
            session_ended: Arc::default(),
        }
    }

    /// Writes heartbeats until the session has ended or is closed.
    pub(crate) async fn run(mut self, closed: tokio_util::sync::CancellationToken) -> Heartbeat {
        let mut next = Instant::now() + self.interval;
        let epochs = Arc::clone(&self.epochs);
        loop {
            tokio::select! {
                () = closed.cancelled() => return self,
                () = self.state.ended.cancelled() => return self,
                () = tokio::time::sleep_until(next) => {}
                () = epochs.passed_changed.notified() => {
                    // Many readers may end at once. One beat publishes the result of them all.
                    tokio::time::sleep(BEAT_PAUSE).await;
                }
            }
            self.observe_sessions().await;
            self.beat().await;
            next = Instant::now() + self.interval;
        }
    }

    /// Reads the volume's epoch and the other sessions, and ends those that fell silent. Takes at
    /// most [`META_READ_DEADLINE`], so that this session's own beat is not late; the next call ends
    /// the other silent sessions.
    async fn observe_sessions(&mut self) {
        let until = Instant::now() + META_READ_DEADLINE;
        // One round trip and one snapshot, so that each session is seen with its own beat.
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
        let found = match timeout_at(until, self.store.read(&reads)).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                debug!(%error, "cannot read the sessions");
                return;
            }
            Err(_late) => {
                debug!("the sessions were not read in time");
                return;
            }
        };
        let mut found = found.into_iter();
        let epoch = value(found.next().as_ref());
        // An unreadable epoch is skipped: an old value delays deletions and permits none.
        if let Some(Ok(Sequence(epoch))) = epoch.map(|value| Sequence::decode(&epoch_key, &value)) {
            self.epochs.observe(epoch);
        }
        let seen = ObservedSession::all(&entries(found.next()), &entries(found.next()));
        let own = self.state.nonce;
        self.state.note_peers(seen.iter().any(|session| session.nonce != own));
        let silent = self.silence_tracker.observe(own, seen, Instant::now(), self.silence);
        // Each session is ended by a plan of its own, because a beat in between refuses only its
        // own plan.
        for session in silent {
            match timeout_at(until, fence(&*self.store, &self.state, &session)).await {
                Ok(Ok(true)) => self.session_ended.notify_one(),
                Ok(Ok(false)) => {}
                Ok(Err(error)) => {
                    warn!(session = %session.nonce, %error, "cannot end a silent session");
                }
                Err(_late) => {
                    // The plan may still be committed, and then no later call sees the session.
                    self.session_ended.notify_one();
                    warn!(session = %session.nonce, "a silent session was not ended in time");
                    break;
                }
            }
        }
    }

    /// Writes the next beat: the counter plus one, and the passed epoch. Fences this session if its
    /// records are not as it wrote them.
    async fn beat(&mut self) {
        let key = key::heartbeat(self.state.nonce);
        let count = self.unconfirmed.last().map_or(self.beat.0.count, |(beat, _)| beat.count) + 1;
        let reads = bounded(self.leases.reads_from().to_string());
        let beat = HeartbeatRecord { count, passed: self.epochs.passed(), reads };
        let value = beat.encode(&key);
        let mut guards = vec![self.state.guard(), Guard::Equals(key.clone(), self.beat.1.clone())];
        let is_suspected = self.state.take_suspicion();
        let limit = if is_suspected { SLOTS_CHECKED_MAX } else { 0 };
        let idle = self.slots.take_idle(limit);
        guards.extend(idle.iter().map(TakenSlot::guard));
        let plans = [Plan { guards, writes: vec![Write::Put(key, value.clone())] }];
        let answer = timeout(COMMIT_DEADLINE, self.store.commit(&plans)).await;
        self.slots.give_back(idle);
        if is_suspected && !matches!(&answer, Ok(Ok(verdicts)) if verdicts == &[Verdict::Committed])
        {
            self.state.suspect_loss();
        }
        let Ok(answer) = answer else {
            self.keep_unconfirmed(beat, value);
            warn!("a heartbeat was not written in time");
            return;
        };
        match answer.map(|verdicts| verdicts.into_iter().next()) {
            Ok(Some(Verdict::Committed)) => {
                self.beat = (beat, value);
                self.unconfirmed.clear();
            }
            Ok(Some(Verdict::Refused { guard: 1, found })) => {
                // An earlier beat of this session was committed although its answer was lost. The
                // next beat follows that one.
                let arrived = |(_, sent): &(HeartbeatRecord, Value)| found.as_ref() == Some(sent);
                match self.unconfirmed.iter().position(arrived) {
                    Some(index) => {
                        self.beat = self.unconfirmed.swap_remove(index);
                        self.unconfirmed.clear();
                    }
                    None => self
                        .state
                        .fence("the store holds another heartbeat than this session wrote"),
                }
            }
            Ok(Some(Verdict::Refused { guard, .. })) if guard > 1 => self.state.fence(LOST_SLOT),
            Ok(_) => self.state.fence("the session's record is gone"),
            Err(error) => {
                if error.kind() == StoreErrorKind::Unknown {
                    self.keep_unconfirmed(beat, value);
                }
                warn!(%error, "a heartbeat failed");
            }
        }
    }

    /// Remembers a beat whose outcome is unknown, because it may be in the store.
    fn keep_unconfirmed(&mut self, beat: HeartbeatRecord, value: Value) {
        if self.unconfirmed.len() < UNCONFIRMED_MAX {
            self.unconfirmed.push((beat, value));
        }
    }
}

/// Cuts a text after [`READS_BYTES_MAX`].
fn bounded(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(READS_BYTES_MAX));
    text
}

impl Heartbeat {
    /// Ends every other session of the volume. For a process that is the only one that uses the
    /// store.
    pub(crate) async fn end_others(&self) -> Result<(), crate::error::VolumeError> {
        for seen in other_sessions(&*self.store, self.state.nonce).await? {
            fence(&*self.store, &self.state, &seen).await?;
        }
        Ok(())
    }
}

/// Returns the other sessions that exist, with their heartbeats.
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

/// Ends this session: deletes its record and its heartbeat, then its idempotency slots. The slots
/// go last, because they prove outcomes as long as the session's plans can commit.
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

/// Ends this session, of which no plan is in flight and no outcome is looked for: deletes its
/// record, its heartbeat and its idempotency slots in one plan. After an answer that was lost the
/// plan is sent again; if it has committed, its guard refuses it.
pub(crate) async fn end_at_once(
    store: &dyn MetaStore,
    session: &SessionState,
    slots: &crate::slots::IdempotencySlots,
) -> Result<(), crate::error::VolumeError> {
    let mut writes =
        vec![Write::Delete(session.key()), Write::Delete(key::heartbeat(session.nonce))];
    writes.extend(slots.keys().into_iter().map(Write::Delete));
    commit_once(store, Plan { guards: vec![session.guard()], writes }).await.map(drop)
}

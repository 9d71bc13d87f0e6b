//! Resuming the session of the previous process of a mount.
//!
//! A mount's keeper starts this process after the previous one has ended, so no other process acts
//! for the session. But plans that the previous process sent may still arrive at the store. So each
//! idempotency slot is advanced by an aborting step, which keeps the slot's plan from committing
//! unless it has committed already. After that the outcome of every plan is certain, and the
//! ledger's journal knows which requests were carried out. The heartbeat is taken over in the same
//! way.
//!
//! The session continues in the passed epoch of its last heartbeat. All files that were open were
//! protected by a pin on that epoch or a later one, or by a hold.
//!
//! For example, a worker is killed while a rename is in flight. The next worker finds slot 2
//! advanced by the rename, and answers the waiting program with success instead of renaming a
//! second time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ledger::{InDoubt, Ledger};
use record::key::{self, space};
use record::{
    HeartbeatRecord, Hold, HoldScope, Ino, Nonce, SessionRecord, SlotRecord, VolumeRecord,
};
use store::{Guard, Key, MetaStore, Plan, Read, StoreErrorKind, Value, Verdict, Write};
use tracing::{info, warn};

use super::start::{Started, commit_once, read_one};
use super::value;
use crate::error::{VolumeError, corrupt};
use crate::options::SessionOptions;
use crate::scan;

/// The most tries of a step of resuming while plans of the previous process still arrive.
const ATTEMPTS_MAX: u32 = 64;

/// Pause between two tries while the store does not answer.
const PAUSE: Duration = Duration::from_millis(100);

/// Idempotency slots that are read or advanced in one round trip.
const SLOTS_AT_ONCE: usize = 64;

const SLOT_GUARD: usize = 1;

/// A session with the state that this process takes over.
#[derive(Debug)]
pub(crate) struct Resumed {
    pub(crate) started: Started,
    /// The records of the session's idempotency slots, which prove if plans were committed, by
    /// number.
    pub(crate) slots: Vec<(SlotRecord, Value)>,
    /// The session's holds: for each file whose blocks a record keeps, the scope and the record.
    pub(crate) holds: HashMap<Ino, (HoldScope, Value)>,
    /// True if the session was begun by a previous process, false if it is new.
    pub(crate) reuses_session: bool,
}

/// Resumes the session that the ledger names. Returns `None` if it names none, or if that session
/// has ended. In both cases the journal then knows the outcome of its requests.
pub(crate) async fn resume(
    store: &dyn MetaStore,
    ledger: &Ledger,
    volume: &VolumeRecord,
) -> Result<Option<Resumed>, VolumeError> {
    let Some(nonce) = ledger.session().map_err(|error| unreadable(&error))? else {
        return Ok(None);
    };
    // The slots are read before the heartbeat is taken over: if the session has ended, they prove
    // the outcomes until the sweeper deletes them.
    let slots = Slots::read(store, ledger, nonce).await?;
    let Some(beat) = take_heartbeat(store, nonce).await? else {
        warn!(session = %nonce, "the session of the previous process has ended: a new one begins");
        return end(ledger, &slots);
    };
    // The session ended between the two steps. The slots are read again, because plans may have
    // advanced them since.
    let Some(slots) = slots.settle(store, ledger).await? else {
        let slots = Slots::read(store, ledger, nonce).await?;
        return end(ledger, &slots);
    };
    // Open files of the previous process may be protected by holds. They are taken over, so that
    // they are removed when the files are closed.
    let mut holds = HashMap::new();
    scan::walk(store, space::HOLD, |key, value| {
        if scan::nonce_of(&key)? == nonce {
            let scope = Hold::decode(&key, &value).map_or(HoldScope::Versions, |hold| hold.scope);
            holds.insert(Ino(key.partition()), (scope, value));
        }
        Ok(())
    })
    .await?;
    let epoch = beat.0.passed;
    info!(session = %nonce, epoch, slots = slots.len(), held = holds.len(), "session resumed");
    let started = Started { volume: volume.clone(), nonce, beat, epoch };
    Ok(Some(Resumed { started, slots, holds, reuses_session: true }))
}

/// Writes the facts about this process into the record of a resumed session, which has those of the
/// previous process.
pub(crate) async fn note_facts(
    store: &dyn MetaStore,
    nonce: Nonce,
    options: &SessionOptions,
) -> Result<(), VolumeError> {
    let at = key::session(nonce);
    let Some(found) = read_one(store, &at).await? else { return Ok(()) };
    let record = SessionRecord::decode(&at, &found).map_err(|error| corrupt(&at, &error))?;
    let (place, facts) = (options.place.clone(), options.facts.clone());
    let record = SessionRecord { place, facts, ..record };
    let plan = Plan {
        guards: vec![Guard::Equals(at.clone(), found)],
        writes: vec![Write::Put(at.clone(), record.encode(&at))],
    };
    // If another session has ended this one meanwhile, the next heartbeat finds out.
    commit_once(store, plan).await.map(drop)
}

/// Writes the outcome of each request in the ledger's journal for a session that has ended. A plan
/// that has not advanced its idempotency slot can never commit.
fn end(ledger: &Ledger, slots: &Slots) -> Result<Option<Resumed>, VolumeError> {
    let happened = |fate: &InDoubt| Some(slots.fate(fate) == Some(true));
    ledger.settle_in_doubt(happened).map_err(|error| unreadable(&error))?;
    Ok(None)
}

fn unreadable(error: &std::io::Error) -> VolumeError {
    VolumeError::Unavailable(format!("the mount's ledger cannot be read or written: {error}"))
}

/// Takes over the heartbeat of session `nonce`, so that the previous process cannot beat any more.
/// Returns the new heartbeat, or `None` if the session has ended.
async fn take_heartbeat(
    store: &dyn MetaStore,
    nonce: Nonce,
) -> Result<Option<(HeartbeatRecord, Value)>, VolumeError> {
    let (session, at) = (key::session(nonce), key::heartbeat(nonce));
    for _ in 0..ATTEMPTS_MAX {
        let Some(current) = read_one(store, &at).await? else { return Ok(None) };
        let last = HeartbeatRecord::decode(&at, &current).map_err(|error| corrupt(&at, &error))?;
        let beat = HeartbeatRecord { count: last.count + 1, ..last };
        let encoded = beat.encode(&at);
        let plan = Plan {
            guards: vec![
                Guard::Present(session.clone()),
                Guard::Equals(at.clone(), current.clone()),
            ],
            writes: vec![Write::Put(at.clone(), encoded.clone())],
        };
        match commit_once(store, plan).await? {
            Verdict::Committed => return Ok(Some((beat, encoded))),
            Verdict::Refused { guard: 0, .. } => return Ok(None),
            // Either this process's own beat, whose answer was lost, or an equal one of the
            // previous process.
            Verdict::Refused { found: Some(found), .. } if found == encoded => {
                return Ok(Some((beat, encoded)));
            }
            Verdict::Refused { .. } | Verdict::Failed(_) => {}
        }
    }
    Err(VolumeError::Unavailable("the heartbeat of the previous process keeps changing".into()))
}

/// The idempotency slots of a session: records that prove if plans were committed.
#[derive(Debug)]
struct Slots {
    nonce: Nonce,
    records: Vec<Option<(SlotRecord, Value)>>,
}

impl Slots {
    /// Reads those idempotency slots of the session `nonce` that the ledger knows of.
    async fn read(
        store: &dyn MetaStore,
        ledger: &Ledger,
        nonce: Nonce,
    ) -> Result<Slots, VolumeError> {
        let keys: Vec<Key> =
            (0..ledger.slots()).map(|slot| key::idempotency_slot(nonce, slot)).collect();
        let mut records = Vec::with_capacity(keys.len());
        for keys in keys.chunks(SLOTS_AT_ONCE) {
            let read = |key: &Key| Read::Record { key: key.clone(), follow: None };
            let reads: Vec<Read> = keys.iter().map(read).collect();
            let found = store.read(&reads).await?;
            for (key, found) in keys.iter().zip(&found) {
                let record = value(Some(found)).map(|value| decode(key, value)).transpose()?;
                records.push(record);
            }
        }
        Ok(Slots { nonce, records })
    }

    /// Returns true if the plan in doubt was committed, false if it never will be, and `None` if
    /// its idempotency slot has not been advanced.
    fn fate(&self, fate: &InDoubt) -> Option<bool> {
        let (record, _) = self.records.get(usize::from(fate.slot))?.as_ref()?;
        (record.count >= fate.step).then_some(record.count == fate.step && !record.aborted)
    }

    /// Advances each slot, so that no further plan can commit. Returns `None` if the session has
    /// ended in between. The outcome that a slot proves is written to the journal before the slot
    /// is advanced.
    async fn settle(
        mut self,
        store: &dyn MetaStore,
        ledger: &Ledger,
    ) -> Result<Option<Vec<(SlotRecord, Value)>>, VolumeError> {
        let mut pending: Vec<u16> = (0..ledger.slots()).collect();
        for _ in 0..ATTEMPTS_MAX {
            // First the journal, then the step: the step replaces the record that proves the
            // outcome of the last plan.
            ledger.settle_in_doubt(|fate| self.fate(fate)).map_err(|error| unreadable(&error))?;
            if pending.is_empty() {
                let settled = self.records.into_iter().flatten().collect();
                return Ok(Some(settled));
            }
            // A plan of the previous process may win against the step of its slot. Then the slot is
            // read and advanced again.
            let mut retry = Vec::new();
            for slots in pending.chunks(SLOTS_AT_ONCE) {
                match self.step(store, slots).await? {
                    Some(moved) => retry.extend(moved),
                    None => return Ok(None),
                }
            }
            pending = retry;
        }
        Err(VolumeError::Unavailable("the plans of the previous process do not settle".to_owned()))
    }

    /// Advances the idempotency slots with these numbers by an aborting step. Returns the ones that
    /// a plan of the previous process has advanced in between, and `None` if the session has ended.
    async fn step(
        &mut self,
        store: &dyn MetaStore,
        slots: &[u16],
    ) -> Result<Option<Vec<u16>>, VolumeError> {
        let mut steps = Vec::with_capacity(slots.len());
        for slot in slots {
            let at = key::idempotency_slot(self.nonce, *slot);
            let current = self.records[usize::from(*slot)].as_ref();
            let guard = match current {
                Some((_, value)) => Guard::Equals(at.clone(), value.clone()),
                None => Guard::Absent(at.clone()),
            };
            // The same step as that of a plan in flight, so that only one of the two can commit.
            let count = current.map_or(0, |(record, _)| record.count) + 1;
            let record = SlotRecord { count, aborted: true };
            let encoded = record.encode(&at);
            let plan = Plan {
                guards: vec![Guard::Present(key::session(self.nonce)), guard],
                writes: vec![Write::Put(at, encoded.clone())],
            };
            steps.push((plan, record, encoded));
        }
        let plans: Vec<Plan> = steps.iter().map(|(plan, ..)| plan.clone()).collect();
        let verdicts = match store.commit(&plans).await {
            Ok(verdicts) => verdicts,
            // After other errors some steps may have committed. The next try finds that by the
            // refusals.
            Err(error) if error.kind() == StoreErrorKind::Corrupt => return Err(error.into()),
            Err(error) => {
                warn!(%error, "the plans of the previous process have not settled yet");
                tokio::time::sleep(PAUSE).await;
                return Ok(Some(slots.to_vec()));
            }
        };
        let mut moved = Vec::new();
        for ((slot, verdict), (_, record, encoded)) in slots.iter().zip(verdicts).zip(steps) {
            let current = &mut self.records[usize::from(*slot)];
            match verdict {
                Verdict::Committed => *current = Some((record, encoded)),
                // This step was committed by an earlier try whose answer was lost.
                Verdict::Refused { guard: SLOT_GUARD, found: Some(found) } if found == encoded => {
                    *current = Some((record, encoded));
                }
                Verdict::Refused { guard: SLOT_GUARD, found } => {
                    let at = key::idempotency_slot(self.nonce, *slot);
                    *current = found.map(|found| decode(&at, found)).transpose()?;
                    moved.push(*slot);
                }
                Verdict::Refused { .. } => return Ok(None),
                Verdict::Failed(_) => moved.push(*slot),
            }
        }
        Ok(Some(moved))
    }
}

fn decode(at: &Key, value: Value) -> Result<(SlotRecord, Value), VolumeError> {
    let record = SlotRecord::decode(at, &value).map_err(|error| corrupt(at, &error))?;
    Ok((record, value))
}

/// Writes the name of a new session to the ledger.
pub(crate) fn note_session(ledger: Option<&Arc<Ledger>>, nonce: Nonce) -> Result<(), VolumeError> {
    let noted = ledger.map_or(Ok(()), |ledger| ledger.set_session(nonce));
    noted.map_err(|error| unreadable(&error))
}

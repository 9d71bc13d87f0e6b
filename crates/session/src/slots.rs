//! Idempotency slots: records that prove if a plan was committed.
//!
//! A slot is a record with a step counter (see [`record::SlotRecord`]). A plan that is sent in a
//! slot guards the slot's record and writes the next step. A slot carries one plan at a time, and
//! is free again when the outcome of that plan is certain. So the record always describes the
//! plan that the slot carries:
//!
//! - step `n`: the plan has not committed yet;
//! - step `n + 1`: the plan has committed;
//! - step `n + 1` with the mark `aborted`: the plan will never commit;
//! - anything else: the store has lost records of this session.
//!
//! For example, slot 3 is at step 7. A plan is sent in it and its answer is lost. The record is
//! read at step 8 without the mark: the plan has committed, and must not be sent again.
//!
//! A slot whose plan never settles is lost until the session ends. The number of slots is
//! [`SLOTS_MAX`]; if none is free, no plan is sent.

use std::sync::{Arc, Mutex, PoisonError};

use ledger::Ledger;
use record::{Nonce, SlotRecord, key};
use store::{Guard, Key, Value, Write};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Slots of a session: plans that may be in flight or of unknown outcome at the same time.
pub const SLOTS_MAX: u16 = 1_024;

/// The idempotency slots of a session: records that prove if a plan was committed. A pool holds
/// those that carry no plan.
#[derive(Debug)]
pub(crate) struct IdempotencySlots {
    session: Nonce,
    permits: Arc<Semaphore>,
    pool: Mutex<FreeSlots>,
    /// The ledger, a file that outlives this process. The number of slots is written to it before a
    /// new one is used, so that the next process can resume the session. `None` if the session ends
    /// with its process.
    ledger: Option<Arc<Ledger>>,
}

#[derive(Debug, Default)]
struct FreeSlots {
    /// Slots that carry no plan. The last one that was returned is taken first, so that a quiet
    /// session has few records.
    free: Vec<Slot>,
    /// Number of slots that were used so far, and so the number of the next new one.
    created: u16,
}

/// An idempotency slot (a record that proves if a plan was committed): its number, and the number
/// of steps by which it was advanced.
#[derive(Debug)]
struct Slot {
    number: u16,
    key: Key,
    count: u64,
    /// The slot's current record in the store; `None` before the first plan.
    record: Option<Value>,
}

/// An idempotency slot that carries a plan: the slot's record proves if the plan was committed.
#[derive(Debug)]
pub(crate) struct TakenSlot {
    slot: Slot,
    permit: OwnedSemaphorePermit,
}

/// The state of an idempotency slot, relative to the plan that it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotState {
    /// The plan has committed.
    Committed,
    /// The plan will never commit.
    Aborted,
    /// The plan has not committed yet. It may still do so.
    Unmoved,
    /// The slot's record was never written by this session: the store has lost acknowledged
    /// commits.
    Foreign,
}

impl IdempotencySlots {
    /// Creates the idempotency slots of a session, which carry no plan. `records` are the current
    /// records of the slots from number 0 on, if the session was begun by an earlier process. With
    /// a `ledger`, the number of slots is written to it for the next process.
    pub(crate) fn resumed(
        session: Nonce,
        ledger: Option<Arc<Ledger>>,
        records: Vec<(SlotRecord, Value)>,
    ) -> Arc<IdempotencySlots> {
        let permits = Arc::new(Semaphore::new(usize::from(SLOTS_MAX)));
        let mut pool = FreeSlots::default();
        for (SlotRecord { count, .. }, record) in records {
            let (number, record) = (pool.created, Some(record));
            let key = key::idempotency_slot(session, number);
            pool.free.push(Slot { number, key, count, record });
            pool.created += 1;
        }
        Arc::new(IdempotencySlots { session, permits, pool: Mutex::new(pool), ledger })
    }

    /// Takes a slot for a plan; `None` if all slots carry plans.
    pub(crate) fn try_take(&self) -> Option<TakenSlot> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        Some(self.taken(permit))
    }

    /// Takes a slot for a plan, and waits for one if all slots carry plans.
    pub(crate) async fn take(&self) -> TakenSlot {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        self.taken(permit.expect("the semaphore is never closed"))
    }

    /// Takes up to `limit` slots that carry no plan, the last used ones first, so that their
    /// records can be checked.
    pub(crate) fn take_idle(&self, limit: usize) -> Vec<TakenSlot> {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = Vec::new();
        while taken.len() < limit
            && let Some(slot) = pool.free.pop()
        {
            // There is a permit for each slot that carries no plan.
            let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
                pool.free.push(slot);
                break;
            };
            taken.push(TakenSlot { slot, permit });
        }
        taken
    }

    /// Returns slots that [`IdempotencySlots::take_idle`] has taken.
    pub(crate) fn give_back(&self, idle: Vec<TakenSlot>) {
        for taken in idle.into_iter().rev() {
            self.settle(taken, SlotState::Unmoved);
        }
    }

    fn taken(&self, permit: OwnedSemaphorePermit) -> TakenSlot {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = pool.free.pop().unwrap_or_else(|| {
            let number = pool.created;
            let key = key::idempotency_slot(self.session, number);
            // There are as many permits as slots, so no number is used twice.
            pool.created = pool.created.saturating_add(1);
            if let Some(ledger) = &self.ledger {
                ledger.set_slots(pool.created).expect("a file in memory can be written");
            }
            Slot { number, key, count: 0, record: None }
        });
        TakenSlot { slot, permit }
    }

    /// Returns a slot to the pool after the outcome of its plan has become known, as `step`. With
    /// `Foreign`, which means that the store has lost records, the slot is not used again.
    pub(crate) fn settle(&self, taken: TakenSlot, step: SlotState) {
        let TakenSlot { mut slot, permit } = taken;
        match step {
            // The plan was refused or not sent, so the record is unchanged.
            SlotState::Unmoved => {}
            SlotState::Committed | SlotState::Aborted => {
                let record = slot.next(step == SlotState::Aborted);
                slot.record = Some(record);
                slot.count += 1;
            }
            // The record is unknown, so a later plan in this slot could not be resolved. The permit
            // goes with the slot.
            SlotState::Foreign => {
                permit.forget();
                return;
            }
        }
        self.pool.lock().unwrap_or_else(PoisonError::into_inner).free.push(slot);
    }

    /// Returns the keys of all idempotency slots of this session that may have a record in the
    /// store.
    pub(crate) fn keys(&self) -> Vec<Key> {
        let created = self.pool.lock().unwrap_or_else(PoisonError::into_inner).created;
        (0..created).map(|slot| key::idempotency_slot(self.session, slot)).collect()
    }
}

impl Slot {
    fn next(&self, aborted: bool) -> Value {
        SlotRecord { count: self.count + 1, aborted }.encode(&self.key)
    }
}

impl TakenSlot {
    /// Returns the key of the slot's record.
    pub(crate) fn key(&self) -> &Key {
        &self.slot.key
    }

    /// Returns the number of the slot, and the number of the step to which its plan advances it.
    pub(crate) fn step(&self) -> (u16, u64) {
        (self.slot.number, self.slot.count + 1)
    }

    /// Returns the guard that the slot's record has not changed since the slot was taken.
    pub(crate) fn guard(&self) -> Guard {
        match &self.slot.record {
            None => Guard::Absent(self.slot.key.clone()),
            Some(record) => Guard::Equals(self.slot.key.clone(), record.clone()),
        }
    }

    /// Returns the write that advances the slot by one step. `aborted` is false for the slot's
    /// plan, and true for the tombstone, the write that keeps the plan from committing.
    pub(crate) fn advance(&self, aborted: bool) -> Write {
        Write::Put(self.slot.key.clone(), self.slot.next(aborted))
    }

    /// Returns the state of the slot's plan if `found` is the slot's record in the store.
    pub(crate) fn read(&self, found: Option<&Value>) -> SlotState {
        if found == self.slot.record.as_ref() {
            SlotState::Unmoved
        } else if found == Some(&self.slot.next(false)) {
            SlotState::Committed
        } else if found == Some(&self.slot.next(true)) {
            SlotState::Aborted
        } else {
            SlotState::Foreign
        }
    }
}

#[cfg(test)]
mod tests;

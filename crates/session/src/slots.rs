//! Idempotency slots: the records that prove whether a plan happened.
//!
//! See [`record::SlotRecord`]. A plan is sent in a slot: it guards the slot's record and writes the next
//! step into it. A slot carries one plan at a time and is free again only when that plan has settled,
//! so what its record says is always about the plan that it carries. A slot whose plan never settles
//! is lost until the session ends. Their number is bounded, and when none is left nothing more is sent.

use std::sync::{Arc, Mutex, PoisonError};

use ledger::Ledger;
use record::{Nonce, SlotRecord, key};
use store::{Guard, Key, Value, Write};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Slots of a session: plans that may be under way or in doubt at the same time.
pub const SLOTS_MAX: u16 = 1_024;

/// The slots of a session, those that carry no plan in a pool.
#[derive(Debug)]
pub(crate) struct IdempotencySlots {
    session: Nonce,
    permits: Arc<Semaphore>,
    pool: Mutex<FreeSlots>,
    /// Told of each slot before it is used, if the session outlives this process.
    ledger: Option<Arc<Ledger>>,
}

#[derive(Debug, Default)]
struct FreeSlots {
    /// The last one returned is the first one taken, so that a quiet session has few records.
    free: Vec<Slot>,
    created: u16,
}

/// A slot, and how many steps it has taken.
#[derive(Debug)]
struct Slot {
    number: u16,
    key: Key,
    count: u64,
    /// The record as it stands; `None` before the first plan.
    record: Option<Value>,
}

/// A slot that carries a plan.
#[derive(Debug)]
pub(crate) struct TakenSlot {
    slot: Slot,
    permit: OwnedSemaphorePermit,
}

/// What a slot's record says of the plan that it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotState {
    /// The plan happened.
    Committed,
    /// The plan will never happen.
    Aborted,
    /// Neither is certain yet.
    Unmoved,
    /// Something that this session never wrote: the store has forgotten what it acknowledged.
    Foreign,
}

impl IdempotencySlots {
    /// The slots of a new session.
    pub(crate) fn new(session: Nonce, ledger: Option<Arc<Ledger>>) -> IdempotencySlots {
        let permits = Arc::new(Semaphore::new(usize::from(SLOTS_MAX)));
        IdempotencySlots { session, permits, pool: Mutex::default(), ledger }
    }

    /// The slots of a session that is gone on with: the first ones, as their records stand. None of
    /// them carries a plan.
    pub(crate) fn with_settled(self, records: Vec<(SlotRecord, Value)>) -> IdempotencySlots {
        {
            let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
            for (SlotRecord { count, .. }, record) in records {
                let (number, record) = (pool.created, Some(record));
                let key = key::idempotency_slot(self.session, number);
                pool.free.push(Slot { number, key, count, record });
                pool.created += 1;
            }
        }
        self
    }

    /// A slot, if one is free.
    pub(crate) fn try_take(&self) -> Option<TakenSlot> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        Some(self.taken(permit))
    }

    /// A slot, when one is free.
    pub(crate) async fn take(&self) -> TakenSlot {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        self.taken(permit.expect("the semaphore is never closed"))
    }

    fn taken(&self, permit: OwnedSemaphorePermit) -> TakenSlot {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = pool.free.pop().unwrap_or_else(|| {
            let number = pool.created;
            let key = key::idempotency_slot(self.session, number);
            // There are as many permits as slots, so no number is made twice.
            pool.created = pool.created.saturating_add(1);
            if let Some(ledger) = &self.ledger {
                ledger.set_slots(pool.created).expect("a file in memory can be written");
            }
            Slot { number, key, count: 0, record: None }
        });
        TakenSlot { slot, permit }
    }

    /// Takes a slot back whose plan has settled: the slot's record is now `record`.
    pub(crate) fn settle(&self, taken: TakenSlot, step: SlotState) {
        let TakenSlot { mut slot, permit } = taken;
        match step {
            SlotState::Unmoved => {}
            SlotState::Committed | SlotState::Aborted => {
                let record = slot.next(step == SlotState::Aborted);
                slot.record = Some(record);
                slot.count += 1;
            }
            SlotState::Foreign => {
                permit.forget();
                return;
            }
        }
        self.pool.lock().unwrap_or_else(PoisonError::into_inner).free.push(slot);
    }

    /// The keys of all slots that may have a record.
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
    /// The slot's record's key.
    pub(crate) fn key(&self) -> &Key {
        &self.slot.key
    }

    /// The slot's number, and the step that its plan takes.
    pub(crate) fn step(&self) -> (u16, u64) {
        (self.slot.number, self.slot.count + 1)
    }

    /// Guards that the slot has not moved since it was taken.
    pub(crate) fn guard(&self) -> Guard {
        match &self.slot.record {
            None => Guard::Absent(self.slot.key.clone()),
            Some(record) => Guard::Equals(self.slot.key.clone(), record.clone()),
        }
    }

    /// Moves the slot: by its plan, or by whoever keeps the plan from happening.
    pub(crate) fn advance(&self, aborted: bool) -> Write {
        Write::Put(self.slot.key.clone(), self.slot.next(aborted))
    }

    /// What the slot's record says of the plan.
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

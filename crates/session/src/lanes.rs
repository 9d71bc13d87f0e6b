//! A session's lanes: the records that prove whether a plan happened.
//!
//! See [`record::Token`]. A plan in a lane guards the lane's record and writes its next step. A
//! lane carries one plan at a time and is free again only when that plan has settled, so what its
//! record says is always about the plan that it carries. A lane whose plan never settles is lost
//! until the session ends; their number is bounded, and when none is left nothing more is sent.

use std::sync::{Arc, Mutex, PoisonError};

use record::{Nonce, Token, key};
use store::{Guard, Key, Value, Write};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Lanes of a session: plans that may be under way or in doubt at the same time.
pub const LANES_MAX: u16 = 1_024;

/// The lanes that carry no plan.
#[derive(Debug)]
pub(crate) struct Lanes {
    session: Nonce,
    permits: Arc<Semaphore>,
    pool: Mutex<Pool>,
}

#[derive(Debug, Default)]
struct Pool {
    /// The last one returned is the first one taken, so that a quiet session has few records.
    free: Vec<Lane>,
    made: u16,
}

/// A lane, and how far it has come.
#[derive(Debug)]
struct Lane {
    key: Key,
    count: u64,
    /// The record as it stands; `None` before the first plan.
    record: Option<Value>,
}

/// A lane that carries a plan.
#[derive(Debug)]
pub(crate) struct TakenLane {
    lane: Lane,
    permit: OwnedSemaphorePermit,
}

/// What a lane's record says of the plan that it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The plan happened.
    Taken,
    /// The plan will never happen.
    Aborted,
    /// Neither yet.
    Untouched,
    /// Something that this session never wrote: the store forgot, or lies.
    Foreign,
}

impl Lanes {
    /// The lanes of a new session.
    pub(crate) fn new(session: Nonce) -> Lanes {
        let permits = Arc::new(Semaphore::new(usize::from(LANES_MAX)));
        Lanes { session, permits, pool: Mutex::default() }
    }

    /// A lane, if one is free.
    pub(crate) fn try_take(&self) -> Option<TakenLane> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        Some(self.taken(permit))
    }

    /// A lane, when one is free.
    pub(crate) async fn take(&self) -> TakenLane {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        self.taken(permit.expect("the semaphore is never closed"))
    }

    fn taken(&self, permit: OwnedSemaphorePermit) -> TakenLane {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        let lane = pool.free.pop().unwrap_or_else(|| {
            let key = key::token(self.session, pool.made);
            // There are as many permits as lanes, so no number is made twice.
            pool.made = pool.made.saturating_add(1);
            Lane { key, count: 0, record: None }
        });
        TakenLane { lane, permit }
    }

    /// Takes a lane back whose plan has settled: the lane's record is now `record`.
    pub(crate) fn settle(&self, taken: TakenLane, step: Step) {
        let TakenLane { mut lane, permit } = taken;
        match step {
            Step::Untouched => {}
            Step::Taken | Step::Aborted => {
                let record = lane.next(step == Step::Aborted);
                lane.record = Some(record);
                lane.count += 1;
            }
            Step::Foreign => {
                permit.forget();
                return;
            }
        }
        self.pool.lock().unwrap_or_else(PoisonError::into_inner).free.push(lane);
    }

    /// The keys of all lanes that may have a record.
    pub(crate) fn keys(&self) -> Vec<Key> {
        let made = self.pool.lock().unwrap_or_else(PoisonError::into_inner).made;
        (0..made).map(|lane| key::token(self.session, lane)).collect()
    }
}

impl Lane {
    fn next(&self, aborted: bool) -> Value {
        Token { count: self.count + 1, aborted }.encode(&self.key)
    }
}

impl TakenLane {
    /// The lane's record's key.
    pub(crate) fn key(&self) -> &Key {
        &self.lane.key
    }

    /// Guards that the lane has not moved since it was taken.
    pub(crate) fn guard(&self) -> Guard {
        match &self.lane.record {
            None => Guard::Absent(self.lane.key.clone()),
            Some(record) => Guard::Equals(self.lane.key.clone(), record.clone()),
        }
    }

    /// Moves the lane: by its plan, or by whoever keeps the plan from happening.
    pub(crate) fn advance(&self, aborted: bool) -> Write {
        Write::Put(self.lane.key.clone(), self.lane.next(aborted))
    }

    /// What the lane's record says of the plan.
    pub(crate) fn read(&self, found: Option<&Value>) -> Step {
        if found == self.lane.record.as_ref() {
            Step::Untouched
        } else if found == Some(&self.lane.next(false)) {
            Step::Taken
        } else if found == Some(&self.lane.next(true)) {
            Step::Aborted
        } else {
            Step::Foreign
        }
    }
}

#[cfg(test)]
mod tests;

//! Runs operations of the namespace without opening the volume: read, plan, commit.
//!
//! It is the loop of `session` for a caller that makes one change: nothing is remembered, and no
//! other plans are in the batch. There are no token lanes, so a commit with an unknown outcome is
//! resolved in another way. The guards of a plan let it happen only once, so it is sent again. If
//! it is refused then, the records that it should have written are read.

use std::slice;

use namespace::{Env, Next, NoHints, Planner, Run, Step};
use record::Nonce;
use session::{ShortSession, value};
use store::{Guard, MetaStore, Plan, Read, ReadResult, StoreError, StoreErrorKind};
use store::{Value, Verdict, Write};

use crate::{Admin, AdminError};

/// The outcome of a plan.
enum Decision {
    Committed,
    /// By this guard, which met this.
    Refused(Guard, Option<Value>),
}

impl Admin {
    /// Runs an operation to its answer, its plan in a short session if there is one.
    pub(crate) async fn run<O>(
        &self,
        operation: &O,
        session: Option<&ShortSession>,
    ) -> Result<O::Output, AdminError>
    where
        O: Planner + Sync,
        O::Output: Send,
    {
        let mut run = Run::new(operation, self.env());
        loop {
            let (plan, output) = match self.plan(&mut run).await? {
                Step::Done(answer) => return Ok(answer),
                Step::Commit(plan, output) => (plan, output),
            };
            match self.decide(plan, session).await? {
                Decision::Committed => return Ok(output),
                Decision::Refused(guard, found) => run.refused(&guard, found),
            }
        }
    }

    /// What an operation would return now. Nothing is changed, so another change may come first.
    pub(crate) async fn rehearse<O>(&self, operation: &O) -> Result<O::Output, AdminError>
    where
        O: Planner + Sync,
        O::Output: Send,
    {
        let mut run = Run::new(operation, self.env());
        match self.plan(&mut run).await? {
            Step::Done(output) | Step::Commit(_, output) => Ok(output),
        }
    }

    /// Reads until an operation has its result or its plan.
    async fn plan<O>(&self, run: &mut Run<'_, O>) -> Result<Step<O::Output>, AdminError>
    where
        O: Planner + Sync,
        O::Output: Send,
    {
        loop {
            match run.advance(&NoHints) {
                Next::Done(answer) => return Ok(Step::Done(answer?)),
                Next::Commit(plan, output) => return Ok(Step::Commit(plan, output)),
                Next::Corrupt(key, error) => return Err(corrupt(&key, &error)),
                Next::Read(reads) => {
                    let found = self.read(&reads).await?;
                    run.learn(reads, found);
                }
            }
        }
    }

    /// No operation of this crate stores the name of a session.
    fn env(&self) -> Env {
        let clock = &self.surroundings.clock;
        let (now, earliest_now) = (clock.now(), clock.passed());
        Env { now, earliest_now, session: Nonce([0; Nonce::BYTES]), random: 0 }
    }

    /// Reads in one round trip.
    pub(crate) async fn read(&self, reads: &[Read]) -> Result<Vec<ReadResult>, AdminError> {
        let found = self.store.read(reads).await.map_err(AdminError::Unread)?;
        if found.len() == reads.len() {
            return Ok(found);
        }
        Err(AdminError::Corrupt("the store left questions unanswered".to_owned()))
    }

    async fn decide(
        &self,
        plan: Plan,
        session: Option<&ShortSession>,
    ) -> Result<Decision, AdminError> {
        let own_guards = plan.guards.len();
        let mut sent = plan;
        sent.guards.extend(session.map(ShortSession::guard));
        let (verdicts, doubtful) = match self.store.commit(slice::from_ref(&sent)).await {
            Ok(verdicts) => (verdicts, false),
            Err(error) if error.kind() == StoreErrorKind::Unknown => {
                let again = self.store.commit(slice::from_ref(&sent)).await;
                // A second try that certainly failed says nothing about the first one.
                (again.map_err(|error| AdminError::Unknown(error.to_string()))?, true)
            }
            Err(error) => return Err(AdminError::Unchanged(error)),
        };
        let refused = match verdicts.as_slice() {
            [Verdict::Committed] => return Ok(Decision::Committed),
            [Verdict::Refused { guard, found }] => (*guard, found.clone()),
            [Verdict::Failed(kind)] if !doubtful => {
                let error = StoreError::new(*kind, "committing a plan");
                return Err(AdminError::Unchanged(error));
            }
            _ if doubtful => return Err(AdminError::Unknown("the store gives no verdict".into())),
            _ => return Err(AdminError::Corrupt("the store gives no verdict".to_owned())),
        };
        if doubtful {
            return if stands(&*self.store, &sent.writes).await? {
                Ok(Decision::Committed)
            } else {
                // Either it never happened, or its records have been changed since.
                Err(AdminError::Unknown(AdminError::Contended.to_string()))
            };
        }
        let (guard, found) = refused;
        if guard >= own_guards {
            return Err(AdminError::Late);
        }
        Ok(Decision::Refused(sent.guards.swap_remove(guard), found))
    }
}

/// Whether all records are as a plan would have left them.
async fn stands(store: &dyn MetaStore, writes: &[Write]) -> Result<bool, AdminError> {
    let record = |write: &Write| match write {
        Write::Put(key, value) => Some((key.clone(), Some(value.clone()))),
        Write::Delete(key) => Some((key.clone(), None)),
        Write::Add(..) | Write::Max(..) | Write::Set(..) | Write::Clear(..) => None,
    };
    let (keys, wanted): (Vec<_>, Vec<_>) = writes.iter().filter_map(record).unzip();
    let reads: Vec<Read> = keys.into_iter().map(|key| Read::Record { key, follow: None }).collect();
    let found = store.read(&reads).await;
    let found = found.map_err(|error| AdminError::Unknown(error.to_string()))?;
    Ok(found.iter().map(|found| value(Some(found))).eq(wanted))
}

pub(crate) fn corrupt(key: &store::Key, error: &record::DecodeError) -> AdminError {
    AdminError::Corrupt(format!("the record {key:?} cannot be read: {error}"))
}

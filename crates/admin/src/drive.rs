//! Runs operations of the namespace without opening the volume: read, plan, commit.
//!
//! This is the loop of `session` for a caller that makes one change. It has no cache, and a batch
//! has one plan. It has no idempotency slots either, that is, records that prove whether a plan
//! happened, so it resolves a commit with an unknown outcome in another way: it sends the plan
//! again, which is safe because the guards of a plan let it commit only once. If the second attempt
//! is refused, it reads the records that the plan should have written. For example, if the
//! connection breaks after the COMMIT of `user add`, the second attempt is refused because the user
//! exists, the record equals the plan's, and the result is success.

use std::slice;

use namespace::{Env, Next, NoHints, Planner, Run, Step};
use record::Nonce;
use session::{ShortSession, value};
use store::{Guard, MetaStore, Plan, Read, ReadResult, StoreError, StoreErrorKind};
use store::{Value, Verdict, Write};

use crate::{Admin, AdminError};

/// The outcome of the commit of a plan that the store has decided.
enum Decision {
    Committed,
    /// Nothing was written, because this guard, a condition of the plan on a record, did not hold.
    /// The second field is the value that the record has, `None` if it does not exist.
    Refused(Guard, Option<Value>),
}

impl Admin {
    /// Runs an operation until it has its result. If `session` is given, the plan commits only if
    /// this session has not been fenced, that is, ended by another process.
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

    /// Returns the result that an operation would have now, and commits nothing. Another change can
    /// come before the operation itself.
    pub(crate) async fn dry_run<O>(&self, operation: &O) -> Result<O::Output, AdminError>
    where
        O: Planner + Sync,
        O::Output: Send,
    {
        let mut run = Run::new(operation, self.env());
        match self.plan(&mut run).await? {
            Step::Done(output) | Step::Commit(_, output) => Ok(output),
        }
    }

    /// Reads the records that an operation asks for, one round trip after the other, until it has
    /// its result or its plan, the list of guards and writes to commit.
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
                    // Each turn of the loop is one round trip to the store.
                    let found = self.read(&reads).await?;
                    run.learn(reads, found);
                }
            }
        }
    }

    /// Returns the environment in which an operation plans, such as the time. The nonce, which
    /// names a session, is zero, because no operation of this crate stores it.
    fn env(&self) -> Env {
        let clock = &self.surroundings.clock;
        let (now, earliest_now) = (clock.now(), clock.passed());
        Env { now, earliest_now, session: Nonce([0; Nonce::BYTES]), random: 0 }
    }

    /// Reads records and counters from the metadata store in one round trip. Returns the results in
    /// the order of `reads`.
    pub(crate) async fn read(&self, reads: &[Read]) -> Result<Vec<ReadResult>, AdminError> {
        let found = self.store.read(reads).await.map_err(AdminError::Unread)?;
        if found.len() == reads.len() {
            return Ok(found);
        }
        Err(AdminError::Corrupt("the store answered with too few results".to_owned()))
    }

    /// Commits a plan, a list of guards and writes that happen together or not at all, and returns
    /// the outcome. Fails with `Unknown` if the outcome is unknown after a second attempt, and with
    /// `Late` if the session of the change was fenced.
    async fn decide(
        &self,
        plan: Plan,
        session: Option<&ShortSession>,
    ) -> Result<Decision, AdminError> {
        let own_guards = plan.guards.len();
        let mut sent = plan;
        // The guard of the session comes last, so its index is not below `own_guards`.
        sent.guards.extend(session.map(ShortSession::guard));
        let (verdicts, doubtful) = match self.store.commit(slice::from_ref(&sent)).await {
            Ok(verdicts) => (verdicts, false),
            Err(error) if error.kind() == StoreErrorKind::Unknown => {
                // The plan is idempotent by its guards: if the first attempt has committed, the
                // second is refused.
                let second = self.store.commit(slice::from_ref(&sent)).await;
                // If the second attempt fails, the outcome of the first one is still unknown.
                (second.map_err(|error| AdminError::Unknown(error.to_string()))?, true)
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
            _ if doubtful => {
                return Err(AdminError::Unknown("the store returned no verdict".into()));
            }
            _ => return Err(AdminError::Corrupt("the store returned no verdict".to_owned())),
        };
        if doubtful {
            return if records_match(&*self.store, &sent.writes).await? {
                Ok(Decision::Committed)
            } else {
                // Either the plan never committed, or another change has replaced its records
                // since.
                Err(AdminError::Unknown(AdminError::Contended.to_string()))
            };
        }
        let (guard, found) = refused;
        // The last guard is the session's: it has been fenced.
        if guard >= own_guards {
            return Err(AdminError::Late);
        }
        Ok(Decision::Refused(sent.guards.swap_remove(guard), found))
    }
}

/// Returns true if all records now have the values that the writes of a plan would have given them,
/// so that the plan counts as committed.
async fn records_match(store: &dyn MetaStore, writes: &[Write]) -> Result<bool, AdminError> {
    let record = |write: &Write| match write {
        Write::Put(key, value) => Some((key.clone(), Some(value.clone()))),
        Write::Delete(key) => Some((key.clone(), None)),
        // Counters are not compared, because other plans change them meanwhile.
        Write::Add(..) | Write::Max(..) | Write::Set(..) | Write::Clear(..) => None,
    };
    let (keys, expected): (Vec<_>, Vec<_>) = writes.iter().filter_map(record).unzip();
    let reads: Vec<Read> = keys.into_iter().map(|key| Read::Record { key, follow: None }).collect();
    let found = store.read(&reads).await;
    let found = found.map_err(|error| AdminError::Unknown(error.to_string()))?;
    Ok(found.iter().map(|found| value(Some(found))).eq(expected))
}

pub(crate) fn corrupt(key: &store::Key, error: &record::DecodeError) -> AdminError {
    AdminError::Corrupt(format!("the record {key:?} cannot be read: {error}"))
}

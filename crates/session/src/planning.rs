//! The reading half of the driver: reads what an operation asks for until it is planned.
//!
//! For example, a rename asks for two directories, and then for the names in them: two round trips,
//! if no hint answers the first question. The result is its plan.

use namespace::{Env, FsError, Hints, Next, NoHints, Planner, Run};
use record::{DecodeError, Nonce};
use runtime::Clock;
use store::{Key, MetaStore, Plan, Read, ReadResult};

use crate::error::{VolumeError, corrupt};

/// The inputs of a planner: the environment, the hints, and the records of the store.
pub(crate) trait PlanInputs: Sync {
    /// Returns the inputs from outside the store, such as the time.
    fn env(&self) -> Env;

    /// Returns the records remembered from earlier operations.
    fn hints(&self) -> &dyn Hints;

    /// Reads in one round trip. Returns one result for each read, in their order.
    fn read(
        &self,
        reads: &[Read],
    ) -> impl Future<Output = Result<Vec<ReadResult>, VolumeError>> + Send;

    /// Returns the error for a record that does not decode.
    fn unread(&self, key: &Key, error: &DecodeError) -> impl Future<Output = VolumeError> + Send;
}

/// The end of the planning of an operation.
#[derive(Debug)]
pub(crate) enum Planned<T> {
    /// The operation has ended with this answer or error.
    Done(Result<T, FsError>),
    /// If this plan commits, the second field is the answer.
    Commit(Plan, T),
}

/// Plans an operation, with one round trip for each set of records that it asks for. `run` keeps
/// the facts of earlier tries; with `None` the operation is planned from the beginning.
///
/// # Errors
/// The errors of the reads; [`VolumeError::Corrupt`] for a record that does not decode.
pub(crate) async fn plan<'o, O>(
    inputs: &impl PlanInputs,
    operation: &'o O,
    run: &mut Option<Run<'o, O>>,
) -> Result<Planned<O::Output>, VolumeError>
where
    O: Planner + Sync,
    O::Output: Send,
{
    let run = run.get_or_insert_with(|| Run::new(operation, inputs.env()));
    loop {
        match run.advance(inputs.hints()) {
            Next::Done(answer) => return Ok(Planned::Done(answer)),
            Next::Commit(plan, output) => return Ok(Planned::Commit(plan, output)),
            // Boxed, because this future is a part of that of each operation.
            Next::Corrupt(key, error) => return Err(Box::pin(inputs.unread(&key, &error)).await),
            Next::Read(reads) => {
                let found = inputs.read(&reads).await?;
                run.learn(reads, found);
            }
        }
    }
}

/// Returns `found` if it has one result for each of the reads.
pub(crate) fn complete(
    reads: &[Read],
    found: Vec<ReadResult>,
) -> Result<Vec<ReadResult>, VolumeError> {
    if found.len() == reads.len() {
        return Ok(found);
    }
    Err(VolumeError::Corrupt("the store returned fewer answers than questions".to_owned()))
}

/// A store that is read without a session.
#[derive(Debug)]
struct Unjoined<'s> {
    store: &'s dyn MetaStore,
    clock: &'s dyn Clock,
}

impl PlanInputs for Unjoined<'_> {
    /// The nonce, which names a session, is zero, because nothing is committed.
    fn env(&self) -> Env {
        let (now, earliest_now) = (self.clock.now(), self.clock.passed());
        Env { now, earliest_now, session: Nonce([0; Nonce::BYTES]), random: 0 }
    }

    fn hints(&self) -> &dyn Hints {
        &NoHints
    }

    async fn read(&self, reads: &[Read]) -> Result<Vec<ReadResult>, VolumeError> {
        complete(reads, self.store.read(reads).await?)
    }

    async fn unread(&self, key: &Key, error: &DecodeError) -> VolumeError {
        corrupt(key, error)
    }
}

/// Returns the result that an operation would have now, without a session, and commits nothing.
/// Another change can come before the operation itself.
///
/// # Errors
/// Those of the operation and of the store.
pub async fn dry_run<O>(
    store: &dyn MetaStore,
    clock: &dyn Clock,
    operation: &O,
) -> Result<O::Output, VolumeError>
where
    O: Planner + Sync,
    O::Output: Send,
{
    match plan(&Unjoined { store, clock }, operation, &mut None).await? {
        Planned::Done(answer) => answer.map_err(VolumeError::from),
        Planned::Commit(_, output) => Ok(output),
    }
}

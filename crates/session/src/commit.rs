//! Group commit, and what becomes of a plan whose outcome is not known.
//!
//! Plans wait in a bounded queue. Whatever waits when a batch may go, or comes from tasks that are
//! ready by then, forms the batch, so an idle volume adds no delay and a busy one shares its round
//! trips. From there on nobody's disconnect stops anything: the batch, its resolution and its
//! bookkeeping run in tasks of the volume.
//!
//! Every plan guards its session and takes a step in an *idempotency slot* (see [`crate::slots`]).
//! When the store cannot say whether a plan happened, the same step is taken with the mark `aborted`:
//! then either the plan can never happen, or the slot says that it did. Until one is certain the plan
//! holds its slot, its reader's epoch and its staged blocks, which are deleted only when no plan that
//! names them can commit.

mod batch;
mod context;
mod queue;
mod resolve;

use std::sync::Arc;
use std::time::Duration;

use content::StagedContent;
use ledger::Note;
use store::Plan;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use context::{CommitAnswer, QueuedPlan};

use crate::epoch::ReaderGuard;
use crate::error::VolumeError;
use crate::feed::SelfWrites;
use crate::meters;
use crate::slots::IdempotencySlots;

pub(crate) use context::CommitContext;
pub(crate) use context::CommittedFor;
pub use context::Outcome;

/// Plans that wait for a batch. More make their callers wait.
pub const QUEUE_PLANS_MAX: usize = 1_024;

/// How long a caller waits for the outcome of its plan, from when it asked.
pub const COMMIT_DEADLINE: Duration = Duration::from_secs(10);

/// Where plans go. Dropping it ends the queue once what waits has been sent.
#[derive(Clone, Debug)]
pub(crate) struct Committer {
    queue: mpsc::Sender<QueuedPlan>,
    context: Arc<CommitContext>,
}

impl Committer {
    /// Begins to commit; `in_flight` batches at a time.
    pub(crate) fn new(context: CommitContext, in_flight: usize) -> Committer {
        let (queue, plans) = mpsc::channel(QUEUE_PLANS_MAX);
        let context = Arc::new(context);
        let serving = queue::serve(Arc::clone(&context), plans, in_flight.max(1));
        drop(context.tasks.spawn("committer", serving));
        Committer { queue, context }
    }

    /// What was sent and has not come back by the feed.
    pub(crate) fn self_writes(&self) -> Arc<SelfWrites> {
        Arc::clone(&self.context.self_writes)
    }

    /// Ends the session: the store does not hold what this session wrote.
    pub(crate) fn fence(&self, how: &str) {
        self.context.state.fence(how);
    }

    /// The slots, to be removed with the session.
    pub(crate) fn slots(&self) -> &IdempotencySlots {
        &self.context.slots
    }

    /// Commits a plan together with others. `reading` is held until the plan has settled, and
    /// `staged` is given back if the plan certainly did not happen; what is given back to nobody
    /// is deleted. `note` is the request that it carries out.
    ///
    /// Dropping the returned future takes nothing back once the plan is in the queue.
    pub(crate) async fn commit(
        &self,
        plan: Plan,
        reading: ReaderGuard,
        staged: Option<StagedContent>,
        committed_for: CommittedFor,
        note: Note,
    ) -> CommitAnswer {
        if self.context.state.is_fenced() {
            return CommitAnswer::without(Outcome::Failed(VolumeError::Fenced), staged);
        }
        if let Err(malformed) = self.context.check(&plan) {
            let error = store::StoreError::from(malformed);
            return CommitAnswer::without(Outcome::Failed(error.into()), staged);
        }
        meters::charge_commit();
        let deadline = Instant::now() + COMMIT_DEADLINE;
        let (caller, answer) = oneshot::channel();
        let Ok(Ok(place)) = tokio::time::timeout_at(deadline, self.queue.reserve()).await else {
            let busy = "the queue of commits does not move or is closed".to_owned();
            let outcome = Outcome::Failed(VolumeError::Unavailable(busy));
            return CommitAnswer::without(outcome, staged);
        };
        let caller = Some(caller);
        let queued = QueuedPlan { plan, staged, reading, deadline, committed_for, note, caller };
        place.send(queued);
        answer.await.unwrap_or_else(|_dropped| {
            let lost = "the task that commits has ended".to_owned();
            CommitAnswer::without(Outcome::Failed(VolumeError::Unknown(lost)), None)
        })
    }
}

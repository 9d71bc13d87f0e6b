//! Group commit: plans are sent in batches, and every plan gets a certain outcome.
//!
//! Roles. A *caller* puts a plan into a bounded queue. The *queue task* forms batches of the
//! waiting plans, and of those that ready tasks add in the same moment. So an idle volume adds no
//! delay, and a busy one shares its round trips. The *batch task* sends a batch and settles its
//! plans. If the store did not say what happened, the *resolver* finds out. From the queue on, a
//! caller that disconnects stops nothing.
//!
//! Every plan guards its session's record and advances an *idempotency slot* (see
//! [`crate::slots`]). If the outcome of a plan is unknown, the resolver advances the same slot to
//! the same step with the mark `aborted`. Either that commits, and the plan can never happen; or it
//! is refused, because the plan has advanced the slot itself. Until then the plan keeps its slot,
//! the epoch of its reader and its staged blocks. So a block is deleted only if no plan that names
//! it can commit.
//!
//! ```text
//! queued -> sent -> committed | refused | failed      (the store's verdict)
//!            |
//!            \-> unknown -> committed | aborted        (the resolver, by the slot)
//!                     \---> left to the next session  (this session has ended)
//! ```
//!
//! For example, the connection breaks after a batch was sent. The resolver sends the aborting step
//! of each plan. The step of a plan that had committed is refused by its slot, and its caller gets
//! success. The steps of the others commit, and their operations are planned again.

mod batch;
mod context;
mod queue;
mod resolve;

use std::sync::Arc;

use ledger::Note;
use publication::StagedBlocks;
use store::Plan;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use context::{CommitAnswer, QueuedPlan};

use crate::epoch::ReaderGuard;
use crate::error::VolumeError;
use crate::feed::SelfWrites;
use crate::meters;
use crate::slots::IdempotencySlots;
use crate::times::COMMIT_DEADLINE;

pub use context::Outcome;
pub(crate) use context::{CommitContext, CommittedFor, Operations, RunningOperation};

/// Most plans that wait for a batch. Further callers wait for room in the queue.
pub const QUEUE_PLANS_MAX: usize = 1_024;

/// The sending side of the queue in which plans wait to be committed in batches. When the last
/// clone is dropped, the queued plans are still sent.
#[derive(Clone, Debug)]
pub(crate) struct Committer {
    queue: mpsc::Sender<QueuedPlan>,
    context: Arc<CommitContext>,
}

impl Committer {
    /// Starts the queue task, which sends the queued plans in batches, with at most as many batches
    /// in flight as the limits of the store say.
    pub(crate) fn new(context: CommitContext) -> Committer {
        let (queue, plans) = mpsc::channel(QUEUE_PLANS_MAX);
        let context = Arc::new(context);
        let serving = queue::serve(Arc::clone(&context), plans);
        drop(context.tasks.spawn("committer", serving));
        Committer { queue, context }
    }

    /// Returns the registry of keys that this session has written and that the change feed, the
    /// store's list of changed keys, has not reported yet.
    pub(crate) fn self_writes(&self) -> Arc<SelfWrites> {
        Arc::clone(&self.context.self_writes)
    }

    /// Counts an operation as running until the returned value is dropped. The queue task uses the
    /// number to decide whether more plans are about to come.
    pub(crate) fn begin_operation(&self) -> RunningOperation<'_> {
        self.context.operations.begin()
    }

    /// Fences the session, that is, lets it acknowledge no more changes, because the store has lost
    /// records that this session wrote. `how` describes the loss for the log.
    pub(crate) fn fence(&self, how: &str) {
        self.context.state.fence(how);
    }

    /// Returns the session's idempotency slots: the records that prove if a plan was committed.
    /// They are deleted when the session ends.
    pub(crate) fn slots(&self) -> &IdempotencySlots {
        &self.context.slots
    }

    /// Commits a plan, in a batch with others. The epoch that `reading` pins stays pinned until the
    /// outcome is certain, so no block that the reader of that epoch found is deleted. `staged` is
    /// the claim on blocks that the plan names: it is returned if the plan certainly did not
    /// commit; if the caller is gone then, the blocks are deleted. `note` names the request in the
    /// ledger's journal, which the next process of a mount reads.
    ///
    /// Once the plan is in the queue it is committed even if the returned future is dropped.
    pub(crate) async fn commit(
        &self,
        plan: Plan,
        reading: ReaderGuard,
        staged: Option<Arc<dyn StagedBlocks>>,
        committed_for: CommittedFor,
        note: Note,
    ) -> CommitAnswer {
        if self.context.state.is_fenced() {
            return CommitAnswer::without(Outcome::Failed(VolumeError::Fenced), staged);
        }
        // A plan that the store would refuse as malformed would fail its whole batch.
        if let Err(malformed) = self.context.check(&plan) {
            let error = store::StoreError::from(malformed);
            return CommitAnswer::without(Outcome::Failed(error.into()), staged);
        }
        meters::charge_commit();
        // The deadline includes the wait for a place in the queue, so that a slow store cannot make
        // a caller wait twice as long.
        let deadline = Instant::now() + COMMIT_DEADLINE;
        let (caller, answer) = oneshot::channel();
        // A caller that gives up here has sent nothing, so it may retry.
        let Ok(Ok(place)) = tokio::time::timeout_at(deadline, self.queue.reserve()).await else {
            let busy = "the commit queue is closed, or was full until the deadline".to_owned();
            let outcome = Outcome::Failed(VolumeError::Unavailable(busy));
            return CommitAnswer::without(outcome, staged);
        };
        let caller = Some(caller);
        let queued = QueuedPlan { plan, staged, reading, deadline, committed_for, note, caller };
        place.send(queued);
        // A lost answer does not mean that the plan was lost: it was in the queue, and may commit.
        answer.await.unwrap_or_else(|_dropped| {
            let lost = "the task that commits has ended".to_owned();
            CommitAnswer::without(Outcome::Failed(VolumeError::Unknown(lost)), None)
        })
    }
}

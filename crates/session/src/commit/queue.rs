//! Forms batches of the waiting plans.
//!
//! For example, 30 PUTs that were verified while a batch was in flight leave together in the next
//! one.

use std::sync::Arc;

use store::Limits;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use super::batch;
use super::context::{
    ADDED_BYTES, ADDED_ITEMS, CommitAnswer, CommitContext, CommittedFor, Outcome, QueuedPlan,
    SentPlan,
};
use crate::error::VolumeError;
use crate::slots::TakenSlot;

/// Yields to other tasks before a batch is closed. Tasks that waited for the same pack or commit as
/// the first plan's caller are about to add plans of their own, and so are requests that have just
/// arrived. More yields collect hardly more plans. Each yield of an idle runtime wakes another of
/// its threads, so [`wait_for_ready_tasks`] skips them where no plan can come.
const YIELDS_BEFORE_BATCH: usize = 4;

/// The size of a batch of plans so far.
#[derive(Debug, Default)]
struct Load {
    plans: usize,
    items: usize,
    bytes: usize,
}

impl Load {
    /// Adds a plan and returns true, or returns false if the batch is full. The first plan always
    /// fits, since larger ones were refused before.
    fn add(&mut self, queued: &QueuedPlan, limits: &Limits) -> bool {
        let items = self.items + queued.plan.items() + ADDED_ITEMS;
        let bytes = self.bytes + queued.plan.bytes() + ADDED_BYTES;
        let fits = self.plans < limits.batch_plans
            && items <= limits.batch_items
            && bytes <= limits.batch_bytes;
        if self.plans > 0 && !fits {
            return false;
        }
        *self = Load { plans: self.plans + 1, items, bytes };
        true
    }
}

/// Sends batches of queued plans until the queue is closed, with at most
/// [`Limits::commits_in_flight`] batches in flight.
pub(super) async fn serve(context: Arc<CommitContext>, mut queue: mpsc::Receiver<QueuedPlan>) {
    let batches_allowed = Arc::new(Semaphore::new(context.limits.commits_in_flight.max(1)));
    let mut carried_over: Option<QueuedPlan> = None;
    loop {
        let first = match carried_over.take() {
            Some(queued) => queued,
            None => match next(&context, &mut queue).await {
                Some(queued) => queued,
                None => return,
            },
        };
        // While all permits are taken, further plans collect in the queue and share the batch. The
        // permit comes after the first plan, so that the end of a batch does not wake this task
        // while no plan waits.
        let permit = Arc::clone(&batches_allowed).acquire_owned().await;
        wait_for_ready_tasks(&context, &first, &queue).await;
        let mut load = Load::default();
        let mut batch = Vec::new();
        // A plan without a slot cannot be sent: without it a lost answer would leave the outcome
        // unknown for ever.
        let Some(sent) = take_slot(&context, first).await else { continue };
        load.add(&sent.queued, &context.limits);
        batch.push(sent);
        while let Ok(queued) = queue.try_recv() {
            if !load.add(&queued, &context.limits) {
                carried_over = Some(queued);
                break;
            }
            match context.slots.try_take() {
                Some(slot) => batch.extend(unless_expired(&context, queued, slot)),
                None => {
                    carried_over = Some(queued);
                    break;
                }
            }
        }
        let batch_context = Arc::clone(&context);
        drop(context.tasks.spawn("commit", async move {
            batch::commit(batch_context, batch).await;
            drop(permit);
        }));
    }
}

/// Lets ready tasks add their plans to the batch of `first`. Does not wait if all running
/// operations have their plans in the queue, so that a program on a mount that makes one change at
/// a time gets its answer earlier.
async fn wait_for_ready_tasks(
    context: &CommitContext,
    first: &QueuedPlan,
    queue: &mpsc::Receiver<QueuedPlan>,
) {
    for _ in 0..YIELDS_BEFORE_BATCH {
        let is_last = context.operations.running() <= 1 + queue.len();
        // An S3 request runs no operation yet while it waits for its pack, together with others.
        if is_last && first.committed_for != CommittedFor::Client {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// Returns the next plan; `None` when the queue is closed and empty.
async fn next(
    context: &CommitContext,
    queue: &mut mpsc::Receiver<QueuedPlan>,
) -> Option<QueuedPlan> {
    if !queue.is_closed() {
        tokio::select! {
            biased;
            queued = queue.recv() => return queued,
            () = context.closing.cancelled() => queue.close(),
        }
    }
    queue.recv().await
}

/// Waits for an idempotency slot (a record that will prove the outcome) for the first plan of a
/// batch. Returns `None` after the plan's deadline: its caller was answered, and nothing was sent.
async fn take_slot(context: &CommitContext, queued: QueuedPlan) -> Option<SentPlan> {
    match tokio::time::timeout_at(queued.deadline, context.slots.take()).await {
        Ok(slot) => unless_expired(context, queued, slot),
        Err(_late) => {
            refuse(queued);
            None
        }
    }
}

/// Returns the plan with its slot, or answers its caller and returns `None` if the deadline has
/// passed.
fn unless_expired(
    context: &CommitContext,
    queued: QueuedPlan,
    slot: TakenSlot,
) -> Option<SentPlan> {
    if queued.deadline > Instant::now() {
        return Some(SentPlan { queued, slot });
    }
    context.slots.settle(slot, crate::slots::SlotState::Unmoved);
    refuse(queued);
    None
}

fn refuse(mut queued: QueuedPlan) {
    let why = "the plan waited for other commits until the deadline".to_owned();
    let outcome = Outcome::Failed(VolumeError::Unavailable(why));
    if let Some(caller) = queued.caller.take() {
        let _gone = caller.send(CommitAnswer::without(outcome, queued.staged));
    }
}

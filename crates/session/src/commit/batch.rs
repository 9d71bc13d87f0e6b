//! Sends a batch and settles its plans by the store's answer.
//!
//! For example, of two plans in one batch one is committed and the other refused by its guard. Each
//! caller gets its own verdict.

use std::sync::Arc;

use store::{Plan, StoreError, StoreErrorKind, Verdict};
use tokio::time::Instant;
use tracing::warn;

use super::context::{CommitContext, FOREIGN_SLOT, Outcome, SLOT_GUARD, SentPlan, is_foreign};
use super::resolve;
use crate::slots::SlotState;

/// Commits a batch and settles its plans. Returns when the next batch may be sent; plans with an
/// unknown outcome are settled in a task of their own.
pub(super) async fn commit(context: Arc<CommitContext>, mut batch: Vec<SentPlan>) {
    let guarded =
        |SentPlan { queued, slot }: &SentPlan| context.add_session_guards(&queued.plan, slot);
    let plans: Vec<Plan> = batch.iter().map(guarded).collect();
    // From here on a plan that names the blocks may commit, so dropping the claim on them must not
    // delete them.
    for SentPlan { queued, slot } in &batch {
        let (number, step) = slot.step();
        queued.note.sent(number, step).expect("a file in memory can be written");
        context.self_writes.sent(&queued.plan);
        queued.staged.iter().for_each(|blocks| blocks.disarm());
    }
    let deadline = batch.iter().map(|sent| sent.queued.deadline).max();
    let deadline = deadline.unwrap_or_else(Instant::now);
    let store = Arc::clone(&context.store);
    let mut call = Box::pin(async move {
        match store.commit(&plans).await {
            // `Unavailable` means that nothing was committed, so the same batch may be sent once
            // more.
            Err(error) if error.kind() == StoreErrorKind::Unavailable => store.commit(&plans).await,
            answered => answered,
        }
    });
    context.meters.commits.add(1);
    context.meters.plans.add(batch.len() as u64);
    // Only the wait ends at the deadline. The call itself goes on, because dropping it would lose
    // its verdict.
    match tokio::time::timeout_at(deadline, &mut call).await {
        Ok(result) => settle(&context, batch, result),
        Err(_late) => {
            context.answer_unknown(&mut batch, "the store does not answer");
            let late = Arc::clone(&context);
            drop(context.tasks.spawn("late commit", async move {
                tokio::select! {
                    result = &mut call => settle(&late, batch, result),
                    () = late.gone.cancelled() => {}
                }
            }));
        }
    }
}

/// Gives each plan of a batch its outcome, by the store's answer to the batch.
fn settle(
    context: &Arc<CommitContext>,
    batch: Vec<SentPlan>,
    result: Result<Vec<Verdict>, StoreError>,
) {
    match result {
        Ok(verdicts) => {
            debug_assert_eq!(verdicts.len(), batch.len(), "one verdict for each plan");
            let mut decided = batch.iter().zip(&verdicts);
            // Fence before settling: verdicts of a store that has lost commits must not be
            // acknowledged.
            if decided.any(|(sent, verdict)| is_foreign(sent, verdict, SLOT_GUARD)) {
                context.state.fence(FOREIGN_SLOT);
            }
            for (sent, verdict) in batch.into_iter().zip(verdicts) {
                context.settle(sent, verdict);
            }
        }
        Err(error) if error.kind() == StoreErrorKind::Unknown => {
            warn!(plans = batch.len(), %error, "the outcome of commits is unknown");
            context.meters.in_doubt.add(batch.len() as u64);
            // Resolving may take minutes, and further batches must not wait for it.
            let resolving = resolve::resolve(Arc::clone(context), batch, error.to_string());
            drop(context.tasks.spawn("resolve doubts", resolving));
        }
        Err(error) => {
            for sent in batch {
                let outcome = match error.kind() {
                    // Nothing was committed, so the slots stay at their steps and are free again.
                    StoreErrorKind::Unavailable => Outcome::Aborted(error.to_string()),
                    StoreErrorKind::Full
                    | StoreErrorKind::Unknown
                    | StoreErrorKind::Corrupt
                    | StoreErrorKind::Malformed => Outcome::Failed(error.clone().into()),
                };
                context.finish(sent, SlotState::Unmoved, outcome);
            }
        }
    }
}

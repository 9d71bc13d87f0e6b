//! Finds the outcome of plans for which the store gave no answer.
//!
//! Each try sends a *tombstone* for each plan: the same step of the same slot, marked `aborted`.
//! For example, a plan advances slot 5 to step 12. If the tombstone commits, the plan can never
//! commit, since its guard expects step 11. If the tombstone is refused because step 12 exists
//! without the mark, the plan has committed.

use std::sync::Arc;
use std::time::Duration;

use store::{Guard, Plan, Read, StoreError, Verdict};
use tokio::time::Instant;
use tracing::{info, warn};

use super::context::{CommitContext, FOREIGN_SLOT, Outcome, SentPlan, is_foreign};
use crate::error::VolumeError;
use crate::slots::SlotState;
use crate::state::value;

/// The first pause between two tries to find the outcome of plans. It doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);

const SESSION_GUARD: usize = 0;
const SLOT_GUARD: usize = 1;

/// Settles plans with an unknown outcome, with tries until the session is over. Each caller is
/// answered when its plan has settled, or at the deadline with an unknown outcome. A watch is not
/// answered at the deadline: it waits until its plan has settled.
pub(super) async fn resolve(context: Arc<CommitContext>, mut batch: Vec<SentPlan>, why: String) {
    // All callers of a batch wait for the latest deadline among them, since they are answered
    // together.
    let deadline = batch.iter().map(|sent| sent.queued.deadline).max();
    let mut deadline = Some(deadline.unwrap_or_else(Instant::now));
    let mut pause = PAUSE_MIN;
    while !batch.is_empty() {
        // A try without an answer changes nothing, because a tombstone refuses itself once its slot
        // was advanced.
        batch = match abort(&context, batch, &mut deadline, &why).await {
            Some(batch) => batch,
            None => return,
        };
        if !batch.is_empty() {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = context.gone.cancelled() => return,
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
    // Only a batch that was reported as unresolved at its deadline is reported as settled.
    if deadline.is_none() {
        info!("the unknown outcomes of a batch are settled");
    }
}

/// Sends a tombstone for each plan: the write to its idempotency slot that keeps it from
/// committing. Returns the plans whose outcome is still unknown, or `None` if the session is over.
async fn abort(
    context: &Arc<CommitContext>,
    mut batch: Vec<SentPlan>,
    deadline: &mut Option<Instant>,
    why: &str,
) -> Option<Vec<SentPlan>> {
    // If the plan is still in flight, both write the slot. The database lets one commit first, and
    // the other is refused.
    let tombstone = |sent: &SentPlan| Plan {
        guards: vec![context.state.guard(), sent.slot.guard()],
        writes: vec![sent.slot.advance(true)],
    };
    let plans: Vec<Plan> = batch.iter().map(tombstone).collect();
    let mut call = context.store.commit(&plans);
    let result: Result<Vec<Verdict>, StoreError> = loop {
        let late = deadline.unwrap_or_else(Instant::now);
        tokio::select! {
            biased;
            result = &mut call => break result,
            () = context.gone.cancelled() => return None,
            () = tokio::time::sleep_until(late), if deadline.is_some() => {
                *deadline = None;
                warn!(plans = batch.len(), why, "outcomes are still unknown at the deadline");
                context.answer_unknown(&mut batch, why);
            }
        }
    };
    let verdicts = match result {
        Ok(verdicts) => verdicts,
        Err(error) => {
            warn!(plans = batch.len(), %error, "cannot resolve unknown outcomes yet: trying again");
            return Some(batch);
        }
    };
    let (mut ended, mut unsettled) = (Vec::new(), Vec::new());
    let mut decided = batch.iter().zip(&verdicts);
    // Fence before settling: a store that has lost commits of this session proves nothing by its
    // slots.
    if decided.any(|(sent, verdict)| is_foreign(sent, verdict, SLOT_GUARD)) {
        context.state.fence(FOREIGN_SLOT);
    }
    for (sent, verdict) in batch.into_iter().zip(verdicts) {
        match verdict {
            // The store did not decide this tombstone, so it is sent again.
            Verdict::Failed(_) => unsettled.push(sent),
            Verdict::Committed => context.settle_by_slot(sent, SlotState::Aborted),
            Verdict::Refused { guard: SLOT_GUARD, found } => {
                let step = sent.slot.read(found.as_ref());
                context.settle_by_slot(sent, step);
            }
            // The session's record is gone: tombstones cannot commit, but the slots still show the
            // outcomes.
            Verdict::Refused { guard, .. } => {
                debug_assert_eq!(guard, SESSION_GUARD, "there are two guards");
                ended.push(sent);
            }
        }
    }
    if !ended.is_empty() {
        unsettled.extend(read_slots(context, ended).await);
    }
    Some(unsettled)
}

/// Settles plans after their session has ended. None of them can commit any more. The slots show
/// which have committed, until the sweeper deletes them. Returns the plans if the store does not
/// answer.
async fn read_slots(context: &Arc<CommitContext>, batch: Vec<SentPlan>) -> Vec<SentPlan> {
    context.state.fence("an unknown outcome was resolved after the session had ended");
    let record = |sent: &SentPlan| Read::Record { key: sent.slot.key().clone(), follow: None };
    let reads: Vec<Read> = batch.iter().map(record).collect();
    let Ok(found) = context.store.read(&reads).await else { return batch };
    for (sent, found) in batch.into_iter().zip(&found) {
        let found = value(Some(found));
        let never_moved = matches!(sent.slot.guard(), Guard::Absent(_));
        match sent.slot.read(found.as_ref()) {
            SlotState::Committed => context.finish(sent, SlotState::Committed, Outcome::Committed),
            // A slot without a record looks the same before its first plan and after the sweeper
            // has deleted it, so the outcome stays unknown.
            SlotState::Unmoved if never_moved => context.abandon(sent),
            step @ (SlotState::Unmoved | SlotState::Aborted) => {
                context.finish(sent, step, Outcome::Failed(VolumeError::Fenced));
            }
            SlotState::Foreign => context.abandon(sent),
        }
    }
    Vec::new()
}

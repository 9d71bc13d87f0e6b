//! Makes the outcome of plans known that the store left in doubt.

use std::sync::Arc;
use std::time::Duration;

use store::{Guard, Plan, Read, StoreError, Verdict};
use tokio::time::Instant;
use tracing::{info, warn};

use super::{Desk, FOREIGN_TOKEN, Outcome, Sent, is_foreign};
use crate::error::VolumeError;
use crate::lanes::Step;
use crate::state::value;

/// The first pause between two tries; it doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);

const SESSION_GUARD: usize = 0;
const LANE_GUARD: usize = 1;

/// Settles plans in doubt, however long it takes while the volume lives. Callers are answered when
/// their plan has settled, and at the deadline in any case.
pub(super) async fn settle(desk: Arc<Desk>, mut batch: Vec<Sent>, why: String) {
    let deadline = batch.iter().map(|sent| sent.waiting.deadline).max();
    let mut deadline = Some(deadline.unwrap_or_else(Instant::now));
    let mut pause = PAUSE_MIN;
    while !batch.is_empty() {
        batch = match abort(&desk, batch, &mut deadline, &why).await {
            Some(batch) => batch,
            None => return,
        };
        if !batch.is_empty() {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = desk.gone.cancelled() => return,
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
    if deadline.is_none() {
        info!("plans that were in doubt have settled");
    }
}

/// Tries to abort the plans, and returns those that have not settled; `None` when the volume is
/// gone.
async fn abort(
    desk: &Arc<Desk>,
    mut batch: Vec<Sent>,
    deadline: &mut Option<Instant>,
    why: &str,
) -> Option<Vec<Sent>> {
    // A plan that may still be under way writes the lane too, so this waits for it or wins.
    let tombstone = |sent: &Sent| Plan {
        guards: vec![desk.state.guard(), sent.lane.guard()],
        writes: vec![sent.lane.advance(true)],
    };
    let plans: Vec<Plan> = batch.iter().map(tombstone).collect();
    let mut call = desk.store.commit(&plans);
    let result: Result<Vec<Verdict>, StoreError> = loop {
        let late = deadline.unwrap_or_else(Instant::now);
        tokio::select! {
            biased;
            result = &mut call => break result,
            () = desk.gone.cancelled() => return None,
            () = tokio::time::sleep_until(late), if deadline.is_some() => {
                *deadline = None;
                warn!(plans = batch.len(), why, "plans are still in doubt");
                desk.answer_unknown(&mut batch, why);
            }
        }
    };
    let verdicts = match result {
        Ok(verdicts) => verdicts,
        Err(error) => {
            warn!(plans = batch.len(), %error, "a doubt could not be resolved yet");
            return Some(batch);
        }
    };
    let (mut ended, mut left) = (Vec::new(), Vec::new());
    let mut decided = batch.iter().zip(&verdicts);
    if decided.any(|(sent, verdict)| is_foreign(sent, verdict, LANE_GUARD)) {
        desk.state.fence(FOREIGN_TOKEN);
    }
    for (sent, verdict) in batch.into_iter().zip(verdicts) {
        match verdict {
            Verdict::Failed(_) => left.push(sent),
            Verdict::Committed => desk.settle_by_lane(sent, Step::Aborted),
            Verdict::Refused { guard: LANE_GUARD, found } => {
                let step = sent.lane.read(found.as_ref());
                desk.settle_by_lane(sent, step);
            }
            Verdict::Refused { guard, .. } => {
                debug_assert_eq!(guard, SESSION_GUARD, "there are two guards");
                ended.push(sent);
            }
        }
    }
    if !ended.is_empty() {
        left.extend(read_lanes(desk, ended).await);
    }
    Some(left)
}

/// After the session has ended none of its plans can commit any more; the lanes say which did,
/// until the sweeper removes them. Returns the plans again if the store does not answer.
async fn read_lanes(desk: &Arc<Desk>, batch: Vec<Sent>) -> Vec<Sent> {
    desk.state.fence("a doubt was resolved after the session had ended");
    let record = |sent: &Sent| Read::Record { key: sent.lane.key().clone(), follow: None };
    let reads: Vec<Read> = batch.iter().map(record).collect();
    let Ok(found) = desk.store.read(&reads).await else { return batch };
    for (sent, found) in batch.into_iter().zip(&found) {
        let found = value(Some(found));
        let never_moved = matches!(sent.lane.guard(), Guard::Absent(_));
        match sent.lane.read(found.as_ref()) {
            Step::Taken => desk.finish(sent, Step::Taken, Outcome::Committed),
            // A lane without a record looks the same before its first plan and after the sweeper
            // came: nobody can tell any more.
            Step::Untouched if never_moved => desk.lose(sent),
            step @ (Step::Untouched | Step::Aborted) => {
                desk.finish(sent, step, Outcome::Failed(VolumeError::Fenced));
            }
            Step::Foreign => desk.lose(sent),
        }
    }
    Vec::new()
}

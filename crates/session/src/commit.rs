//! Group commit, and what becomes of a plan whose outcome is not known.
//!
//! Plans wait in a bounded queue. Whatever waits when a batch may go, or comes from tasks that are
//! ready by then, forms the batch, so an idle volume adds no delay and a busy one shares its round
//! trips. From there on nobody's disconnect stops anything: the batch, its resolution and its
//! bookkeeping run in tasks of the volume.
//!
//! Every plan guards its session and takes a step in a *lane* (see [`crate::lanes`]). When the
//! store cannot say whether a plan happened, the same step is taken with the mark `aborted`: then
//! either the plan can never happen, or the lane says that it did. Until one is certain the
//! plan holds its lane, its reader's epoch and its staged blocks, which are deleted only when no
//! plan that names them can commit.

mod queue;
mod resolve;

use std::sync::Arc;
use std::time::Duration;

use content::StagedContent;
use namespace::FsError;
use runtime::Tasks;
use store::{Guard, Limits, MetaStore, Plan, StoreErrorKind, Value, Verdict};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::epoch::ReaderGuard;
use crate::error::VolumeError;
use crate::feed::OwnWrites;
use crate::lanes::{Lanes, Step, TakenLane};
use crate::meters::{self, Meters};
use crate::records::RecordCache;
use crate::state::State;

/// Plans that wait for a batch. More make their callers wait.
pub const QUEUE_PLANS_MAX: usize = 1_024;

/// How long a caller waits for the outcome of its plan, from when it asked.
pub const COMMIT_DEADLINE: Duration = Duration::from_secs(10);

/// What the committer adds to a plan: two guards and a write, and their bytes, about.
const ADDED_ITEMS: usize = 3;
const ADDED_BYTES: usize = 160;

/// Where the guards of the plan itself begin. The lane comes first: a plan that happened before
/// is then refused by its lane, whatever has become of the records that it guards.
const LANE_GUARD: usize = 0;
const SESSION_GUARD: usize = 1;
const OWN_GUARDS: usize = 2;

/// Why a session ends whose store has forgotten what was committed.
const FOREIGN_TOKEN: &str = "the store holds a token that this session did not write";

/// Whether a verdict shows that the store does not hold what this session committed before.
fn is_foreign(sent: &Sent, verdict: &Verdict, lane_guard: usize) -> bool {
    match verdict {
        Verdict::Refused { guard, found } if *guard == lane_guard => {
            matches!(sent.lane.read(found.as_ref()), Step::Foreign | Step::Untouched)
        }
        Verdict::Refused { .. } | Verdict::Committed | Verdict::Failed(_) => false,
    }
}

/// What a caller may rely on.
#[derive(Debug)]
pub enum Outcome {
    /// Every guard held, and the plan happened.
    Committed,
    /// One of the plan's own guards did not hold: its index, and what it met.
    Refused {
        /// Which.
        guard: usize,
        /// The record that it met, if there is one.
        found: Option<Value>,
    },
    /// The plan did not happen and never will, though it might have.
    Aborted(String),
    /// Trouble. Only with [`VolumeError::Unknown`] the plan may have happened.
    Failed(VolumeError),
}

/// An outcome, and the staged content that the plan would have named, if it certainly does not.
pub(crate) type Answer = (Outcome, Option<StagedContent>);

/// A plan on its way.
#[derive(Debug)]
struct Waiting {
    plan: Plan,
    staged: Option<StagedContent>,
    reading: ReaderGuard,
    deadline: Instant,
    /// Taken when the caller is answered, which may be before the plan has settled.
    caller: Option<oneshot::Sender<Answer>>,
}

/// A plan that was sent, in its lane.
#[derive(Debug)]
struct Sent {
    waiting: Waiting,
    lane: TakenLane,
}

/// Where plans go. Dropping it ends the queue once what waits has been sent.
#[derive(Clone, Debug)]
pub(crate) struct Committer {
    queue: mpsc::Sender<Waiting>,
    desk: Arc<Desk>,
}

/// What batches need.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) store: Arc<dyn MetaStore>,
    pub(crate) limits: Limits,
    pub(crate) state: Arc<State>,
    pub(crate) lanes: Lanes,
    pub(crate) records: Arc<RecordCache>,
    pub(crate) own: Arc<OwnWrites>,
    pub(crate) meters: Arc<Meters>,
    pub(crate) tasks: Tasks,
    /// Cancelled when the volume closes: what waits is sent, and nothing comes after it.
    pub(crate) closing: CancellationToken,
    /// Cancelled when the volume is gone: doubts are left to the next session.
    pub(crate) gone: CancellationToken,
}

impl Committer {
    /// Begins to commit; `in_flight` batches at a time.
    pub(crate) fn new(desk: Desk, in_flight: usize) -> Committer {
        let (queue, plans) = mpsc::channel(QUEUE_PLANS_MAX);
        let desk = Arc::new(desk);
        let serving = queue::serve(Arc::clone(&desk), plans, in_flight.max(1));
        drop(desk.tasks.spawn("committer", serving));
        Committer { queue, desk }
    }

    /// What was sent and has not come back by the feed.
    pub(crate) fn own_writes(&self) -> Arc<OwnWrites> {
        Arc::clone(&self.desk.own)
    }

    /// Ends the session: the store does not hold what this session wrote.
    pub(crate) fn fence(&self, how: &str) {
        self.desk.state.fence(how);
    }

    /// The lanes, to be removed with the session.
    pub(crate) fn lanes(&self) -> &Lanes {
        &self.desk.lanes
    }

    /// Commits a plan together with others. `reading` is held until the plan has settled, and
    /// `staged` is given back if the plan certainly did not happen; what is given back to nobody
    /// is deleted.
    ///
    /// Dropping the returned future takes nothing back once the plan is in the queue.
    pub(crate) async fn commit(
        &self,
        plan: Plan,
        reading: ReaderGuard,
        staged: Option<StagedContent>,
    ) -> Answer {
        if self.desk.state.is_fenced() {
            return (Outcome::Failed(VolumeError::Fenced), staged);
        }
        if let Err(malformed) = self.desk.check(&plan) {
            let error = store::StoreError::from(malformed);
            return (Outcome::Failed(error.into()), staged);
        }
        meters::charge_commit();
        let deadline = Instant::now() + COMMIT_DEADLINE;
        let (caller, answer) = oneshot::channel();
        let Ok(Ok(place)) = tokio::time::timeout_at(deadline, self.queue.reserve()).await else {
            let busy = "the queue of commits does not move or is closed".to_owned();
            return (Outcome::Failed(VolumeError::Unavailable(busy)), staged);
        };
        place.send(Waiting { plan, staged, reading, deadline, caller: Some(caller) });
        answer.await.unwrap_or_else(|_dropped| {
            let lost = "the task that commits has ended".to_owned();
            (Outcome::Failed(VolumeError::Unknown(lost)), None)
        })
    }
}

impl Desk {
    /// Whether a plan fits the store's limits together with what is added to it.
    fn check(&self, plan: &Plan) -> Result<(), store::Malformed> {
        let limits = Limits {
            plan_items: self.limits.plan_items.saturating_sub(ADDED_ITEMS),
            plan_bytes: self.limits.plan_bytes.saturating_sub(ADDED_BYTES),
            ..self.limits
        };
        plan.check(&limits)
    }

    /// The plan as it is sent.
    fn dress(&self, plan: &Plan, lane: &TakenLane) -> Plan {
        let mut guards = Vec::with_capacity(plan.guards.len() + OWN_GUARDS);
        guards.push(lane.guard());
        guards.push(self.state.guard());
        guards.extend_from_slice(&plan.guards);
        let mut writes = Vec::with_capacity(plan.writes.len() + 1);
        writes.extend_from_slice(&plan.writes);
        writes.push(lane.advance(false));
        Plan { guards, writes }
    }

    /// Commits a batch and settles its plans. Returns when the next batch may go; what is left
    /// to settle goes on in a task of its own.
    async fn decide(self: Arc<Self>, mut batch: Vec<Sent>) {
        let plans: Vec<Plan> =
            batch.iter().map(|Sent { waiting, lane }| self.dress(&waiting.plan, lane)).collect();
        // From here on a plan that names the blocks may commit.
        for Sent { waiting, .. } in &mut batch {
            self.own.sent(&waiting.plan);
            waiting.staged.iter_mut().for_each(StagedContent::disarm);
        }
        let deadline = batch.iter().map(|sent| sent.waiting.deadline).max();
        let deadline = deadline.unwrap_or_else(Instant::now);
        let store = Arc::clone(&self.store);
        let mut call = Box::pin(async move {
            let first = store.commit(&plans).await;
            match first {
                // Nothing happened, so the same batch may go once more.
                Err(error) if error.kind() == StoreErrorKind::Unavailable => {
                    store.commit(&plans).await
                }
                answered => answered,
            }
        });
        self.meters.commits.add(1);
        self.meters.plans.add(batch.len() as u64);
        // The call is never dropped: only the wait for it ends at the deadline.
        match tokio::time::timeout_at(deadline, &mut call).await {
            Ok(result) => self.conclude(batch, result),
            Err(_late) => {
                self.answer_unknown(&mut batch, "the store does not answer");
                let desk = Arc::clone(&self);
                drop(self.tasks.spawn("late commit", async move {
                    tokio::select! {
                        result = &mut call => desk.conclude(batch, result),
                        () = desk.gone.cancelled() => {}
                    }
                }));
            }
        }
    }

    /// Settles a batch by what the store said of it.
    fn conclude(
        self: &Arc<Self>,
        batch: Vec<Sent>,
        result: Result<Vec<Verdict>, store::StoreError>,
    ) {
        match result {
            Ok(verdicts) => {
                debug_assert_eq!(verdicts.len(), batch.len(), "one verdict for each plan");
                let mut decided = batch.iter().zip(&verdicts);
                if decided.any(|(sent, verdict)| is_foreign(sent, verdict, LANE_GUARD)) {
                    self.state.fence(FOREIGN_TOKEN);
                }
                for (sent, verdict) in batch.into_iter().zip(verdicts) {
                    self.settle(sent, verdict);
                }
            }
            Err(error) if error.kind() == StoreErrorKind::Unknown => {
                warn!(plans = batch.len(), %error, "a commit is in doubt");
                self.meters.in_doubt.add(batch.len() as u64);
                let settling = resolve::settle(Arc::clone(self), batch, error.to_string());
                drop(self.tasks.spawn("settle doubts", settling));
            }
            Err(error) => {
                for sent in batch {
                    let answer = match error.kind() {
                        StoreErrorKind::Unavailable => Outcome::Aborted(error.to_string()),
                        _ => Outcome::Failed(VolumeError::Corrupt(error.to_string())),
                    };
                    self.finish(sent, Step::Untouched, answer);
                }
            }
        }
    }

    /// Settles a plan by its verdict.
    fn settle(&self, sent: Sent, verdict: Verdict) {
        match verdict {
            // A store that has forgotten something may forget this, too.
            Verdict::Committed if self.state.is_fenced() => self.lose(sent),
            Verdict::Committed => self.finish(sent, Step::Taken, Outcome::Committed),
            Verdict::Failed(StoreErrorKind::Unavailable) => {
                let why = "the metadata store has no room for more".to_owned();
                self.finish(sent, Step::Untouched, Outcome::Aborted(why));
            }
            Verdict::Failed(_) => {
                let why = "a record in the metadata store is damaged".to_owned();
                let corrupt = Outcome::Failed(VolumeError::Corrupt(why));
                self.finish(sent, Step::Untouched, corrupt);
            }
            Verdict::Refused { guard: LANE_GUARD, found } => {
                // The plan was decided before, by a delivery that nobody told us of.
                let step = sent.lane.read(found.as_ref());
                self.settle_by_lane(sent, step);
            }
            Verdict::Refused { guard: SESSION_GUARD, .. } => {
                self.state.fence("a plan was refused by the session's guard");
                let fenced = Outcome::Failed(VolumeError::Fenced);
                self.finish(sent, Step::Untouched, fenced);
            }
            Verdict::Refused { guard, found } => {
                self.meters.refused.add(1);
                let guard = guard.saturating_sub(OWN_GUARDS);
                self.finish(sent, Step::Untouched, Outcome::Refused { guard, found });
            }
        }
    }

    /// Settles a plan whose lane has moved.
    fn settle_by_lane(&self, sent: Sent, step: Step) {
        match step {
            Step::Taken => {
                self.records.committed(&sent.waiting.plan);
                self.finish(sent, step, Outcome::Committed);
            }
            Step::Aborted => {
                let why = "the outcome was unknown; it is certain now that nothing happened";
                self.finish(sent, step, Outcome::Aborted(why.to_owned()));
            }
            Step::Untouched | Step::Foreign => {
                self.state.fence(FOREIGN_TOKEN);
                self.lose(sent);
            }
        }
    }

    /// Gives up on a plan: its blocks are kept, and its lane is not used again.
    fn lose(&self, mut sent: Sent) {
        self.answer_unknown(std::slice::from_mut(&mut sent), "the session has ended");
        let Sent { waiting, lane } = sent;
        self.lanes.settle(lane, Step::Foreign);
        drop(waiting);
    }

    /// Answers a plan's caller for good and lets go of what the plan held.
    fn finish(&self, sent: Sent, step: Step, outcome: Outcome) {
        let Sent { waiting, lane } = sent;
        let Waiting { plan, mut staged, reading, caller, .. } = waiting;
        self.lanes.settle(lane, step);
        if matches!(outcome, Outcome::Committed) {
            staged = None;
        } else {
            self.own.dropped(&plan);
            self.forget_misled(&plan, &outcome);
        }
        staged.iter_mut().for_each(StagedContent::rearm);
        if let Some(caller) = caller {
            // A caller that has gone has no use for its blocks either: they are deleted.
            let _gone = caller.send((outcome, staged));
        }
        drop(reading);
    }

    /// Corrects the hint that a refused plan rested on.
    fn forget_misled(&self, plan: &Plan, outcome: &Outcome) {
        let Outcome::Refused { guard, found } = outcome else { return };
        match (plan.guards.get(*guard), found) {
            (Some(Guard::Equals(key, _) | Guard::Absent(key)), Some(value)) => {
                self.records.met(key, Some(value));
            }
            (Some(Guard::Equals(key, _) | Guard::Absent(key) | Guard::Present(key)), None) => {
                self.records.met(key, None);
            }
            _ => {}
        }
    }

    /// Answers callers whose plans have not settled. Their blocks are kept.
    fn answer_unknown(&self, batch: &mut [Sent], why: &str) {
        for Sent { waiting, .. } in batch {
            if let Some(caller) = waiting.caller.take() {
                self.meters.unresolved.add(1);
                let unknown = Outcome::Failed(VolumeError::Unknown(why.to_owned()));
                let _gone = caller.send((unknown, None));
            }
        }
    }
}

impl From<Outcome> for Result<(), VolumeError> {
    /// For plans that are not planned again: a refusal is contention.
    fn from(outcome: Outcome) -> Result<(), VolumeError> {
        match outcome {
            Outcome::Committed => Ok(()),
            Outcome::Refused { .. } => Err(FsError::Contended.into()),
            Outcome::Aborted(why) => Err(VolumeError::Unavailable(why)),
            Outcome::Failed(error) => Err(error),
        }
    }
}

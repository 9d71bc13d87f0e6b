//! What becomes of plans that were sent, and what all who handle them share.

use std::sync::Arc;

use content::StagedContent;
use ledger::Note;
use namespace::FsError;
use runtime::Tasks;
use store::{Guard, Limits, MetaStore, Plan, StoreErrorKind, Value, Verdict};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::epoch::ReaderGuard;
use crate::error::VolumeError;
use crate::feed::SelfWrites;
use crate::meters::Meters;
use crate::records::RecordCache;
use crate::slots::{IdempotencySlots, SlotState, TakenSlot};
use crate::state::SessionState;
use crate::watch::{PendingInvalidation, Watches};

/// What the committer adds to a plan: two guards and a write, and their bytes, about.
pub(super) const ADDED_ITEMS: usize = 3;
pub(super) const ADDED_BYTES: usize = 160;

/// Positions of the guards that are added; those of the plan itself follow. The slot comes first, so
/// that a plan that happened before is refused by its slot, whatever has become of the records that
/// it guards.
pub(super) const SLOT_GUARD: usize = 0;
const SESSION_GUARD: usize = 1;
const OWN_GUARDS: usize = 2;

/// Why a session ends whose store has forgotten what was committed.
pub(super) const FOREIGN_SLOT: &str =
    "the store holds a record of this session that it did not write";

/// Whether a verdict shows that the store does not hold what this session committed before.
pub(super) fn is_foreign(sent: &SentPlan, verdict: &Verdict, slot_guard: usize) -> bool {
    match verdict {
        Verdict::Refused { guard, found } if *guard == slot_guard => {
            matches!(sent.slot.read(found.as_ref()), SlotState::Foreign | SlotState::Unmoved)
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

/// What a caller is answered.
#[derive(Debug)]
pub(crate) struct CommitAnswer {
    pub(crate) outcome: Outcome,
    /// The staged content that the plan would have named, if it certainly does not.
    pub(crate) staged: Option<StagedContent>,
    /// What others remember and is being taken back.
    pub(crate) invalidation: Option<PendingInvalidation>,
}

impl CommitAnswer {
    /// An answer of a plan that was not committed.
    pub(super) fn without(outcome: Outcome, staged: Option<StagedContent>) -> CommitAnswer {
        CommitAnswer { outcome, staged, invalidation: None }
    }
}

/// For whom a plan is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommittedFor {
    /// A client that is to have an answer in time, whatever it is. Watches are told of what it changes.
    Client,
    /// One who watches, and waits until it is known what has become of the plan.
    Watch,
    /// Upkeep, which looks again.
    Upkeep,
}

/// A plan on its way.
#[derive(Debug)]
pub(super) struct QueuedPlan {
    pub(super) plan: Plan,
    pub(super) staged: Option<StagedContent>,
    pub(super) reading: ReaderGuard,
    pub(super) deadline: Instant,
    pub(super) committed_for: CommittedFor,
    /// The request that it carries out, if a journal notes it.
    pub(super) note: Note,
    /// Taken when the caller is answered, which may be before the plan has settled.
    pub(super) caller: Option<oneshot::Sender<CommitAnswer>>,
}

/// A plan that was sent, in its slot.
#[derive(Debug)]
pub(super) struct SentPlan {
    pub(super) queued: QueuedPlan,
    pub(super) slot: TakenSlot,
}

/// What all batches of a session share.
#[derive(Debug)]
pub(crate) struct CommitContext {
    pub(crate) store: Arc<dyn MetaStore>,
    pub(crate) limits: Limits,
    pub(crate) state: Arc<SessionState>,
    pub(crate) slots: IdempotencySlots,
    pub(crate) records: Arc<RecordCache>,
    pub(crate) self_writes: Arc<SelfWrites>,
    pub(crate) meters: Arc<Meters>,
    pub(crate) watches: Arc<Watches>,
    pub(crate) tasks: Tasks,
    /// Cancelled when the volume closes: what waits is sent, and nothing comes after it.
    pub(crate) closing: CancellationToken,
    /// Cancelled when the volume is gone: doubts are left to the next session.
    pub(crate) gone: CancellationToken,
}

impl CommitContext {
    /// Whether a plan fits the store's limits together with what is added to it.
    pub(super) fn check(&self, plan: &Plan) -> Result<(), store::Malformed> {
        let limits = Limits {
            plan_items: self.limits.plan_items.saturating_sub(ADDED_ITEMS),
            plan_bytes: self.limits.plan_bytes.saturating_sub(ADDED_BYTES),
            ..self.limits
        };
        plan.check(&limits)
    }

    /// The plan as it is sent.
    pub(super) fn add_session_guards(&self, plan: &Plan, slot: &TakenSlot) -> Plan {
        let mut guards = Vec::with_capacity(plan.guards.len() + OWN_GUARDS);
        guards.push(slot.guard());
        guards.push(self.state.guard());
        guards.extend_from_slice(&plan.guards);
        let mut writes = Vec::with_capacity(plan.writes.len() + 1);
        writes.extend_from_slice(&plan.writes);
        writes.push(slot.advance(false));
        Plan { guards, writes }
    }

    /// Settles a plan by its verdict.
    pub(super) fn settle(&self, sent: SentPlan, verdict: Verdict) {
        match verdict {
            // A store that has forgotten something may forget this, too.
            Verdict::Committed if self.state.is_fenced() => self.abandon(sent),
            Verdict::Committed => self.finish(sent, SlotState::Committed, Outcome::Committed),
            Verdict::Failed(StoreErrorKind::Full) => {
                let why = "the metadata store is out of space".to_owned();
                let full = Outcome::Failed(VolumeError::Full(why));
                self.finish(sent, SlotState::Unmoved, full);
            }
            Verdict::Failed(StoreErrorKind::Unavailable) => {
                let why = "the metadata store did not take the plan".to_owned();
                self.finish(sent, SlotState::Unmoved, Outcome::Aborted(why));
            }
            Verdict::Failed(_) => {
                let why = "a record in the metadata store is damaged".to_owned();
                let corrupt = Outcome::Failed(VolumeError::Corrupt(why));
                self.finish(sent, SlotState::Unmoved, corrupt);
            }
            Verdict::Refused { guard: SLOT_GUARD, found } => {
                // An earlier delivery of the plan was decided, and its answer was lost.
                let step = sent.slot.read(found.as_ref());
                self.settle_by_slot(sent, step);
            }
            Verdict::Refused { guard: SESSION_GUARD, .. } => {
                self.state.fence("a plan was refused by the session's guard");
                let fenced = Outcome::Failed(VolumeError::Fenced);
                self.finish(sent, SlotState::Unmoved, fenced);
            }
            Verdict::Refused { guard, found } => {
                self.meters.refused.add(1);
                let guard = guard.saturating_sub(OWN_GUARDS);
                self.finish(sent, SlotState::Unmoved, Outcome::Refused { guard, found });
            }
        }
    }

    /// Settles a plan whose slot has moved.
    pub(super) fn settle_by_slot(&self, sent: SentPlan, step: SlotState) {
        match step {
            SlotState::Committed => {
                self.records.note_committed(&sent.queued.plan);
                self.finish(sent, step, Outcome::Committed);
            }
            SlotState::Aborted => {
                let why = "the outcome was unknown; it is certain now that nothing happened";
                self.finish(sent, step, Outcome::Aborted(why.to_owned()));
            }
            SlotState::Unmoved | SlotState::Foreign => {
                self.state.fence(FOREIGN_SLOT);
                self.abandon(sent);
            }
        }
    }

    /// Gives up on a plan: its blocks are kept, and its slot is not used again.
    pub(super) fn abandon(&self, mut sent: SentPlan) {
        self.answer_unsettled(&mut sent, "the session has ended");
        let SentPlan { queued, slot } = sent;
        self.slots.settle(slot, SlotState::Foreign);
        drop(queued);
    }

    /// Answers a plan's caller for good and lets go of what the plan held.
    pub(super) fn finish(&self, sent: SentPlan, step: SlotState, outcome: Outcome) {
        let SentPlan { queued, slot } = sent;
        let QueuedPlan { plan, mut staged, reading, committed_for, note, caller, .. } = queued;
        note.settled(matches!(outcome, Outcome::Committed));
        self.slots.settle(slot, step);
        let mut invalidation = None;
        if matches!(outcome, Outcome::Committed) {
            staged = None;
            if committed_for == CommittedFor::Client {
                invalidation = self.watches.committed(&plan);
            }
        } else {
            self.self_writes.dropped(&plan);
            self.correct_hint(&plan, &outcome);
        }
        staged.iter_mut().for_each(StagedContent::rearm);
        if let Some(caller) = caller {
            // A caller that has gone has no use for its blocks either: they are deleted.
            let _gone = caller.send(CommitAnswer { outcome, staged, invalidation });
        }
        drop(reading);
    }

    /// Corrects the hint that a refused plan rested on.
    fn correct_hint(&self, plan: &Plan, outcome: &Outcome) {
        let Outcome::Refused { guard, found } = outcome else { return };
        match (plan.guards.get(*guard), found) {
            (Some(Guard::Equals(key, _) | Guard::Absent(key)), Some(value)) => {
                self.records.note_refusal(key, Some(value));
            }
            (Some(Guard::Equals(key, _) | Guard::Absent(key) | Guard::Present(key)), None) => {
                self.records.note_refusal(key, None);
            }
            _ => {}
        }
    }

    /// Answers callers whose plans have not settled, but for those who wait until they have. Their
    /// blocks are kept.
    pub(super) fn answer_unknown(&self, batch: &mut [SentPlan], why: &str) {
        let waits = |sent: &SentPlan| sent.queued.committed_for == CommittedFor::Watch;
        for sent in batch.iter_mut().filter(|sent| !waits(sent)) {
            self.answer_unsettled(sent, why);
        }
    }

    fn answer_unsettled(&self, sent: &mut SentPlan, why: &str) {
        if let Some(caller) = sent.queued.caller.take() {
            self.meters.unresolved.add(1);
            let unknown = Outcome::Failed(VolumeError::Unknown(why.to_owned()));
            let _gone = caller.send(CommitAnswer::without(unknown, None));
        }
    }
}

//! Settling of plans that were sent, and the state that all batches share.
//!
//! For example, a refused plan gives its staged blocks back to its caller, frees its slot, and
//! stores the record that the guard found as a hint.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ledger::Note;
use namespace::FsError;
use publication::StagedBlocks;
use runtime::Tasks;
use store::{Guard, Limits, MetaStore, Plan, StoreErrorKind, Value, Verdict};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::epoch::ReaderGuard;
use crate::error::VolumeError;
use crate::feed::SelfWrites;
use crate::leases::Leases;
use crate::meters::Meters;
use crate::records::RecordCache;
use crate::slots::{IdempotencySlots, SlotState, TakenSlot};
use crate::state::SessionState;
use crate::watch::{PendingInvalidation, Watches};

/// Items (guards and writes) that the committer adds to a plan: two guards and a write, for the
/// plan's idempotency slot and the session.
pub(super) const ADDED_ITEMS: usize = 3;
pub(super) const ADDED_BYTES: usize = 160;

/// Positions of the added guards; the plan's own guards follow. The slot comes first: a plan that
/// has committed before is then refused by its slot, also if its own guards fail now.
pub(super) const SLOT_GUARD: usize = 0;
const SESSION_GUARD: usize = 1;
const OWN_GUARDS: usize = 2;

/// The reason of fencing, that is, of ending this session, if the store has lost committed records.
pub(super) const FOREIGN_SLOT: &str =
    "the store holds a record of this session that it did not write";

/// Returns true if the verdict shows that the store has lost a record of this session: the slot's
/// record is not one that this session wrote.
pub(super) fn is_foreign(sent: &SentPlan, verdict: &Verdict, slot_guard: usize) -> bool {
    match verdict {
        Verdict::Refused { guard, found } if *guard == slot_guard => {
            matches!(sent.slot.read(found.as_ref()), SlotState::Foreign | SlotState::Unmoved)
        }
        Verdict::Refused { .. } | Verdict::Committed | Verdict::Failed(_) => false,
    }
}

/// The outcome of a plan, as far as its caller may rely on it.
#[derive(Debug)]
pub enum Outcome {
    /// All guards held, and the plan was committed.
    Committed,
    /// One of the plan's own guards failed. Nothing was changed. The caller may plan again.
    Refused {
        /// The index, in the plan's list of guards, of the guard that failed. A guard is a
        /// condition on a record, so the caller learns which record another writer has changed.
        guard: usize,
        /// The record that the guard found, if there is one.
        found: Option<Value>,
    },
    /// The plan was not committed and never will be: the store did not accept it, or its outcome
    /// was unknown and the resolver has aborted it. The caller may send it again.
    Aborted(String),
    /// The plan failed. Only with [`VolumeError::Unknown`] it may have been committed.
    Failed(VolumeError),
}

impl From<Outcome> for Result<(), VolumeError> {
    /// For plans that are not planned again: a refusal becomes [`FsError::Contended`].
    fn from(outcome: Outcome) -> Result<(), VolumeError> {
        match outcome {
            Outcome::Committed => Ok(()),
            Outcome::Refused { .. } => Err(FsError::Contended.into()),
            Outcome::Aborted(why) => Err(VolumeError::Unavailable(why)),
            Outcome::Failed(error) => Err(error),
        }
    }
}

/// The answer to the caller of a commit.
#[derive(Debug)]
pub(crate) struct CommitAnswer {
    pub(crate) outcome: Outcome,
    /// The claim on the staged blocks, if the plan certainly was not committed.
    pub(crate) staged: Option<Arc<dyn StagedBlocks>>,
    /// The invalidation of kernel caches, if a watch has cached something that the plan changed.
    pub(crate) invalidation: Option<PendingInvalidation>,
}

impl CommitAnswer {
    /// Returns an answer without an invalidation, for every outcome but `Committed`.
    pub(super) fn without(outcome: Outcome, staged: Option<Arc<dyn StagedBlocks>>) -> CommitAnswer {
        CommitAnswer { outcome, staged, invalidation: None }
    }
}

/// The kind of caller, which decides about notifications and waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommittedFor {
    /// A client that must get an answer at the deadline, even an unknown outcome. Watches are
    /// notified of its changes.
    Client,
    /// The registered watch. It is not notified of its own changes, and waits until the outcome is
    /// known.
    Watch,
    /// Background work. Watches are not notified, and the work is tried again later.
    Upkeep,
}

/// A plan in the queue of plans to commit, or in flight.
#[derive(Debug)]
pub(super) struct QueuedPlan {
    pub(super) plan: Plan,
    pub(super) staged: Option<Arc<dyn StagedBlocks>>,
    pub(super) reading: ReaderGuard,
    pub(super) deadline: Instant,
    pub(super) committed_for: CommittedFor,
    /// The entry of the request in the ledger's journal, from which the next process of a mount
    /// learns its outcome; empty for other requests.
    pub(super) note: Note,
    /// Sends the answer. `None` after the caller was answered, which may be before the plan has
    /// settled.
    pub(super) caller: Option<oneshot::Sender<CommitAnswer>>,
}

/// A plan that was sent, with the idempotency slot whose record proves if it was committed.
#[derive(Debug)]
pub(super) struct SentPlan {
    pub(super) queued: QueuedPlan,
    pub(super) slot: TakenSlot,
}

/// The number of operations of callers that run now, that is, that plan, read or commit.
#[derive(Debug, Default)]
pub(crate) struct Operations(AtomicUsize);

impl Operations {
    /// Counts an operation until the returned value is dropped.
    pub(super) fn begin(&self) -> RunningOperation<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        RunningOperation(&self.0)
    }

    /// Returns the number of operations that run now. It is a moment's estimate.
    pub(super) fn running(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// An operation that runs and is counted.
#[derive(Debug)]
pub(crate) struct RunningOperation<'a>(&'a AtomicUsize);

impl Drop for RunningOperation<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The state that all batches of a session share.
#[derive(Debug)]
pub(crate) struct CommitContext {
    pub(crate) store: Arc<dyn MetaStore>,
    pub(crate) limits: Limits,
    pub(crate) state: Arc<SessionState>,
    pub(crate) slots: Arc<IdempotencySlots>,
    pub(crate) records: Arc<RecordCache>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) self_writes: Arc<SelfWrites>,
    pub(crate) meters: Arc<Meters>,
    pub(crate) operations: Operations,
    pub(crate) watches: Arc<Watches>,
    pub(crate) tasks: Tasks,
    /// Cancelled when the volume closes: queued plans are still sent, and later ones are refused.
    pub(crate) closing: CancellationToken,
    /// Cancelled when the session is over: unknown outcomes are left to the next session.
    pub(crate) gone: CancellationToken,
}

impl CommitContext {
    /// Checks that a plan fits the store's limits together with the items that are added to it.
    pub(super) fn check(&self, plan: &Plan) -> Result<(), store::Malformed> {
        let limits = Limits {
            plan_items: self.limits.plan_items.saturating_sub(ADDED_ITEMS),
            plan_bytes: self.limits.plan_bytes.saturating_sub(ADDED_BYTES),
            ..self.limits
        };
        plan.check(&limits)
    }

    /// Returns the plan as it is sent: with the guards of its idempotency slot and of the session,
    /// and the write that advances the slot.
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

    /// Gives a plan its outcome, by the store's verdict.
    pub(super) fn settle(&self, sent: SentPlan, verdict: Verdict) {
        match verdict {
            // The store has lost a record of this session, so it may have lost this commit, too.
            Verdict::Committed if self.state.is_fenced() => self.abandon(sent),
            Verdict::Committed => self.finish(sent, SlotState::Committed, Outcome::Committed),
            Verdict::Failed(StoreErrorKind::Full) => {
                let why = "the metadata store is out of space".to_owned();
                let full = Outcome::Failed(VolumeError::Full(why));
                self.finish(sent, SlotState::Unmoved, full);
            }
            Verdict::Failed(StoreErrorKind::Unavailable) => {
                let why = "the metadata store did not accept the plan".to_owned();
                self.finish(sent, SlotState::Unmoved, Outcome::Aborted(why));
            }
            Verdict::Failed(_) => {
                let why = "a record in the metadata store is damaged".to_owned();
                let corrupt = Outcome::Failed(VolumeError::Corrupt(why));
                self.finish(sent, SlotState::Unmoved, corrupt);
            }
            Verdict::Refused { guard: SLOT_GUARD, found } => {
                // The plan was sent twice, and the answer to the first time was lost.
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

    /// Gives a plan its outcome, by the state of its idempotency slot, whose record proves if the
    /// plan was committed.
    pub(super) fn settle_by_slot(&self, sent: SentPlan, step: SlotState) {
        match step {
            SlotState::Committed => {
                self.leases.slot_settled(sent.slot.key());
                self.records.note_committed(&sent.queued.plan);
                self.finish(sent, step, Outcome::Committed);
            }
            SlotState::Aborted => {
                self.leases.slot_settled(sent.slot.key());
                let why = "the outcome was unknown; it is certain now that nothing happened";
                self.finish(sent, step, Outcome::Aborted(why.to_owned()));
            }
            SlotState::Unmoved | SlotState::Foreign => {
                self.state.fence(FOREIGN_SLOT);
                self.abandon(sent);
            }
        }
    }

    /// Gives up a plan whose outcome cannot be known. Its blocks are kept, and its idempotency slot
    /// is not used again.
    pub(super) fn abandon(&self, mut sent: SentPlan) {
        self.answer_unsettled(&mut sent, "the session has ended");
        let SentPlan { queued, slot } = sent;
        self.slots.settle(slot, SlotState::Foreign);
        drop(queued);
    }

    /// Sends the final answer to a plan's caller, frees the plan's idempotency slot, and unpins the
    /// epoch of its reader.
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
        staged.iter().for_each(|blocks| blocks.rearm());
        if let Some(caller) = caller {
            // If the caller is gone, the send fails and the staged blocks in the answer are
            // deleted.
            let _gone = caller.send(CommitAnswer { outcome, staged, invalidation });
        }
        drop(reading);
    }

    /// Stores the record that a failed guard found, in place of the hint that the plan relied on.
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

    /// Answers the callers of plans with an unknown outcome, except mounts' watches, which wait
    /// until it is known. `why` is the reason. The plans' blocks are kept.
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

//! Ask, plan, commit: the loop that drives one operation, without the I/O.
//!
//! The caller of [`Run::advance`] is the *driver*. It reads, commits and reports the results:
//!
//! ```text
//!             advance             learn(results)
//! start ───────────────▶ Read ───────────────────▶ advance
//!                        Commit ── committed ────▶ the output is the answer
//!                               ── refused(guard) ▶ advance
//!                        Done, Corrupt            (end)
//! ```
//!
//! For example, a lookup of a key whose directories are not cached returns `Read` once for each
//! unknown level, and then `Done`.
//!
//! A [`Run`] keeps the records that its operation has read, from the first pass to the last. The
//! driver lends the hints (records cached from earlier operations) for one pass at a time. Debug
//! builds plan each pass twice from the same records and compare the results, which finds planners
//! that are not pure.

use std::fmt::Debug;

use record::{DecodeError, Nonce, Timestamp};
use store::{Guard, Key, Plan, Read, ReadResult, Value};

use crate::view::{Hints, Known, NoHints, View};
use crate::{FsError, Halt};

/// The inputs of an operation that are not records, such as the time. They are fixed for the life
/// of the operation, so that planning twice gives the same plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Env {
    /// The time of the operation by the session's clock. New records get this time.
    pub now: Timestamp,
    /// A lower bound of the current time, even if the clock of the host was set forward by mistake.
    /// Retention and object locks end by this time, so a wrong clock never ends them early.
    pub earliest_now: Timestamp,
    /// The name of the session (one run of a process) that runs the operation.
    pub session: Nonce,
    /// Unpredictable bits for ids of versions, so that two sessions never create one id.
    pub random: u64,
}

/// The result of one call of a planner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// The answer. Nothing is written.
    Done(T),
    /// The plan to commit, and the answer if the commit succeeds.
    Commit(Plan, T),
}

/// A namespace operation: a pure function from known records to a plan or an answer.
pub trait Planner: Debug {
    /// The answer of the operation.
    type Output;

    /// Plans the operation from the records of `view`. This must be a pure function: no clock, no
    /// randomness, no I/O. The driver calls it again from the start each time that more records are
    /// known.
    ///
    /// # Errors
    /// [`Halt::Need`] if a requested record is not known yet, [`Halt::Fail`] if the answer is an
    /// error, and [`Halt::Corrupt`] if a record does not decode.
    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<Self::Output>, Halt>;
}

/// The next step for the driver of a [`Run`].
#[derive(Debug)]
pub enum Next<T> {
    /// Execute these reads in one round trip, then call [`Run::learn`].
    Read(Vec<Read>),
    /// Commit this plan. If it commits, the output is the answer. If a guard refuses it, call
    /// [`Run::refused`].
    Commit(Plan, T),
    /// The operation has ended with this answer or error.
    Done(Result<T, FsError>),
    /// The operation has ended because the record of this key does not decode.
    Corrupt(Key, DecodeError),
}

/// The most passes (calls of the planner) of an operation that begin without any record that is new
/// to the operation. Beyond it the answer is [`FsError::Contended`], and the driver decides whether
/// to start a new run. Wrong hints are not used a second time, and passes that descend a deep path
/// always learn new records, so only real contention reaches this limit.
const PASSES_MAX: u32 = 64;

/// The most passes (calls of the planner) of an operation in all. The deepest path takes fewer.
/// Beyond it the answer is `FsError::Contended`.
const PASSES_IN_ALL_MAX: u32 = 4_096;

/// After this many passes (calls of the planner) without new records, the operation stops using
/// hints, which are records cached from earlier operations.
const PASSES_WITH_HINTS: u32 = 8;

/// One operation in progress: its planner, and the records that it has read so far.
#[derive(Debug)]
pub struct Run<'a, O: Planner> {
    operation: &'a O,
    env: Env,
    known: Known,
    /// The number of passes in all, and of those that began without a new record.
    passes: (u32, u32),
    /// The number of records that the operation had met when the last pass began.
    met: usize,
    /// True while the planner may use hints, which are records cached from earlier operations.
    uses_hints: bool,
}

impl<'a, O: Planner> Run<'a, O> {
    /// Starts an operation.
    pub fn new(operation: &'a O, env: Env) -> Run<'a, O> {
        let (known, passes) = (Known::default(), (0, 0));
        Run { operation, env, known, passes, met: 0, uses_hints: true }
    }

    /// Calls the planner until the driver must read or commit, or until the answer is known.
    /// `hints` are records cached from earlier operations.
    pub fn advance(&mut self, hints: &dyn Hints) -> Next<O::Output> {
        // A pass that begins with no new record repeats the previous decision. If this happens
        // often, some hint stays wrong, so all later passes use facts only.
        let (all, again) = &mut self.passes;
        *all += 1;
        if self.known.met() == self.met {
            *again += 1;
            if *again == PASSES_WITH_HINTS {
                self.uses_hints = false;
                self.known.discard();
            }
        }
        // Ends an operation that other writers refuse again and again.
        if *again > PASSES_MAX || *all > PASSES_IN_ALL_MAX {
            return Next::Done(Err(FsError::Contended));
        }
        self.met = self.known.met();
        let hints = if self.uses_hints { hints } else { &NoHints };
        self.known.begin();
        let next = self.pass(hints);
        // A planner that depends on anything else than its view and `env` gives two different plans
        // here.
        if cfg!(debug_assertions) {
            self.known.begin_again();
            let again = self.pass(hints);
            assert_same(self.operation, &next, &again);
        }
        next
    }

    /// Calls the planner once with the known records, and turns its result into the next step.
    fn pass(&mut self, hints: &dyn Hints) -> Next<O::Output> {
        match self.operation.plan(&mut View::new(hints, &mut self.known), &self.env) {
            // A missing record stops the pass. All reads of the pass go into one round trip.
            Err(Halt::Need) => Next::Read(self.known.needed()),
            Ok(Step::Commit(plan, output)) => Next::Commit(plan, output),
            // The answer rests on a hint or a guess. Reading all requested records again in one
            // snapshot turns each of them into a fact. A plan does not need this, because its
            // guards check the hints.
            _ if self.known.used_unverified() => Next::Read(self.known.requested()),
            Ok(Step::Done(output)) => Next::Done(Ok(output)),
            Err(Halt::Fail(error)) => Next::Done(Err(error)),
            Err(Halt::Corrupt(key, error)) => Next::Corrupt(key, error),
        }
    }

    /// Takes the results of the last [`Next::Read`]. `found` has one result for each of `reads`.
    pub fn learn(&mut self, reads: Vec<Read>, found: Vec<ReadResult>) {
        self.known.learn(reads, found);
    }

    /// Returns true if the operation has read the record, range or counter of this guard before, or
    /// was refused because of it.
    pub fn has_met(&self, guard: &Guard) -> bool {
        match guard {
            Guard::Equals(key, _) | Guard::Absent(key) | Guard::Present(key) => {
                self.known.has_met(key)
            }
            Guard::Empty(start, _) => self.known.has_met(start),
            Guard::AtMost(counter, _) => self.known.has_met(&counter.0),
        }
    }

    /// Takes the guard that refused the last plan, and the record that the store found instead;
    /// `None` if that record is absent. The next pass uses it.
    pub fn refused(&mut self, guard: &Guard, found: Option<Value>) {
        match guard {
            Guard::Equals(key, _) | Guard::Absent(key) => {
                self.known.contradict(key.clone(), Some(found));
            }
            Guard::Present(key) => self.known.contradict(key.clone(), Some(None)),
            Guard::Empty(start, _) => self.known.contradict(start.clone(), None),
            Guard::AtMost(counter, _) => self.known.note_full(counter.clone()),
        }
    }
}

/// Returns the answer that an operation would give from hints alone, that is, from records cached
/// from earlier operations. Returns `None` if a record is unknown, if the operation would commit a
/// plan, or if it would fail. Callers may refuse a request early because of the answer. They must
/// not answer a request from it.
pub fn plan_from_hints<O: Planner>(
    operation: &O,
    env: &Env,
    hints: &dyn Hints,
) -> Option<O::Output> {
    match operation.plan(&mut View::new(hints, &mut Known::default()), env) {
        Ok(Step::Done(output)) => Some(output),
        Ok(Step::Commit(..)) | Err(_) => None,
    }
}

/// Panics if two passes over the same records gave different results: then the planner is not pure.
fn assert_same<O: Planner>(operation: &O, next: &Next<O::Output>, again: &Next<O::Output>) {
    match (next, again) {
        (Next::Commit(plan, _), Next::Commit(twin, _)) => {
            assert_eq!(plan, twin, "{operation:?} planned twice differs");
        }
        (Next::Read(reads), Next::Read(twin)) => {
            assert_eq!(reads, twin, "{operation:?} asked twice differs");
        }
        (next, again) => assert_eq!(
            std::mem::discriminant(next),
            std::mem::discriminant(again),
            "{operation:?} planned twice differs"
        ),
    }
}

//! Ask, plan, commit: the loop that drives an operation, without the I/O.
//!
//! A [`Run`] lives as long as its operation, and keeps what the operation has learnt. Hints are
//! lent to it for a pass at a time. Debug builds plan every pass twice from the same knowledge, and
//! compare the results.

use std::fmt::Debug;

use record::{DecodeError, Nonce, Timestamp};
use store::{Guard, Key, Plan, Read, ReadResult, Value};

use crate::view::{Hints, Known, NoHints, View};
use crate::{FsError, Halt};

/// Fixed for the life of an operation, so that planning twice gives the same plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Env {
    /// The operation's time.
    pub now: Timestamp,
    /// A time that has surely come, however the clock has been set meanwhile: locks end by it.
    pub earliest_now: Timestamp,
    /// The session that runs it.
    pub session: Nonce,
    /// Bits that nobody guesses, for ids.
    pub random: u64,
}

/// What planning came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// The answer; nothing is to be written.
    Done(T),
    /// The answer once this plan is committed.
    Commit(Plan, T),
}

/// A namespace operation: a pure function from what is known to what must change.
pub trait Planner: Debug {
    /// What the operation answers.
    type Output;

    /// Plans the operation from what `view` knows. Pure: no clock, no randomness, no I/O, so it
    /// may be planned again from the start whenever more is known.
    fn plan(&self, view: &mut View<'_>, env: &Env) -> Result<Step<Self::Output>, Halt>;
}

/// What the driver of a [`Run`] must do next.
#[derive(Debug)]
pub enum Next<T> {
    /// Read these in one round trip, then call [`Run::learn`].
    Read(Vec<Read>),
    /// Commit this plan. Committed: the output is the answer. Refused: call [`Run::refused`].
    Commit(Plan, T),
    /// The answer.
    Done(Result<T, FsError>),
    /// A record does not decode.
    Corrupt(Key, DecodeError),
}

/// How often an operation may be planned without having met a record that it had not met before.
/// Then the answer is [`FsError::Contended`], and the driver decides whether a new run begins. Hints
/// that turned out wrong are not believed again, so only real contention comes near; the depth of a
/// path does not, though each of its directories may take a pass.
const PASSES_MAX: u32 = 64;

/// How often an operation may be planned at all: more than the deepest path takes.
const PASSES_IN_ALL_MAX: u32 = 4_096;

/// After so many passes that met nothing new hints are no longer asked.
const PASSES_WITH_HINTS: u32 = 8;

/// One operation under way.
#[derive(Debug)]
pub struct Run<'a, O: Planner> {
    operation: &'a O,
    env: Env,
    known: Known,
    /// Passes in all, and those that began with nothing new met.
    passes: (u32, u32),
    /// How many records had been met when the last pass began.
    met: usize,
    /// Whether hints are still asked.
    trusting: bool,
}

impl<'a, O: Planner> Run<'a, O> {
    /// Begins an operation.
    pub fn new(operation: &'a O, env: Env) -> Run<'a, O> {
        let (known, passes) = (Known::default(), (0, 0));
        Run { operation, env, known, passes, met: 0, trusting: true }
    }

    /// Plans until something must be read or committed, or the answer is there.
    pub fn advance(&mut self, hints: &dyn Hints) -> Next<O::Output> {
        let (all, again) = &mut self.passes;
        *all += 1;
        if self.known.met() == self.met {
            *again += 1;
            if *again == PASSES_WITH_HINTS {
                self.trusting = false;
                self.known.distrust();
            }
        }
        if *again > PASSES_MAX || *all > PASSES_IN_ALL_MAX {
            return Next::Done(Err(FsError::Contended));
        }
        self.met = self.known.met();
        let hints = if self.trusting { hints } else { &NoHints };
        self.known.begin();
        let next = self.pass(hints);
        if cfg!(debug_assertions) {
            self.known.begin_again();
            let again = self.pass(hints);
            assert_same(self.operation, &next, &again);
        }
        next
    }

    /// Plans once from what is known.
    fn pass(&mut self, hints: &dyn Hints) -> Next<O::Output> {
        match self.operation.plan(&mut View::new(hints, &mut self.known), &self.env) {
            Err(Halt::Need) => Next::Read(self.known.needed()),
            Ok(Step::Commit(plan, output)) => Next::Commit(plan, output),
            // An answer must come from one snapshot.
            _ if self.known.used_unverified() => Next::Read(self.known.asked()),
            Ok(Step::Done(output)) => Next::Done(Ok(output)),
            Err(Halt::Fail(error)) => Next::Done(Err(error)),
            Err(Halt::Corrupt(key, error)) => Next::Corrupt(key, error),
        }
    }

    /// Takes the answers to the last [`Next::Read`].
    pub fn learn(&mut self, reads: Vec<Read>, found: Vec<ReadResult>) {
        self.known.learn(reads, found);
    }

    /// Returns true if this operation has met the record of a guard before: read it, or been refused
    /// by it.
    pub fn has_met(&self, guard: &Guard) -> bool {
        match guard {
            Guard::Equals(key, _) | Guard::Absent(key) | Guard::Present(key) => {
                self.known.has_met(key)
            }
            Guard::Empty(start, _) => self.known.has_met(start),
            Guard::AtMost(counter, _) => self.known.has_met(&counter.0),
        }
    }

    /// Takes note of the guard that refused the last plan and of the record it met.
    pub fn refused(&mut self, guard: &Guard, found: Option<Value>) {
        match guard {
            Guard::Equals(key, _) | Guard::Absent(key) => {
                self.known.contradict(key.clone(), Some(found));
            }
            Guard::Present(key) => self.known.contradict(key.clone(), Some(None)),
            Guard::Empty(start, _) => self.known.contradict(start.clone(), None),
            Guard::AtMost(counter, _) => self.known.filled(counter.clone()),
        }
    }
}

/// What an operation would answer from hints alone, if they suffice. That is enough to refuse a
/// request early, and never enough to answer one.
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

/// A plan that depended on anything but its knowledge could not be planned again.
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

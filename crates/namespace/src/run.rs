//! Ask, plan, commit: the loop that drives an operation, without the I/O.

use std::fmt::Debug;

use record::{DecodeError, Nonce, Timestamp};
use store::{Found, Guard, Key, Plan, Read, Value};

use crate::view::{Hints, View};
use crate::{FsError, Halt};

/// Fixed for the life of an operation, so that planning twice gives the same plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Env {
    /// The operation's time.
    pub now: Timestamp,
    /// The session that runs it.
    pub session: Nonce,
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
pub trait Operation: Debug {
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
/// Hints that turned out wrong are not believed again, so only real contention comes near; the
/// depth of a path does not, though each of its directories may take a pass.
pub const PASSES_MAX: u32 = 64;

/// How often an operation may be planned at all: more than the deepest path takes.
const PASSES_IN_ALL_MAX: u32 = 4_096;

/// After so many passes that met nothing new hints are no longer asked.
const PASSES_WITH_HINTS: u32 = 8;

/// One operation under way.
#[derive(Debug)]
pub struct Run<'a, O: Operation> {
    operation: &'a O,
    env: Env,
    view: View<'a>,
    /// Passes in all, and those that began with nothing new met.
    passes: (u32, u32),
    /// How many records had been met when the last pass began.
    met: usize,
}

impl<'a, O: Operation> Run<'a, O> {
    /// Begins an operation.
    pub fn new(operation: &'a O, env: Env, hints: &'a dyn Hints) -> Run<'a, O> {
        Run { operation, env, view: View::new(hints), passes: (0, 0), met: 0 }
    }

    /// Plans until something must be read or committed, or the answer is there.
    pub fn advance(&mut self) -> Next<O::Output> {
        let (all, again) = &mut self.passes;
        *all += 1;
        if self.view.met() == self.met {
            *again += 1;
            if *again == PASSES_WITH_HINTS {
                self.view.distrust();
            }
        }
        if *again > PASSES_MAX || *all > PASSES_IN_ALL_MAX {
            return Next::Done(Err(FsError::Contended));
        }
        self.met = self.view.met();
        self.view.begin();
        match self.operation.plan(&mut self.view, &self.env) {
            Err(Halt::Need) => Next::Read(self.view.asked()),
            Ok(Step::Commit(plan, output)) => Next::Commit(plan, output),
            // An answer rests on facts of one snapshot.
            _ if self.view.rests_on_hearsay() => Next::Read(self.view.asked()),
            Ok(Step::Done(output)) => Next::Done(Ok(output)),
            Err(Halt::Fail(error)) => Next::Done(Err(error)),
            Err(Halt::Corrupt(key, error)) => Next::Corrupt(key, error),
        }
    }

    /// Takes the answers to the last [`Next::Read`].
    pub fn learn(&mut self, reads: Vec<Read>, found: Vec<Found>) {
        self.view.learn(reads, found);
    }

    /// Takes note of the guard that refused the last plan and of the record it met.
    pub fn refused(&mut self, guard: &Guard, found: Option<Value>) {
        match guard {
            Guard::Equals(key, _) | Guard::Absent(key) => {
                self.view.contradict(key.clone(), Some(found));
            }
            Guard::Present(key) => self.view.contradict(key.clone(), Some(None)),
            Guard::Empty(start, _) => self.view.contradict(start.clone(), None),
        }
    }
}

/// What an operation that only answers would answer from hints alone, if they suffice: enough to
/// refuse early, never to answer with.
pub fn recall<O: Operation>(operation: &O, env: &Env, hints: &dyn Hints) -> Option<O::Output> {
    match operation.plan(&mut View::new(hints), env) {
        Ok(Step::Done(output)) => Some(output),
        Ok(Step::Commit(..)) | Err(_) => None,
    }
}

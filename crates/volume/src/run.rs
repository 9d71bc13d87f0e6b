//! The loop that drives an operation: plan, read or commit, and plan again.
//!
//! Planning is pure, so nothing of it is kept over a round trip but what the trip taught. Reads and
//! commits go to the store together with others that wait. In debug builds every pass is planned
//! twice, from the same knowledge, and must come to the same.

use std::cell::RefCell;
use std::collections::HashMap;

use namespace::{Env, FsError, Hints, Next, NoHints, Operation, PASSES_MAX, Run, recall};
use record::{DecodeError, Ino};
use store::{Found, Guard, Key, Read, Value};

use crate::commit::Outcome;
use crate::content::StagedContent;
use crate::meters;
use crate::{Volume, VolumeError};

/// After so many passes hints are no longer asked, and what was learnt before is forgotten.
const PASSES_WITH_HINTS: u32 = 8;

/// How often an operation is planned again because its commit failed and certainly did nothing.
const ABORTS_MAX: u32 = 2;

/// What a round trip taught.
#[derive(Clone, Debug)]
enum Lesson {
    Read(Vec<Read>, Vec<Found>),
    Refused(Guard, Option<Value>),
}

impl Volume {
    /// What an operation that begins now may know of the world.
    pub(crate) fn env(&self) -> Env {
        Env { now: self.clock.now(), session: self.session.nonce }
    }

    /// Runs an operation to its answer. Once its plan is in the queue, dropping the future stops
    /// nothing but the waiting.
    pub(crate) async fn run<O>(&self, operation: &O) -> Result<O::Output, VolumeError>
    where
        O: Operation + Sync,
        O::Output: Send,
    {
        self.drive(operation, None).await
    }

    /// As [`Volume::run`], for a plan that names staged blocks: they are kept once it is committed
    /// or if nobody can tell, and deleted if it certainly is not.
    pub(crate) async fn run_publishing<O>(
        &self,
        operation: &O,
        staged: StagedContent,
    ) -> Result<O::Output, VolumeError>
    where
        O: Operation + Sync,
        O::Output: Send,
    {
        self.drive(operation, Some(staged)).await
    }

    /// What an operation would answer by what is remembered alone: for refusing early, never for
    /// an answer.
    pub(crate) fn remembered<O: Operation>(&self, operation: &O) -> Option<O::Output> {
        recall(operation, &self.env(), &*self.hints)
    }

    /// Reads in one round trip, which others may share, counted and remembered.
    pub(crate) async fn read_counted(&self, reads: &[Read]) -> Result<Vec<Found>, VolumeError> {
        if self.session.is_fenced() {
            return Err(VolumeError::Fenced);
        }
        // What nobody else can have changed needs no round trip.
        if let Some(found) = self.mirror.answer(reads) {
            self.meters.mirrored.add(1);
            return Ok(found);
        }
        meters::charge_read();
        let found = self.gatherer.read(reads).await?;
        if found.len() != reads.len() {
            return Err(VolumeError::Corrupt("the store left questions unanswered".to_owned()));
        }
        self.hints.learn(reads, &found);
        Ok(found)
    }

    async fn drive<O>(
        &self,
        operation: &O,
        mut staged: Option<StagedContent>,
    ) -> Result<O::Output, VolumeError>
    where
        O: Operation + Sync,
        O::Output: Send,
    {
        self.meters.served.add(1);
        let reading = self.reading();
        let env = self.env();
        let mut lessons: Vec<Lesson> = Vec::new();
        let mut aborts = 0;
        for pass in 1..=PASSES_MAX {
            let trusting = pass < PASSES_WITH_HINTS;
            if pass == PASSES_WITH_HINTS {
                lessons.clear();
            }
            let hints: &dyn Hints = if trusting { &*self.hints } else { &NoHints };
            match advance(operation, env, &lessons, hints) {
                Next::Done(Err(FsError::NumberTaken)) => {
                    self.session.fence("a number that this session leased is taken");
                    return Err(VolumeError::Fenced);
                }
                Next::Done(answer) => return answer.map_err(VolumeError::from),
                Next::Corrupt(key, error) => return Err(corrupt(&key, &error)),
                Next::Read(reads) => {
                    let found = self.read_counted(&reads).await?;
                    lessons.push(Lesson::Read(reads, found));
                }
                Next::Commit(plan, output) => {
                    let guards = plan.guards.clone();
                    let commit = self.committer.commit(plan, reading.clone(), staged.take());
                    let (outcome, back) = commit.await;
                    staged = back;
                    match outcome {
                        Outcome::Committed => return Ok(output),
                        Outcome::Refused { guard, found } => {
                            let guard = guards.into_iter().nth(guard).ok_or_else(|| {
                                VolumeError::Corrupt("the store refused by no guard".to_owned())
                            })?;
                            lessons.push(Lesson::Refused(guard, found));
                        }
                        Outcome::Aborted(_) if aborts < ABORTS_MAX => aborts += 1,
                        Outcome::Aborted(why) => return Err(VolumeError::Unavailable(why)),
                        Outcome::Failed(error) => return Err(error),
                    }
                }
            }
        }
        Err(FsError::Contended.into())
    }
}

/// Plans once, from everything that the operation has learnt so far.
fn advance<O: Operation>(
    operation: &O,
    env: Env,
    lessons: &[Lesson],
    hints: &dyn Hints,
) -> Next<O::Output> {
    let hints = Recorded::new(hints);
    let next = pass(operation, env, lessons, &hints);
    if cfg!(debug_assertions) {
        let again = pass(operation, env, lessons, &hints);
        match (&next, &again) {
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
    next
}

fn pass<O: Operation>(
    operation: &O,
    env: Env,
    lessons: &[Lesson],
    hints: &Recorded<'_>,
) -> Next<O::Output> {
    let mut run = Run::new(operation, env, hints);
    for lesson in lessons {
        match lesson {
            Lesson::Read(reads, found) => run.learn(reads.clone(), found.clone()),
            Lesson::Refused(guard, found) => run.refused(guard, found.clone()),
        }
    }
    run.advance()
}

/// Asks for a name in a directory besides this one.
type Besides = (Ino, Vec<u8>);

/// Hints that stay the same for a pass and its repetition, while others change them.
#[derive(Debug)]
struct Recorded<'a> {
    hints: &'a dyn Hints,
    records: RefCell<HashMap<Key, Option<Option<Value>>>>,
    siblings: RefCell<HashMap<Besides, Option<Key>>>,
}

impl<'a> Recorded<'a> {
    fn new(hints: &'a dyn Hints) -> Recorded<'a> {
        Recorded { hints, records: RefCell::default(), siblings: RefCell::default() }
    }
}

impl Hints for Recorded<'_> {
    fn record(&self, key: &Key) -> Option<Option<Value>> {
        if !cfg!(debug_assertions) {
            return self.hints.record(key);
        }
        let mut records = self.records.borrow_mut();
        records.entry(key.clone()).or_insert_with(|| self.hints.record(key)).clone()
    }

    fn sibling(&self, directory: Ino, not: &[u8]) -> Option<Key> {
        if !cfg!(debug_assertions) {
            return self.hints.sibling(directory, not);
        }
        let mut siblings = self.siblings.borrow_mut();
        let sibling = siblings.entry((directory, not.to_vec()));
        sibling.or_insert_with(|| self.hints.sibling(directory, not)).clone()
    }
}

fn corrupt(key: &Key, error: &DecodeError) -> VolumeError {
    VolumeError::Corrupt(format!("the record {key:?} cannot be read: {error}"))
}

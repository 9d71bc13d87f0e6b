//! The loop that drives an operation: plan, read or commit, and plan again.
//!
//! A [`Run`] keeps what the operation learns and says what comes next. This loop adds what it does
//! not know: how a read and a commit are made, what becomes of staged blocks, and how operations
//! that contend for a record take turns (see [`crate::contention`]). Reads and commits go to the
//! store together with others that wait.

use content::StagedContent;
use ledger::Note;
use namespace::{Env, FsError, Next, Planner, Run, plan_from_hints};
use store::{Read, ReadResult};
use tokio::time::Instant;

use crate::backoff::CONTENTION_DEADLINE;
use crate::commit::{CommittedFor, Outcome};
use crate::contention::Contender;
use crate::error::{VolumeError, corrupt};
use crate::meters;
use crate::session::Session;

/// How often an operation is planned again because its commit failed and certainly did nothing.
const ABORTS_MAX: u32 = 2;

impl Session {
    /// What an operation that begins now may know of the world.
    pub fn env(&self) -> Env {
        Env {
            now: self.clock.now(),
            earliest_now: self.clock.passed(),
            session: self.nonce(),
            random: self.random_bits.next(),
        }
    }

    /// Runs an operation to its answer. Once its plan is in the queue, dropping the future stops
    /// nothing but the waiting.
    pub async fn run<O>(&self, operation: &O) -> Result<O::Output, VolumeError>
    where
        O: Planner + Sync,
        O::Output: Send,
    {
        self.run_until(operation, Instant::now() + CONTENTION_DEADLINE).await
    }

    /// As [`Session::run`], with a deadline of the caller's for contention. After it one more try is
    /// made, and then the answer is [`FsError::Contended`].
    pub async fn run_until<O>(
        &self,
        operation: &O,
        deadline: Instant,
    ) -> Result<O::Output, VolumeError>
    where
        O: Planner + Sync,
        O::Output: Send,
    {
        let mut contender = Contender::until(deadline, &self.reservations, &self.state);
        let (client, note) = (CommittedFor::Client, Note::none());
        self.drive(operation, None, client, &note, &mut contender).await
    }

    /// As [`Session::run_as_watch`], for a request that a journal notes.
    pub async fn run_journaled<O>(
        &self,
        operation: &O,
        staged: Option<StagedContent>,
        note: &Note,
    ) -> Result<O::Output, VolumeError>
    where
        O: Planner + Sync,
        O::Output: Send,
    {
        let mut contender = self.contender();
        self.drive(operation, staged, CommittedFor::Watch, note, &mut contender).await
    }

    /// As [`Session::run`], for whoever watches: it is not told of what it has changed itself, and
    /// waits, if nobody can tell whether it has changed anything, until somebody can. How long, the
    /// caller says.
    pub async fn run_as_watch<O>(
        &self,
        operation: &O,
        staged: Option<StagedContent>,
    ) -> Result<O::Output, VolumeError>
    where
        O: Planner + Sync,
        O::Output: Send,
    {
        self.run_journaled(operation, staged, &Note::none()).await
    }

    /// As [`Session::run`], for a plan that names staged blocks: they are kept once it is committed
    /// or if nobody can tell, and deleted if it certainly is not.
    pub async fn run_publishing<O>(
        &self,
        operation: &O,
        staged: StagedContent,
    ) -> Result<O::Output, VolumeError>
    where
        O: Planner + Sync,
        O::Output: Send,
    {
        let (client, note, mut contender) = (CommittedFor::Client, Note::none(), self.contender());
        self.drive(operation, Some(staged), client, &note, &mut contender).await
    }

    /// What an operation would answer by what is remembered alone: for refusing early, never for
    /// an answer.
    pub fn plan_from_hints<O: Planner>(&self, operation: &O) -> Option<O::Output> {
        plan_from_hints(operation, &self.env(), &*self.records)
    }

    /// Reads in one round trip, which others may share, counted and remembered.
    pub async fn read_coalesced(&self, reads: &[Read]) -> Result<Vec<ReadResult>, VolumeError> {
        if self.is_fenced() {
            return Err(VolumeError::Fenced);
        }
        // What nobody else can have changed needs no round trip.
        if let Some(found) = self.records.answer(reads) {
            self.meters.remembered.add(1);
            return Ok(found);
        }
        meters::charge_read();
        let found = self.coalescer.read(reads).await?;
        if found.len() != reads.len() {
            return Err(VolumeError::Corrupt("the store left questions unanswered".to_owned()));
        }
        Ok(found)
    }

    fn contender(&self) -> Contender<'_> {
        let deadline = Instant::now() + CONTENTION_DEADLINE;
        Contender::until(deadline, &self.reservations, &self.state)
    }

    async fn drive<O>(
        &self,
        operation: &O,
        mut staged: Option<StagedContent>,
        committed_for: CommittedFor,
        note: &Note,
        contender: &mut Contender<'_>,
    ) -> Result<O::Output, VolumeError>
    where
        O: Planner + Sync,
        O::Output: Send,
    {
        self.meters.served.add(1);
        let reading = self.reading();
        let mut run = Run::new(operation, self.env());
        let mut aborts = 0;
        loop {
            match run.advance(&*self.records) {
                Next::Done(Err(FsError::InodeNumberInUse)) => {
                    self.state.fence("a number that this session leased is taken");
                    return Err(VolumeError::Fenced);
                }
                Next::Done(Err(FsError::Contended)) => {
                    contender.begin_anew().await?;
                    run = Run::new(operation, self.env());
                }
                Next::Done(answer) => return answer.map_err(VolumeError::from),
                Next::Corrupt(key, error) => return Err(corrupt(&key, &error)),
                Next::Read(reads) => {
                    let found = self.read_coalesced(&reads).await?;
                    run.learn(reads, found);
                }
                Next::Commit(plan, output) => {
                    if contender.wait_for_turn(&plan).await? {
                        run = Run::new(operation, self.env());
                        continue;
                    }
                    let guards = plan.guards.clone();
                    let (reading, staging, note) = (reading.clone(), staged.take(), note.clone());
                    let began = Instant::now();
                    let commit = self.committer.commit(plan, reading, staging, committed_for, note);
                    let answer = commit.await;
                    contender.record_commit_time(began.elapsed());
                    staged = answer.staged;
                    match answer.outcome {
                        Outcome::Committed => {
                            // The next one in the line does not wait for other programs' caches.
                            contender.leave();
                            if let Some(invalidation) = answer.invalidation {
                                invalidation.completed().await;
                            }
                            return Ok(output);
                        }
                        Outcome::Refused { guard, found } => {
                            let guard = guards.get(guard).ok_or_else(|| {
                                VolumeError::Corrupt("the store refused by no guard".to_owned())
                            })?;
                            let repeats = run.has_met(guard);
                            run.refused(guard, found);
                            contender.refused(&guards, repeats).await?;
                        }
                        Outcome::Aborted(_) if aborts < ABORTS_MAX => aborts += 1,
                        Outcome::Aborted(why) => return Err(VolumeError::Unavailable(why)),
                        Outcome::Failed(error) => return Err(error),
                    }
                }
            }
        }
    }
}

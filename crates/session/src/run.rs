//! The driver of an operation: plan, read or commit, and plan again.
//!
//! A [`Run`](namespace::Run) keeps the facts that an operation has read, and decides the next
//! step. The driver carries the step out: it reads and commits, in round trips shared with other
//! operations. It owns the staged blocks of the operation, and lets operations that contend for a
//! record take turns (see [`crate::contention`]).
//!
//! For example, two gateways append to one object. The commit of the second is refused by its guard
//! on the inode. The refusal brings the new record, the driver plans again with it, and commits
//! once more.

use std::sync::Arc;

use ledger::Note;
use namespace::{Env, FsError, Hints, NoHints, Planner, plan_from_hints};
use publication::StagedBlocks;
use record::DecodeError;
use store::{Key, Read, ReadResult};
use tokio::time::Instant;

use crate::commit::{CommittedFor, Outcome};
use crate::contention::Contender;
use crate::epoch::ReaderGuard;
use crate::error::{VolumeError, corrupt};
use crate::meters;
use crate::planning::{PlanInputs, Planned, complete, plan};
use crate::records::Pages;
use crate::session::Session;
use crate::times::CONTENTION_DEADLINE;

/// Retries of an operation whose commit failed and certainly changed nothing.
const ABORTS_MAX: u32 = 2;

/// The inputs of the planner of an operation.
#[derive(Debug)]
struct Inputs<'a> {
    session: &'a Session,
    /// The use of the record cache.
    caching: Caching,
}

/// The use of the record cache by an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caching {
    /// Reads records from the cache, and keeps those that it reads. Of a range it keeps a few
    /// names.
    Records,
    /// As `Records`, and keeps the pages of directories, so that later reads of them need no round
    /// trip.
    Pages(Pages),
    /// Neither: its records would displace those of clients in the cache.
    Nothing,
}

impl PlanInputs for Inputs<'_> {
    fn env(&self) -> Env {
        self.session.env()
    }

    fn hints(&self) -> &dyn Hints {
        match self.caching {
            Caching::Records | Caching::Pages(_) => &*self.session.records,
            Caching::Nothing => &NoHints,
        }
    }

    async fn read(&self, reads: &[Read]) -> Result<Vec<ReadResult>, VolumeError> {
        match self.caching {
            Caching::Records => self.session.read_coalesced(reads).await,
            // Boxed, because this future is a part of that of each operation.
            Caching::Pages(pages) => Box::pin(self.session.read_pages(reads, pages)).await,
            Caching::Nothing => complete(reads, self.session.store.read(reads).await?),
        }
    }

    async fn unread(&self, key: &Key, error: &DecodeError) -> VolumeError {
        self.session.unread(key, error).await
    }
}

impl Session {
    /// Returns the inputs of a planner from outside the store: times, the session's name and random
    /// bits.
    pub fn env(&self) -> Env {
        Env {
            now: self.clock.now(),
            earliest_now: self.clock.passed(),
            session: self.nonce(),
            random: self.random_bits.next(),
        }
    }

    /// Returns the error for a record that does not decode. If the record is encrypted under a ring
    /// key that is not available, that is the error of the key.
    pub async fn unread(&self, key: &Key, error: &DecodeError) -> VolumeError {
        let DecodeError::Sealed(number) = error else { return corrupt(key, error) };
        match self.keys.key(*number).await {
            // The key is available, so the record is damaged.
            Ok(_) => corrupt(key, error),
            Err(error) => error.into(),
        }
    }

    /// Runs an operation until it has a result. If other writers keep refusing its plans for
    /// [`CONTENTION_DEADLINE`], the result is [`FsError::Contended`]. If the future is dropped
    /// after the plan has entered the commit queue, the plan is committed all the same.
    pub async fn run<O>(&self, operation: &O) -> Result<O::Output, VolumeError>
    where
        O: Planner + Sync,
        O::Output: Send,
    {
        self.run_until(operation, Instant::now() + CONTENTION_DEADLINE).await
    }

    /// As [`Session::run`], with a deadline for contention. If the plan is refused after the
    /// deadline, or the operation still waits for others then, the result is
    /// [`FsError::Contended`].
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

    /// As [`Session::run_as_watch`], for a request that the ledger's journal records. The journal
    /// lists requests of a mount that are not answered, so that the next process learns their
    /// outcome; `note` is the entry.
    pub async fn run_journaled<O>(
        &self,
        operation: &O,
        staged: Option<Arc<dyn StagedBlocks>>,
        note: &Note,
    ) -> Result<O::Output, VolumeError>
    where
        O: Planner + Sync,
        O::Output: Send,
    {
        let mut contender = self.contender();
        self.drive(operation, staged, CommittedFor::Watch, note, &mut contender).await
    }

    /// As [`Session::run`], for an operation of the registered [`crate::NodeWatch`], the receiver
    /// of invalidations, for example of a mount. It is not notified of changes that it made itself.
    /// If the outcome of the commit is unknown, the call waits until it is known; the caller bounds
    /// the wait. `staged` is the claim on blocks that the plan names, as in
    /// [`Session::run_publishing`].
    pub async fn run_as_watch<O>(
        &self,
        operation: &O,
        staged: Option<Arc<dyn StagedBlocks>>,
    ) -> Result<O::Output, VolumeError>
    where
        O: Planner + Sync,
        O::Output: Send,
    {
        self.run_journaled(operation, staged, &Note::none()).await
    }

    /// Runs an operation that lists a directory for the registered [`crate::NodeWatch`], for
    /// example of a mount, and changes nothing. The pages that it reads are kept in the record
    /// cache with all their names and inodes, because the reader of a page asks for these next. A
    /// directory that takes too much of the cache is not kept.
    pub async fn run_listing<O>(&self, operation: &O) -> Result<O::Output, VolumeError>
    where
        O: Planner + Sync,
        O::Output: Send,
    {
        self.list(operation, Pages::Nodes).await
    }

    /// Runs an operation that begins a listing for an S3 client, and changes nothing. The pages
    /// that it reads with the heads of inodes are kept for later listings, in memory that no other
    /// record needs.
    pub async fn run_client_listing<O>(&self, operation: &O) -> Result<O::Output, VolumeError>
    where
        O: Planner + Sync,
        O::Output: Send,
    {
        self.list(operation, Pages::Heads).await
    }

    async fn list<O>(&self, operation: &O, pages: Pages) -> Result<O::Output, VolumeError>
    where
        O: Planner + Sync,
        O::Output: Send,
    {
        self.meters.served.add(1);
        let _running = self.committer.begin_operation();
        let _reading = self.reading();
        let inputs = Inputs { session: self, caching: Caching::Pages(pages) };
        let mut contender = self.contender();
        loop {
            match plan(&inputs, operation, &mut None).await? {
                // Other writers kept changing the records of the listing.
                Planned::Done(Err(FsError::Contended)) => contender.begin_anew().await?,
                Planned::Done(answer) => return answer.map_err(VolumeError::from),
                Planned::Commit(..) => {
                    let why = "a listing would change the volume";
                    return Err(VolumeError::Corrupt(why.to_owned()));
                }
            }
        }
    }

    /// As [`Session::run`], for a plan that names the staged blocks in `staged`. The blocks are
    /// kept if the plan was committed or its outcome is unknown, and deleted if it certainly was
    /// not committed.
    pub async fn run_publishing<O>(
        &self,
        operation: &O,
        staged: Arc<dyn StagedBlocks>,
    ) -> Result<O::Output, VolumeError>
    where
        O: Planner + Sync,
        O::Output: Send,
    {
        let (client, note, mut contender) = (CommittedFor::Client, Note::none(), self.contender());
        self.drive(operation, Some(staged), client, &note, &mut contender).await
    }

    /// Runs an operation of background work. It does not count as a request that is served, adds
    /// no record to the cache, uses none of it, and delays no operation of a client. The epoch that
    /// `reading` pins stays pinned until the outcome of the commit is certain.
    ///
    /// Returns the number of plans that were refused, and the result: [`FsError::Contended`] after
    /// `refusals_max` of them.
    pub async fn run_in_background<O>(
        &self,
        operation: &O,
        reading: &ReaderGuard,
        refusals_max: u32,
    ) -> (u32, Result<O::Output, VolumeError>)
    where
        O: Planner + Sync,
        O::Output: Send,
    {
        let mut contender = self.contender().in_background(refusals_max);
        let (reading, committed_for) = (reading.clone(), CommittedFor::Upkeep);
        let note = Note::none();
        let done =
            self.commit_planned(operation, reading, None, committed_for, &note, &mut contender);
        let done = done.await;
        (contender.refusals(), done)
    }

    /// Returns the result of an operation as planned from cached records alone, or `None` if they
    /// do not suffice. The records may be old, so use the result only to refuse early, never as an
    /// answer.
    pub fn plan_from_hints<O: Planner>(&self, operation: &O) -> Option<O::Output> {
        plan_from_hints(operation, &self.env(), &*self.records)
    }

    /// Reads in one round trip, which other operations may share. The read is counted, and its
    /// results enter the record cache. Returns one result for each read, in their order.
    ///
    /// # Errors
    /// [`VolumeError::Fenced`] if the session is fenced, [`VolumeError::Unavailable`] after
    /// [`crate::META_READ_DEADLINE`], and the store's errors.
    pub async fn read_coalesced(&self, reads: &[Read]) -> Result<Vec<ReadResult>, VolumeError> {
        if let Some(found) = self.remembered(reads)? {
            return Ok(found);
        }
        meters::charge_read();
        let found = self.coalescer.read(reads).await?;
        complete(reads, found)
    }

    /// As [`Session::read_coalesced`], for the next pages of a listing of an S3 client. They are
    /// kept as those of [`Session::run_client_listing`].
    pub async fn read_client_pages(&self, reads: &[Read]) -> Result<Vec<ReadResult>, VolumeError> {
        self.read_pages(reads, Pages::Heads).await
    }

    /// As [`Session::read_coalesced`], and keeps pages of directories.
    async fn read_pages(
        &self,
        reads: &[Read],
        pages: Pages,
    ) -> Result<Vec<ReadResult>, VolumeError> {
        self.records.count_listing(reads);
        if let Some(found) = self.remembered(reads)? {
            return Ok(found);
        }
        let reading = self.records.begin_read();
        let found = self.read_coalesced(reads).await?;
        reading.found_pages(reads, &found, pages);
        Ok(found)
    }

    /// Returns the answer of the record cache, if it has one. Current entries need no round trip,
    /// because no other session can have changed them without notice.
    fn remembered(&self, reads: &[Read]) -> Result<Option<Vec<ReadResult>>, VolumeError> {
        if self.is_fenced() {
            return Err(VolumeError::Fenced);
        }
        let found = self.records.answer(reads);
        if found.is_some() {
            self.meters.remembered.add(1);
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
        staged: Option<Arc<dyn StagedBlocks>>,
        committed_for: CommittedFor,
        note: &Note,
        contender: &mut Contender<'_>,
    ) -> Result<O::Output, VolumeError>
    where
        O: Planner + Sync,
        O::Output: Send,
    {
        self.meters.served.add(1);
        let _running = self.committer.begin_operation();
        // The pin covers planning, too: a planner may name blocks that it found in hints.
        let reading = self.reading();
        self.commit_planned(operation, reading, staged, committed_for, note, contender).await
    }

    /// Plans an operation and commits its plan, until it has a result. `reading` pins the epoch
    /// until the outcome of the commit is certain.
    async fn commit_planned<O>(
        &self,
        operation: &O,
        reading: ReaderGuard,
        mut staged: Option<Arc<dyn StagedBlocks>>,
        committed_for: CommittedFor,
        note: &Note,
        contender: &mut Contender<'_>,
    ) -> Result<O::Output, VolumeError>
    where
        O: Planner + Sync,
        O::Output: Send,
    {
        let caching = if contender.is_background() { Caching::Nothing } else { Caching::Records };
        let inputs = Inputs { session: self, caching };
        let (mut run, mut aborts) = (None, 0);
        loop {
            match plan(&inputs, operation, &mut run).await? {
                // A leased number in use means that the store forgot the lease, for example after a
                // restore. The session's other leases may be invalid, too.
                Planned::Done(Err(FsError::InodeNumberInUse)) => {
                    self.state.fence("an inode number that this session leased is in use");
                    return Err(VolumeError::Fenced);
                }
                Planned::Done(Err(FsError::Contended)) => {
                    // No consistent state was found, because others kept changing it. Everything
                    // that the run has read may be old.
                    contender.begin_anew().await?;
                    run = None;
                }
                Planned::Done(answer) => return answer.map_err(VolumeError::from),
                Planned::Commit(plan, output) => {
                    if contender.wait_for_turn(&plan).await? {
                        // After the wait the facts of this run are old.
                        run = None;
                        continue;
                    }
                    let guards = plan.guards.clone();
                    // The blocks go with the plan. If it certainly did not commit they come back in
                    // the answer.
                    let (reading, staging, note) = (reading.clone(), staged.take(), note.clone());
                    let began = Instant::now();
                    let commit = self.committer.commit(plan, reading, staging, committed_for, note);
                    let answer = commit.await;
                    contender.record_commit_time(began.elapsed());
                    staged = answer.staged;
                    match answer.outcome {
                        Outcome::Committed => {
                            // The next operation in the queue does not depend on the invalidation
                            // of kernel caches, so it may start first.
                            contender.leave();
                            if let Some(invalidation) = answer.invalidation {
                                invalidation.completed().await;
                            }
                            return Ok(output);
                        }
                        Outcome::Refused { guard, found } => {
                            let guard = guards.get(guard).ok_or_else(|| {
                                VolumeError::Corrupt("the store refused a plan by a guard that the plan does not have".to_owned())
                            })?;
                            // A refusal by a record that the run had met before means that another
                            // writer keeps changing it. Only that leads to a pause.
                            let repeats = run.as_ref().is_some_and(|run| run.has_met(guard));
                            if let Some(run) = &mut run {
                                run.refused(guard, found);
                            }
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

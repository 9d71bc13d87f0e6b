//! The connection that writes, and the task that owns it.
//!
//! The task takes all waiting calls, up to the limits of one transaction, and commits them
//! together. It always completes a transaction: callers wait on a channel, and a caller that goes
//! away has no effect. After an error the task rolls back the transaction, or reopens the
//! connection.
//!
//! While the disk is nearly full, [`full`] decides which plans may still be committed. For example,
//! a DELETE is then committed and a PUT fails with `Full`.

mod full;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sqlx::Connection;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use store::{Batch, Key, Plan, Shortage, Space, StoreError, StoreErrorKind, Value, Verdict};
use tokio::sync::{mpsc, oneshot};

use crate::error::{self, Shared, is_busy, is_write, kind, kind_of_commit};
use crate::feed::{self, ROWS_BETWEEN_TRIMS};
use crate::limits::LIMITS;
use crate::open::{self, Checkpoint, WAL_BYTES_MAX};
use crate::read::{integer, key_at, place, value_at};
use crate::reserve::{PROBE_BYTES, Reserve};
use crate::script::{Failure, Parameter, RangesOfPart, Script};

/// A call of `commit` that waits for its verdicts, in the queue of the writer.
#[derive(Debug)]
pub(crate) struct Job {
    plans: Vec<Plan>,
    answer: oneshot::Sender<Result<Vec<Verdict>, StoreError>>,
}

impl Job {
    /// Creates a job, and the receiver of its answer.
    pub(crate) fn new(
        plans: &[Plan],
    ) -> (Job, oneshot::Receiver<Result<Vec<Verdict>, StoreError>>) {
        let (answer, receiver) = oneshot::channel();
        (Job { plans: plans.to_vec(), answer }, receiver)
    }

    fn items(&self) -> usize {
        self.plans.iter().map(Plan::items).sum()
    }

    fn bytes(&self) -> usize {
        self.plans.iter().map(Plan::bytes).sum()
    }

    fn answer(self, outcome: Result<Vec<Verdict>, &Shared>, full: &Shared) {
        let doing = || format!("committing {} plans", self.plans.len());
        // A call of which every plan failed has failed as a whole.
        let no_space = Verdict::Failed(StoreErrorKind::Full);
        let all_failed = |verdicts: &[Verdict]| {
            !verdicts.is_empty() && verdicts.iter().all(|verdict| *verdict == no_space)
        };
        let outcome = match outcome {
            Ok(verdicts) if all_failed(&verdicts) => Err(full),
            outcome => outcome,
        };
        let outcome = outcome.map_err(|shared| shared.to_error(doing()));
        // The caller may have gone away. Its plans were decided anyway.
        let _ = self.answer.send(outcome);
    }
}

/// The owner of the connection that writes, and of the state of the disk's space.
#[derive(Debug)]
pub(crate) struct Writer {
    path: PathBuf,
    /// The connection that writes; `None` after an error, until the next job reopens it.
    connection: Option<SqliteConnection>,
    /// Size of the write-ahead log, in bytes, up to which the writer does not wait for readers in
    /// order to shorten it.
    wal_bytes_allowed: u64,
    /// Number of rows of the change feed that the writer still writes before it deletes old ones.
    /// It starts at 0, so that the first commit deletes: a process may write fewer rows than the
    /// interval in its whole life.
    rows_until_trim: usize,
    /// Disk space that is kept for deletes on a full disk.
    reserve: Reserve,
    /// Spaces whose records may be put although the disk is full, because work that frees space
    /// needs them.
    spared: &'static [Space],
    /// The last known lack of space, or none. The store, which shares it, reports it to operators.
    shortage: Arc<Shortage>,
    /// True if the last failure may have been caused by an exhausted disk or quota.
    is_short_of_space: bool,
    /// The lock file beside the database. Its lock is held while the connection may write.
    _lock: File,
}

impl Writer {
    pub(crate) async fn open(
        path: &Path,
        spared: &'static [Space],
        shortage: Arc<Shortage>,
        lock: File,
    ) -> Result<Writer, StoreError> {
        let reserve = Reserve::beside(path);
        let connection = reserve.connect().await?;
        // Create the reserve after the connection: a file that is not a store gets no reserve.
        if let Err(error) = reserve.fill_holes().and_then(|()| reserve.refill()) {
            tracing::warn!(%error, "no space can be kept for deletes on a full disk");
        }
        Ok(Writer {
            path: path.to_owned(),
            connection: Some(connection),
            reserve,
            spared,
            shortage,
            is_short_of_space: false,
            wal_bytes_allowed: WAL_BYTES_MAX,
            rows_until_trim: 0,
            _lock: lock,
        })
    }

    /// Commits the jobs of the queue, several in one transaction, until the store closes it.
    pub(crate) async fn run(mut self, mut queue: mpsc::Receiver<Job>) {
        let mut left_over = None;
        loop {
            let first = match left_over.take() {
                Some(job) => job,
                None => match queue.recv().await {
                    Some(job) => job,
                    None => break,
                },
            };
            let mut jobs = vec![first];
            left_over = coalesce(&mut jobs, &mut queue);
            let full = Shared::full(&self.path, None);
            match self.commit_as_space_permits(&jobs).await {
                Ok(mut verdicts) => {
                    for job in jobs {
                        let rest = verdicts.split_off(job.plans.len());
                        job.answer(Ok(std::mem::replace(&mut verdicts, rest)), &full);
                    }
                }
                Err(shared) => jobs.into_iter().for_each(|job| job.answer(Err(&shared), &full)),
            }
            self.keep_log_short().await;
        }
        self.drop_connection().await;
    }

    /// Decides the plans of all jobs, in order, in one transaction. `is_admitted` gets the number
    /// of a plan among all of them, from 0. Plans that are not admitted fail with `Full` and do not
    /// affect the others.
    async fn commit(
        &mut self,
        jobs: &[Job],
        is_admitted: impl Fn(usize) -> bool,
    ) -> Result<Vec<Verdict>, Shared> {
        let plans = || jobs.iter().flat_map(|job| &job.plans);
        let mut batch = Batch::new(plans());
        let connection = self.connection().await?;
        if let Err(failure) = fetch(connection, &mut batch).await {
            // If BEGIN was refused as busy, there is no transaction to end.
            if !(failure.done == 0 && is_busy(&failure.error)) {
                self.roll_back().await;
            }
            return Err(self.failed(kind(&failure.error), failure.error));
        }
        let decide = |(number, plan)| {
            let no_space = Verdict::Failed(StoreErrorKind::Full);
            if is_admitted(number) { batch.decide(plan) } else { no_space }
        };
        let verdicts: Vec<Verdict> = plans().enumerate().map(decide).collect();
        let rows = feed::rows(batches(jobs, &verdicts));
        let trims = !rows.is_empty() && self.rows_until_trim == 0;
        let script = match changes(&batch, &rows, trims) {
            Ok(script) => script,
            Err(error) => {
                self.roll_back().await;
                return Err(Shared::new(StoreErrorKind::Unavailable, error));
            }
        };
        let statements = script.statements();
        if statements == 0 {
            self.roll_back().await;
            return Ok(verdicts);
        }
        let connection = self.connection().await?;
        let Err(failure) = script.run(connection).await else {
            let until_trim = if trims { ROWS_BETWEEN_TRIMS } else { self.rows_until_trim };
            self.rows_until_trim = until_trim.saturating_sub(rows.len());
            return Ok(verdicts);
        };
        let rolled_back = self.roll_back().await;
        let no_space = is_write(&failure.error) && !self.reserve.has_space(PROBE_BYTES);
        let kind = kind_of_commit(&failure, statements, rolled_back, no_space);
        if kind == StoreErrorKind::Unknown {
            tracing::warn!(error = %failure.error, "the outcome of a commit is not known");
            self.drop_connection().await;
        }
        Err(self.failed(kind, failure.error))
    }

    /// Returns the connection. Reopens it if the last one was closed.
    async fn connection(&mut self) -> Result<&mut SqliteConnection, Shared> {
        if self.connection.is_none() {
            self.connection = Some(self.reserve.connect().await?);
        }
        self.connection.as_mut().ok_or_else(|| error::closed().into())
    }

    /// Rolls back a transaction that may be open. Returns true if one was open and has ended.
    async fn roll_back(&mut self) -> bool {
        let Some(connection) = &mut self.connection else { return false };
        let mut script = Script::default();
        let rolled_back =
            script.statement("ROLLBACK", &[]).is_ok() && script.run(connection).await.is_ok();
        if !rolled_back {
            // Either SQLite has ended the transaction, or the connection is broken. Closing it ends
            // the transaction in both cases.
            self.drop_connection().await;
        }
        rolled_back
    }

    async fn drop_connection(&mut self) {
        if let Some(connection) = self.connection.take()
            && let Err(error) = connection.close().await
        {
            tracing::warn!(%error, "a connection to the metadata store did not close");
        }
    }

    /// Shortens the write-ahead log if it is long, since SQLite's own checkpoints could not because
    /// there was always a reader. New readers do not delay this checkpoint, only those that have
    /// begun.
    async fn keep_log_short(&mut self) {
        let bytes = open::wal_bytes(&self.path);
        if bytes <= self.wal_bytes_allowed {
            return;
        }
        let Some(connection) = &mut self.connection else { return };
        match open::checkpoint(connection, Checkpoint::Truncate).await {
            Ok(()) => {}
            Err(error) => tracing::warn!(%error, bytes, "the write-ahead log stays long"),
        }
        // A long-lived reader must not delay every commit. Try again after the log has grown by the
        // same amount.
        self.wal_bytes_allowed = open::wal_bytes(&self.path) + WAL_BYTES_MAX;
    }
}

/// Moves jobs from the queue into the transaction while they fit. Returns the first job that does
/// not fit.
fn coalesce(jobs: &mut Vec<Job>, queue: &mut mpsc::Receiver<Job>) -> Option<Job> {
    let mut items: usize = jobs.iter().map(Job::items).sum();
    let mut bytes: usize = jobs.iter().map(Job::bytes).sum();
    while let Ok(job) = queue.try_recv() {
        items += job.items();
        bytes += job.bytes();
        if items > LIMITS.batch_items || bytes > LIMITS.batch_bytes {
            return Some(job);
        }
        jobs.push(job);
    }
    None
}

/// Pairs the plans of each job with their verdicts.
fn batches<'a>(
    jobs: &'a [Job],
    mut verdicts: &'a [Verdict],
) -> impl Iterator<Item = (&'a [Plan], &'a [Verdict])> {
    jobs.iter().map_while(move |job| {
        let (these, rest) = verdicts.split_at_checked(job.plans.len())?;
        verdicts = rest;
        Some((&job.plans[..], these))
    })
}

/// Begins a transaction and fills the batch with the records of the file.
async fn fetch(connection: &mut SqliteConnection, batch: &mut Batch) -> Result<(), Failure> {
    let (script, records, counters) =
        questions(batch).map_err(|error| Failure { done: 0, error })?;
    let mut answers = script.run(connection).await?.into_iter();
    let unreadable = |error| Failure { done: 1, error };
    // BEGIN has no rows. The answers for records, counters and ranges follow.
    answers.next();
    let mut values: Vec<Option<Value>> = vec![None; batch.records().len()];
    for row in answers.by_ref().take(records).flatten() {
        place(&mut values, &row, value_at(&row, 1)).map_err(unreadable)?;
    }
    let mut numbers = vec![None; batch.counters().len()];
    for row in answers.by_ref().take(counters).flatten() {
        place(&mut numbers, &row, integer(&row, 1)).map_err(unreadable)?;
    }
    let keys: Result<Vec<Key>, _> =
        answers.flatten().map(|row: SqliteRow| key_at(&row, 0)).collect();
    batch.set_found(values, numbers, keys.map_err(unreadable)?);
    Ok(())
}

/// Returns the script that begins a transaction and asks for the records, counters and ranges of
/// the batch, and its numbers of statements for records and for counters.
fn questions(batch: &Batch) -> Result<(Script, usize, usize), sqlx::Error> {
    const RECORDS: (&str, &str) =
        ("SELECT q.column1, r.value FROM (VALUES ", ") q CROSS JOIN record r ON r.key = q.column2");
    const COUNTERS: (&str, &str) = (
        "SELECT q.column1, t.value FROM (VALUES ",
        ") q CROSS JOIN counter t ON t.key = q.column2",
    );
    let mut script = Script::default();
    script.statement("BEGIN IMMEDIATE", &[])?;
    script.list(
        RECORDS,
        true,
        &mut batch.records().map(|key| [Parameter::Bytes(key.as_bytes())]),
    )?;
    let records = script.statements() - 1;
    let mut counters = batch.counters().map(|key| [Parameter::Bytes(key.0.as_bytes())]);
    script.list(COUNTERS, true, &mut counters)?;
    let counters = script.statements() - 1 - records;
    let ask = |script: &mut Script, start: &[u8], end: &[u8], limit: usize| {
        script.statement(
            "SELECT key FROM record WHERE key >= ? AND key < ? ORDER BY key LIMIT +?",
            &[
                Parameter::Bytes(start),
                Parameter::Bytes(end),
                Parameter::Integer(i64::try_from(limit).unwrap_or(i64::MAX)),
            ],
        )
    };
    let ranges: Vec<_> = batch.ranges().collect();
    for part in RangesOfPart::of(&ranges) {
        part.begin(&mut script);
        for (start, end, limit) in part.asked {
            ask(&mut script, start.as_bytes(), end.as_bytes(), *limit)?;
        }
        (0..part.padding()).try_for_each(|_| ask(&mut script, &[], &[], 0))?;
    }
    Ok((script, records, counters))
}

/// Returns the script that writes the changes of a batch, appends to the feed and commits. The
/// script is empty if the batch changed nothing.
fn changes(batch: &Batch, rows: &[Vec<u8>], trims: bool) -> Result<Script, sqlx::Error> {
    const PUT: (&str, &str) = (
        "INSERT INTO record SELECT column1, column2 FROM (VALUES ",
        ") WHERE column1 IS NOT NULL ON CONFLICT (key) DO UPDATE SET value = excluded.value",
    );
    const DELETE: (&str, &str) = ("DELETE FROM record WHERE key IN (VALUES ", ")");
    const SET: (&str, &str) = (
        "INSERT INTO counter SELECT column1, column2 FROM (VALUES ",
        ") WHERE column1 IS NOT NULL ON CONFLICT (key) DO UPDATE SET value = excluded.value",
    );
    const CLEAR: (&str, &str) = ("DELETE FROM counter WHERE key IN (VALUES ", ")");
    let mut script = Script::default();
    let (mut puts, mut deletes) = (Vec::new(), Vec::new());
    for (key, value) in batch.written_records() {
        let key = Parameter::Bytes(key.as_bytes());
        match value {
            Some(value) => puts.push([key, Parameter::Bytes(value)]),
            None => deletes.push([key]),
        }
    }
    script.list(PUT, false, &mut puts.into_iter())?;
    script.list(DELETE, false, &mut deletes.into_iter())?;
    let (mut sets, mut clears) = (Vec::new(), Vec::new());
    for (key, number) in batch.written_counters() {
        let key = Parameter::Bytes(key.0.as_bytes());
        match number {
            Some(number) => sets.push([key, Parameter::Integer(number)]),
            None => clears.push([key]),
        }
    }
    script.list(SET, false, &mut sets.into_iter())?;
    script.list(CLEAR, false, &mut clears.into_iter())?;
    feed::write(&mut script, rows)?;
    if trims {
        feed::trim(&mut script)?;
    }
    if script.statements() > 0 {
        script.statement("COMMIT", &[])?;
    }
    Ok(script)
}

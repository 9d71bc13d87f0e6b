//! The metadata store in one SQLite file.
//!
//! One connection writes, in one task, for the life of the store; a few others read. Calls of
//! [`MetaStore::commit`] that wait at the same moment become one transaction, so that they share
//! one fsync. The transaction fetches every guarded record at once, decides the plans in memory,
//! in order, over what it fetched, and writes the net effect at once: since `BEGIN IMMEDIATE` holds
//! the file's only write lock from before the first fetch, that is exact, whoever else has the
//! file open.
//!
//! The driver hands each call to the connection's own thread, which costs more than a statement does.
//! Hence a `script::Script`: several statements in one call. A commit is two scripts, a read is one.
//!
//! The change feed is a table that the same transaction appends to. A snapshot is a read
//! transaction on a connection of its own.
//!
//! This crate knows keys, values and integers. It does not know what they mean.

mod error;
mod feed;
mod limits;
mod open;
mod read;
mod reserve;
mod script;
mod snapshot;
mod writer;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use store::{
    Changes, CounterPage, Durability, Limits, MetaStore, Page, Plan, Position, Read, ReadResult,
    Shortage, Snapshot, Space, StoreError, StoreErrorKind, Verdict,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::limits::LIMITS;
pub use crate::open::SqliteOptions;
use crate::read::Readers;
use crate::snapshot::Snapshots;
use crate::writer::{Job, Writer};

/// Calls of `commit` that may be queued for the writer. Further ones wait to be queued.
const JOBS_WAITING: usize = 1_024;

/// A metadata store in a SQLite file.
///
/// Dropped without [`MetaStore::close`], it still finishes the commits that it has accepted, as
/// long as the runtime lives.
///
/// While a snapshot lives, the log beside the file keeps everything that is committed, and cannot
/// be cut. So a snapshot should be read and dropped without delay. Closing the store ends its snapshots.
#[derive(Debug)]
pub struct SqliteStore {
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    writer: tokio::sync::Mutex<Option<JoinHandle<()>>>,
    readers: Readers,
    snapshots: Snapshots,
    shortage: Arc<Shortage>,
}

impl SqliteStore {
    /// Opens the store at `path`, making it if there is none. The folder must exist, on a disk of
    /// this machine; beside the file SQLite keeps `-wal` and `-shm`, and this crate `.lock` and
    /// `-reserve`, which keeps space on the disk for deletes.
    ///
    /// # Errors
    /// [`StoreErrorKind::Unavailable`] if the folder cannot be written to, if the file is open
    /// exclusively elsewhere, or if SQLite does not offer what durability needs;
    /// [`StoreErrorKind::Corrupt`] if the file is not a store, or one of another format.
    pub async fn open(path: &Path, options: SqliteOptions) -> Result<SqliteStore, StoreError> {
        let lock = open::lock(path, options)?;
        let shortage = Arc::default();
        let spared = options.spared;
        let writer = Writer::open(path, spared, Arc::clone(&shortage), lock).await?;
        let (jobs, queue) = mpsc::channel(JOBS_WAITING);
        #[expect(
            clippy::disallowed_methods,
            reason = "the writer lives as long as the store; close joins it"
        )]
        let task = tokio::spawn(writer.run(queue));
        Ok(SqliteStore {
            jobs: Mutex::new(Some(jobs)),
            writer: tokio::sync::Mutex::new(Some(task)),
            readers: Readers::new(path),
            snapshots: Snapshots::new(path),
            shortage,
        })
    }

    fn jobs(&self) -> Option<mpsc::Sender<Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl MetaStore for SqliteStore {
    fn limits(&self) -> Limits {
        LIMITS
    }

    fn durability(&self) -> Durability {
        Durability::Strict
    }

    fn shortage(&self) -> Option<String> {
        self.shortage.get()
    }

    async fn read(&self, reads: &[Read]) -> Result<Vec<ReadResult>, StoreError> {
        LIMITS.check_read(reads)?;
        self.readers.read(reads).await
    }

    async fn commit(&self, plans: &[Plan]) -> Result<Vec<Verdict>, StoreError> {
        LIMITS.check_commit(plans)?;
        let jobs = self.jobs().ok_or_else(error::closed)?;
        let (job, answer) = Job::new(plans);
        jobs.send(job).await.map_err(|_| error::closed())?;
        drop(jobs);
        // The writer goes on whether or not anybody waits here. It is gone without an answer only
        // if its runtime is.
        answer.await.unwrap_or_else(|_| {
            let doing = format!("committing {} plans: the writer is gone", plans.len());
            Err(StoreError::new(StoreErrorKind::Unknown, doing))
        })
    }

    async fn walk(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        self.readers.walk(space, resume, limit).await
    }

    async fn walk_counters(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<CounterPage, StoreError> {
        self.readers.walk_counters(space, resume, limit).await
    }

    async fn changes(&self, since: Option<&Position>) -> Result<Changes, StoreError> {
        feed::changes(&self.readers, since).await
    }

    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError> {
        Ok(Box::new(self.snapshots.take().await?))
    }

    async fn close(&self) {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.readers.close().await;
        self.snapshots.close().await;
        // The writer ends with its last sender. It closes its connection after the others, since
        // only the last one out can move the log into the file, and readers may not.
        drop(jobs);
        let writer = self.writer.lock().await.take();
        if let Some(writer) = writer
            && let Err(error) = writer.await
        {
            tracing::error!(%error, "the writer of the metadata store ended badly");
        }
    }
}

//! The metadata store in one SQLite file.
//!
//! One connection writes, and a few others read. The writer is one task for the life of the store.
//! It joins the waiting calls of [`MetaStore::commit`] into one transaction, so that they share one
//! fsync. The transaction fetches all guarded records, decides the plans in memory in order, and
//! writes the combined result. `BEGIN IMMEDIATE` takes the file's only write lock before the first
//! fetch. So the decisions are correct, also if another process has the file open.
//!
//! The driver passes each call to a thread of the connection, which costs more than a statement. A
//! `script::Script` is therefore several statements in one call: a commit is two scripts, a read is
//! one.
//!
//! The change feed is a table to which the same transaction appends. A snapshot is a read
//! transaction on a connection of its own.
//!
//! For example, 20 PUTs that arrive during an fsync become one transaction, and wait for one fsync
//! together.
//!
//! This crate knows keys, values and integers, and not their meaning.

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

/// Calls of `commit` that may be queued for the writer, the task that commits. Further calls wait
/// until the queue has space.
const JOBS_WAITING: usize = 1_024;

/// A metadata store in a SQLite file.
///
/// If it is dropped without [`MetaStore::close`], it still finishes the commits that it has
/// accepted, while the runtime exists.
///
/// While a snapshot exists, the write-ahead log beside the file keeps all commits and cannot be
/// truncated. So a snapshot should be read and dropped without delay. Closing the store ends its
/// snapshots.
#[derive(Debug)]
pub struct SqliteStore {
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    writer: tokio::sync::Mutex<Option<JoinHandle<()>>>,
    readers: Readers,
    snapshots: Snapshots,
    shortage: Arc<Shortage>,
    /// True if this store holds the lock that keeps other serving processes out.
    exclusive: bool,
}

impl SqliteStore {
    /// Opens the store at `path`, and creates it if it does not exist. The folder must exist, on a
    /// local disk. Beside the file SQLite keeps `-wal` and `-shm`, and this crate keeps `.lock` and
    /// `-reserve`, which holds disk space for deletes.
    ///
    /// # Errors
    /// [`StoreErrorKind::Unavailable`] if the folder is not writable, another process has the file
    /// open exclusively for a second or longer, or SQLite does not offer the settings that
    /// durability needs. [`StoreErrorKind::Corrupt`] if the file is not a store, or has another
    /// format.
    pub async fn open(path: &Path, options: SqliteOptions) -> Result<SqliteStore, StoreError> {
        let lock = open::lock(path, options).await?;
        let shortage = Arc::default();
        let SqliteOptions { exclusive, spared } = options;
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
            exclusive,
        })
    }

    fn jobs(&self) -> Option<mpsc::Sender<Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl MetaStore for SqliteStore {
    fn limits(&self) -> Limits {
        Limits { serves_one: self.exclusive, ..LIMITS }
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
        // The writer decides the plans even if the caller has gone. The answer is lost only if the
        // runtime ended, and with it the writer.
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
        // The writer ends with its last sender. It closes its connection after the readers, since
        // only the last connection that closes can move the log into the file, and readers may not
        // write.
        drop(jobs);
        let writer = self.writer.lock().await.take();
        if let Some(writer) = writer
            && let Err(error) = writer.await
        {
            tracing::error!(%error, "the writer of the metadata store ended badly");
        }
    }
}

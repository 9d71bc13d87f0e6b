//! Snapshots: read transactions, each on a connection of its own.
//!
//! In WAL mode a read transaction sees the file as it was at its first read, and blocks no writer.
//! But the log cannot be restarted before the transaction ends, and grows with each commit. For
//! example, a dump that runs for an hour keeps the log of an hour.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;
use sqlx::Connection;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use store::{CounterKey, Key, Snapshot, StoreError, StoreErrorKind, Value};
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use crate::error::{self, while_doing};
use crate::limits::LIMITS;
use crate::open;
use crate::read::{integer, key_at, value_at};
use crate::script::{Parameter, Script};

/// Largest number of snapshots at a time. Each has a connection and a thread.
const SNAPSHOTS_MAX: usize = 8;

/// A snapshot's connection. A reader takes it out while it reads a page, so a reader that goes away
/// in the middle drops it. It is also gone after an error, and after the store was closed.
type Held = tokio::sync::Mutex<Option<SqliteConnection>>;

/// The snapshots of a store that exist, so that closing the store can end them.
#[derive(Debug)]
pub(crate) struct Snapshots {
    path: PathBuf,
    /// The connections of the snapshots that exist; `None` after the store was closed.
    living: Mutex<Option<Vec<Weak<Held>>>>,
    /// The tasks that close the connections of dropped snapshots.
    closing: TaskTracker,
}

impl Snapshots {
    pub(crate) fn new(path: &Path) -> Snapshots {
        let living = Mutex::new(Some(Vec::new()));
        Snapshots { path: path.to_owned(), living, closing: TaskTracker::new() }
    }

    /// Takes a snapshot of the current state. Fails with `Unavailable` if [`SNAPSHOTS_MAX`]
    /// snapshots exist, or if the store is closed.
    pub(crate) async fn take(&self) -> Result<SqliteSnapshot, StoreError> {
        let doing = "taking a snapshot";
        let held = Arc::new(Held::default());
        // Lock it before it is registered, so that `close` waits until the connection is in it.
        let mut place = held.lock().await;
        self.register(&held)?;
        let mut connection = open::reader(&self.path).await?;
        let mut script = Script::default();
        // BEGIN alone does not fix the state: the first read does.
        let begun = script
            .statement("BEGIN", &[])
            .and_then(|()| script.statement("SELECT format FROM ashlar_store", &[]));
        begun.map_err(while_doing(doing))?;
        let begun = script.run(&mut connection).await;
        begun.map_err(|failure| while_doing(doing)(failure.error))?;
        *place = Some(connection);
        drop(place);
        let closing = self.closing.clone();
        Ok(SqliteSnapshot { held, closing, record: Vec::new(), counter: Vec::new() })
    }

    fn register(&self, held: &Arc<Held>) -> Result<(), StoreError> {
        let mut living = self.living.lock().unwrap_or_else(PoisonError::into_inner);
        let living = living.as_mut().ok_or_else(error::closed)?;
        living.retain(|other| other.strong_count() > 0);
        if living.len() >= SNAPSHOTS_MAX {
            let doing = format!("taking a snapshot: {SNAPSHOTS_MAX} others are being read");
            return Err(StoreError::new(StoreErrorKind::Unavailable, doing));
        }
        living.push(Arc::downgrade(held));
        Ok(())
    }

    /// Waits for the pages that are being read, ends all snapshots, and waits until the connections
    /// of dropped snapshots are closed.
    pub(crate) async fn close(&self) {
        let living = self.living.lock().unwrap_or_else(PoisonError::into_inner).take();
        for held in living.into_iter().flatten().filter_map(|held| held.upgrade()) {
            if let Some(connection) = held.lock().await.take() {
                close(connection).await;
            }
        }
        self.closing.close();
        self.closing.wait().await;
    }
}

async fn close(connection: SqliteConnection) {
    if let Err(error) = connection.close().await {
        tracing::warn!(%error, "a snapshot of the metadata store did not close");
    }
}

/// The file as it was at one instant, and the positions up to which its owner has read it.
#[derive(Debug)]
pub(crate) struct SqliteSnapshot {
    held: Arc<Held>,
    closing: TaskTracker,
    /// The key of the last record that was read; empty at the beginning.
    record: Vec<u8>,
    /// The key of the last counter that was read; empty at the beginning.
    counter: Vec<u8>,
}

impl SqliteSnapshot {
    async fn page(
        &self,
        text: &str,
        after: &[u8],
        limit: u32,
        doing: &str,
    ) -> Result<Vec<SqliteRow>, StoreError> {
        let limit = i64::try_from(LIMITS.page(limit)).unwrap_or(i64::MAX);
        let mut script = Script::default();
        script
            .statement(text, &[Parameter::Bytes(after), Parameter::Integer(limit)])
            .map_err(while_doing(doing))?;
        let mut place = self.held.lock().await;
        let mut connection = place.take().ok_or_else(|| {
            let doing = format!("{doing}: the snapshot has ended");
            StoreError::new(StoreErrorKind::Unavailable, doing)
        })?;
        let answers = script.run(&mut connection).await;
        let answers = answers.map_err(|failure| while_doing(doing)(failure.error))?;
        *place = Some(connection);
        Ok(answers.into_iter().flatten().collect())
    }
}

/// A connection that is dropped is closed by its thread at some later time. If that is after the
/// writer closed, SQLite leaves its log beside the file. So a task closes the connection, and the
/// store waits for the task.
impl Drop for SqliteSnapshot {
    fn drop(&mut self) {
        let connection = self.held.try_lock().ok().and_then(|mut place| place.take());
        if let (Some(connection), Ok(runtime)) = (connection, Handle::try_current()) {
            runtime.spawn(self.closing.track_future(close(connection)));
        }
    }
}

#[async_trait]
impl Snapshot for SqliteSnapshot {
    async fn records(&mut self, limit: u32) -> Result<Vec<(Key, Value)>, StoreError> {
        const PAGE: &str = "SELECT key, value FROM record WHERE key > ? ORDER BY key LIMIT +?";
        let doing = "reading records of a snapshot";
        let rows = self.page(PAGE, &self.record, limit, doing).await?;
        let records: Result<Vec<_>, sqlx::Error> =
            rows.iter().map(|row| Ok((key_at(row, 0)?, value_at(row, 1)?))).collect();
        let records = records.map_err(while_doing(doing))?;
        if let Some((last, _)) = records.last() {
            self.record = last.as_bytes().to_vec();
        }
        Ok(records)
    }

    async fn counters(&mut self, limit: u32) -> Result<Vec<(CounterKey, i64)>, StoreError> {
        const PAGE: &str =
            "SELECT key, value FROM counter WHERE key > ? AND value <> 0 ORDER BY key LIMIT +?";
        let doing = "reading counters of a snapshot";
        let rows = self.page(PAGE, &self.counter, limit, doing).await?;
        let counters: Result<Vec<_>, sqlx::Error> =
            rows.iter().map(|row| Ok((CounterKey(key_at(row, 0)?), integer(row, 1)?))).collect();
        let counters = counters.map_err(while_doing(doing))?;
        if let Some((CounterKey(last), _)) = counters.last() {
            self.counter = last.as_bytes().to_vec();
        }
        Ok(counters)
    }
}

//! The metadata store in a PostgreSQL database.
//!
//! A commit is one statement in autocommit. It calls a function that takes a lock for each key, checks
//! that all guards hold, writes, and adds an entry to the change feed. If some guard does not hold, it
//! does nothing, and a second statement decides plan by plan. A read is one statement, and so one
//! snapshot. No transaction is open between two round trips, with two exceptions: snapshots, which only
//! read, and commits where the role may not make functions.
//!
//! Several processes may use one database at once, and several stores: the tables lie in the first
//! schema of the connection's search path, under names that begin with `ashlar_`. Connections must
//! reach the server itself, or through something that gives each its own session and passes on the
//! startup parameter `options`; a pooler that shares sessions between transactions is refused or
//! fails. The server is PostgreSQL 15 or later.
//!
//! # URLs
//! `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. Parameters: `sslmode` (`disable`, `allow`,
//! `prefer`, `require`, `verify-ca`, `verify-full`; `prefer` if it is not there, which does not
//! verify whom it talks to), `sslrootcert`, `sslcert` and `sslkey` (paths of PEM files),
//! `application_name`, and settings of the session as `options[search_path]=SCHEMA`. `host` may be
//! the folder of a Unix socket. A password that is not in the URL is taken from where libpq looks.
//!
//! # Durability
//! Strict means that `fsync` and `full_page_writes` are on and `synchronous_commit` is `on`,
//! `remote_write` or `remote_apply`. The last is what the server, the database or the role says;
//! this crate never changes it. `off` loses the last commits in a crash, and `local` those that no
//! standby has yet when one takes over, so both need relaxed durability. A standby is never used.
//!
//! This crate knows keys, values and integers. It does not know what they mean.

mod commit;
mod connect;
mod connections;
mod error;
mod feed;
mod limits;
mod read;
mod rounds;
mod schema;
mod script;
mod snapshot;
mod whole;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use store::{
    Changes, CounterPage, Durability, Limits, MetaStore, Page, Plan, Position, Read, ReadResult,
    Shortage, Snapshot, Space, StoreError, Verdict,
};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::commit::Way;
use crate::connect::{Connector, Idle};
use crate::connections::Connections;
use crate::limits::LIMITS;
use crate::snapshot::PostgresSnapshot;

/// Connections that commit, by default. With more of them, more commits share an fsync, but they wait
/// for each other at counters that all of them change.
pub const COMMIT_CONNECTIONS: u32 = 4;

/// Connections that read, by default.
pub const READ_CONNECTIONS: u32 = 8;

/// Snapshots that one store holds at a time; each has a connection.
pub const SNAPSHOTS: usize = 8;

/// How long a snapshot waits for others to end.
const SNAPSHOT_PERMIT_DEADLINE: Duration = Duration::from_secs(2);

/// How to open a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresOptions {
    /// Accept a server whose settings may lose acknowledged commits in a crash.
    pub relaxed: bool,
    /// Make and use functions, so that a commit is mostly one round trip. Without them, or where the role
    /// may not make functions, it is two.
    pub functions: bool,
    /// Batches that are committed at a time, each on a connection; at least 1.
    pub commit_connections: u32,
    /// Reads at a time, each on a connection; at least 1.
    pub read_connections: u32,
}

impl Default for PostgresOptions {
    fn default() -> PostgresOptions {
        PostgresOptions {
            relaxed: false,
            functions: true,
            commit_connections: COMMIT_CONNECTIONS,
            read_connections: READ_CONNECTIONS,
        }
    }
}

/// A metadata store in a PostgreSQL database.
///
/// Dropped without [`MetaStore::close`], it still finishes the commits that it has accepted, as
/// long as the runtime lives.
#[derive(Debug)]
pub struct PostgresStore {
    shared: Arc<Shared>,
    /// Tasks of commits, which run to their end whether or not anybody waits for them.
    tasks: TaskTracker,
    snapshots: Arc<Semaphore>,
    shortage: Shortage,
    closed: AtomicBool,
}

/// What commits under way need.
#[derive(Debug)]
struct Shared {
    connector: Arc<Connector>,
    commits: Connections,
    reads: Connections,
    way: Way,
    /// Batches that went into the feed since it was trimmed last.
    feed_entries: AtomicU64,
}

impl PostgresStore {
    /// Opens the store that the URL names, making it if there is none. Connects, with a deadline
    /// of two seconds.
    ///
    /// # Errors
    /// [`store::StoreErrorKind::Unavailable`] if the server cannot be reached, is a standby, or
    /// has settings that may lose commits while the options do not accept that, and if the URL
    /// cannot be read; [`store::StoreErrorKind::Corrupt`] if the store has another format. No
    /// error holds a password.
    pub async fn open(url: &str, options: PostgresOptions) -> Result<PostgresStore, StoreError> {
        let connector = Arc::new(Connector::new(url, options.relaxed)?);
        let age = connector.age();
        let mut connection = connector.connect(Idle::Short).await?;
        let way = schema::prepare(&mut connection, connector.name(), options.functions).await?;
        let commits = Connections::new(Arc::clone(&connector), options.commit_connections);
        commits.adopt(connection, age);
        let reads = Connections::new(Arc::clone(&connector), options.read_connections);
        // The feed is trimmed soon after the start, however short a process lives.
        let feed_entries = AtomicU64::new(feed::TRIM_EVERY * 3 / 4);
        Ok(PostgresStore {
            shared: Arc::new(Shared { connector, commits, reads, way, feed_entries }),
            tasks: TaskTracker::new(),
            snapshots: Arc::new(Semaphore::new(SNAPSHOTS)),
            shortage: Shortage::default(),
            closed: AtomicBool::new(false),
        })
    }

    /// Returns true if the URL names a store that exists. Makes nothing.
    ///
    /// # Errors
    /// As [`PostgresStore::open`].
    pub async fn is_made(url: &str, options: &PostgresOptions) -> Result<bool, StoreError> {
        let connector = Connector::new(url, options.relaxed)?;
        let mut connection = connector.connect(Idle::Short).await?;
        let is_made = schema::is_made(&mut connection, connector.name()).await;
        connections::say_goodbye(connection).await;
        is_made
    }

    fn check_open(&self) -> Result<(), StoreError> {
        if self.closed.load(Ordering::SeqCst) { Err(error::closed()) } else { Ok(()) }
    }

    /// Checks the server in the background, if it is time.
    fn look(&self) {
        if self.closed.load(Ordering::SeqCst) || !self.shared.connector.is_due() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        self.tasks.spawn(async move {
            match shared.connector.connect(Idle::Short).await {
                Ok(connection) => connections::say_goodbye(connection).await,
                Err(error) => tracing::warn!(%error, "looking at the metadata store"),
            }
        });
    }
}

impl Shared {
    async fn commit(&self, plans: Vec<Plan>) -> Result<(Vec<Verdict>, bool), StoreError> {
        let changing: Vec<bool> = plans.iter().map(commit::changes_records).collect();
        let verdicts = commit::commit(&self.commits, self.way, plans).await?;
        let has_entry = changing
            .iter()
            .zip(&verdicts)
            .any(|(changing, verdict)| *changing && *verdict == Verdict::Committed);
        let trim = has_entry
            && self.feed_entries.fetch_add(1, Ordering::Relaxed).is_multiple_of(feed::TRIM_EVERY);
        Ok((verdicts, trim))
    }
}

#[async_trait]
impl MetaStore for PostgresStore {
    fn limits(&self) -> Limits {
        LIMITS
    }

    fn durability(&self) -> Durability {
        self.shared.connector.durability()
    }

    fn shortage(&self) -> Option<String> {
        self.shortage.get()
    }

    async fn read(&self, reads: &[Read]) -> Result<Vec<ReadResult>, StoreError> {
        LIMITS.check_read(reads)?;
        self.look();
        read::read(&self.shared.reads, reads).await
    }

    async fn commit(&self, plans: &[Plan]) -> Result<Vec<Verdict>, StoreError> {
        LIMITS.check_commit(plans)?;
        self.check_open()?;
        self.look();
        if plans.is_empty() {
            return Ok(Vec::new());
        }
        let (shared, plans) = (Arc::clone(&self.shared), plans.to_vec());
        let count = plans.len();
        let task = self.tasks.spawn(async move { shared.commit(plans).await });
        let done = task.await.unwrap_or_else(|_| Err(commit::lost(count)));
        let (outcome, trim) = match done {
            Ok((verdicts, trim)) => (Ok(verdicts), trim),
            Err(error) => (Err(error), false),
        };
        self.shortage.observe(&outcome);
        if trim {
            let shared = Arc::clone(&self.shared);
            self.tasks.spawn(async move { feed::trim(&shared.commits).await });
        }
        outcome
    }

    async fn walk(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        read::walk(&self.shared.reads, space, resume, limit).await
    }

    async fn walk_counters(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<CounterPage, StoreError> {
        read::walk_counters(&self.shared.reads, space, resume, limit).await
    }

    async fn changes(&self, since: Option<&Position>) -> Result<Changes, StoreError> {
        feed::changes(&self.shared.reads, since).await
    }

    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError> {
        self.check_open()?;
        let permit = timeout(SNAPSHOT_PERMIT_DEADLINE, Arc::clone(&self.snapshots).acquire_owned());
        let busy = || error::unavailable(format!("beginning a snapshot: {SNAPSHOTS} are open"));
        let permit = permit.await.map_err(|_| busy())?.map_err(|_| error::closed())?;
        let connection = self.shared.connector.connect(Idle::Endless).await?;
        Ok(Box::new(PostgresSnapshot::begin(connection, permit).await?))
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.tasks.close();
        self.tasks.wait().await;
        self.shared.commits.close().await;
        self.shared.reads.close().await;
    }
}

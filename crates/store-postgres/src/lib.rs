//! The metadata store in a PostgreSQL database.
//!
//! A commit is one statement in autocommit. This process decides the plans on assumptions. The
//! statement calls a function that takes a lock for each key, checks the assumptions, writes, and
//! appends an entry to the change feed. If an assumption is wrong, the function changes nothing and
//! returns the records, with which the plans are decided again. For example, a PUT takes one round
//! trip, also if it loses a race; a batch with that PUT and others takes two.
//!
//! A read is one statement, and therefore one snapshot. No transaction is open between two round
//! trips, with two exceptions: snapshots, which only read, and commits under locks, for example of
//! a role that may not create functions.
//!
//! Several processes and several stores may use one database at once. The tables are in the first
//! schema of the connection's search path, with names that begin with `ashlar_`. Connections must
//! reach the server directly, or through a proxy that gives each connection its own session and
//! passes on the startup parameter `options`. A pooler that shares sessions between transactions is
//! refused or fails. The server is PostgreSQL 15 or later.
//!
//! # URLs
//! `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, or `…@HOST,HOST:PORT/DATABASE` with the servers
//! of one database, of which the primary is used. Parameters: `sslmode` (`disable`, `allow`,
//! `prefer`, `require`, `verify-ca`, `verify-full`; the default `prefer` does not verify the
//! server), `sslrootcert`, `sslcert` and `sslkey` (paths of PEM files), `application_name`, and
//! settings of the session as `options[search_path]=SCHEMA`. `host` may be the folder of a Unix
//! socket, if the URL names one host. `async_standbys=never_promoted` promises that no asynchronous
//! standby takes over. A password that is not in the URL is taken from the sources that libpq uses.
//!
//! # Durability
//! Strict durability needs `fsync` and `full_page_writes` on, and `synchronous_commit` at `on`,
//! `remote_write` or `remote_apply`. The server, the database or the role sets
//! `synchronous_commit`; this crate never changes it. With `off` a crash loses the last commits.
//! With `local` a failover loses the commits that no standby has received. Both values need relaxed
//! durability. So does a primary with asynchronous standbys, unless the URL promises that none of
//! them is promoted. A standby is never used, and neither is a primary with a lower timeline than
//! any server has shown.
//!
//! This crate knows keys, values and integers, and not their meaning.

mod address;
mod arguments;
mod commit;
mod connect;
mod connections;
mod counters;
mod error;
mod feed;
mod limits;
mod locks;
mod read;
mod schema;
mod script;
mod server;
mod snapshot;
mod succession;

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

/// Default number of connections that commit. With more of them, more commits share an fsync, but
/// they wait for each other at counters that all of them change, for example the number of a
/// bucket's objects.
pub const COMMIT_CONNECTIONS: u32 = 4;

/// Default number of connections that read.
pub const READ_CONNECTIONS: u32 = 8;

/// Number of snapshots that one store holds at a time. Each has a connection.
pub const SNAPSHOTS: usize = 8;

/// How long a new snapshot waits until another one ends.
const SNAPSHOT_PERMIT_DEADLINE: Duration = Duration::from_secs(2);

/// The options of opening a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresOptions {
    /// Accept a server whose settings may lose acknowledged commits in a crash.
    pub relaxed: bool,
    /// Create and use a function, so that most commits are one round trip. Without it, or if the
    /// role may not create functions, a commit is two round trips.
    pub functions: bool,
    /// Number of batches that are committed concurrently, each on a connection of its own; at least
    /// 1.
    pub commit_connections: u32,
    /// Number of calls that read concurrently, each on a connection of its own; at least 1.
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
/// If it is dropped without [`MetaStore::close`], it still finishes the commits that it has
/// accepted, while the runtime exists.
#[derive(Debug)]
pub struct PostgresStore {
    shared: Arc<Shared>,
    /// Tasks of commits. They run to their end, also if their callers go away.
    tasks: TaskTracker,
    snapshots: Arc<Semaphore>,
    shortage: Shortage,
    closed: AtomicBool,
}

/// The parts of the store that commits in flight need.
#[derive(Debug)]
struct Shared {
    connector: Arc<Connector>,
    commits: Connections,
    reads: Connections,
    way: Way,
    /// Number of batches that have added keys to the change feed. After each 256 of them the old
    /// entries are deleted.
    feed_entries: AtomicU64,
}

impl PostgresStore {
    /// Opens the store that the URL names, and creates it if it does not exist. Connects with a
    /// deadline of two seconds.
    ///
    /// # Errors
    /// [`store::StoreErrorKind::Unavailable`] if the server cannot be reached or is a standby, if
    /// its settings may lose commits and the options do not accept that, or if the URL cannot be
    /// parsed. [`store::StoreErrorKind::Corrupt`] if the store has another format. No error
    /// contains a password.
    pub async fn open(url: &str, options: PostgresOptions) -> Result<PostgresStore, StoreError> {
        let connector = Arc::new(Connector::new(url, options.relaxed)?);
        // Read before connecting: if the connection breaks meanwhile, it counts as old.
        let generation = connector.generation();
        let mut connection = connector.connect(Idle::Short).await?;
        let way = schema::prepare(&mut connection, connector.name(), options.functions).await?;
        let commits = Connections::new(Arc::clone(&connector), options.commit_connections);
        commits.adopt(connection, generation);
        let reads = Connections::new(Arc::clone(&connector), options.read_connections);
        // Trim the feed soon after the start: a process may end after fewer batches than the
        // interval.
        let feed_entries = AtomicU64::new(feed::TRIM_EVERY * 3 / 4);
        Ok(PostgresStore {
            shared: Arc::new(Shared { connector, commits, reads, way, feed_entries }),
            tasks: TaskTracker::new(),
            snapshots: Arc::new(Semaphore::new(SNAPSHOTS)),
            shortage: Shortage::default(),
            closed: AtomicBool::new(false),
        })
    }

    /// Returns true if the URL names an existing store. Creates nothing.
    ///
    /// # Errors
    /// Fails like [`PostgresStore::open`].
    pub async fn is_made(url: &str, options: &PostgresOptions) -> Result<bool, StoreError> {
        let connector = Connector::new(url, options.relaxed)?;
        let mut connection = connector.connect(Idle::Short).await?;
        let is_made = schema::is_made(&mut connection, connector.name()).await;
        connect::close_gracefully(connection).await;
        is_made
    }

    fn check_open(&self) -> Result<(), StoreError> {
        if self.closed.load(Ordering::SeqCst) { Err(error::closed()) } else { Ok(()) }
    }

    /// Checks the server in the background, if the last check is old enough.
    fn check_server_if_due(&self) {
        if self.closed.load(Ordering::SeqCst) || !self.shared.connector.is_due() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        self.tasks.spawn(async move {
            if let Err(error) = shared.connector.check().await {
                tracing::warn!(%error, "checking the metadata store");
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
        self.check_server_if_due();
        read::read(&self.shared.reads, reads).await
    }

    async fn commit(&self, plans: &[Plan]) -> Result<Vec<Verdict>, StoreError> {
        LIMITS.check_commit(plans)?;
        self.check_open()?;
        self.check_server_if_due();
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
        // First, so that no new commit starts while this waits for those in flight.
        self.closed.store(true, Ordering::SeqCst);
        self.tasks.close();
        self.tasks.wait().await;
        self.shared.commits.close().await;
        self.shared.reads.close().await;
    }
}

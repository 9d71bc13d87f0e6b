//! The metadata store in a database of MariaDB or MySQL.
//!
//! Records and counters are two `InnoDB` tables of bytes. A read is one statement. A batch of plans
//! is two round trips on one connection. The first begins a transaction and locks the rows that the
//! plans need; the second writes the changes and commits. In between this process decides the plans
//! in memory; `commit` explains why that is correct. Two more tables are the change feed. For
//! example, a PUT is one packet of locking reads, then one packet of `INSERT`s, the feed's entry
//! and `COMMIT`.
//!
//! Several stores, in this process and in others, may have one database open at the same time.
//!
//! Made for MariaDB 10.11 and later, with which the tests run. MySQL 8 understands the same
//! statements, but the tests have not been run with it.
//!
//! # URLs
//! `mysql://USER:PASSWORD@HOST:PORT/DATABASE`, or `…@HOST,HOST:PORT/DATABASE` with the servers of
//! one database, of which the primary is used; also `mariadb://…`. [`MysqlStore::open`] lists the
//! parameters.
//!
//! This crate knows keys, values and integers, and not their meaning.

mod address;
mod commit;
mod connect;
mod error;
mod feed;
mod limits;
mod open;
mod pool;
mod read;
mod row;
mod script;
mod server;
mod snapshot;
mod standing;
mod writes;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use store::{
    Changes, CounterPage, Durability, Limits, MetaStore, Page, Plan, Position, Read, ReadResult,
    Shortage, Snapshot, Space, StoreError, StoreErrorKind, Verdict,
};
use tokio_util::task::TaskTracker;

use crate::connect::{Connector, Role};
use crate::limits::LIMITS;
use crate::pool::ConnectionPool;

/// Default number of connections that commit.
pub const WRITERS: u32 = 4;

/// Default number of connections that read.
pub const READERS: u32 = 8;

/// The options of opening a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MysqlOptions {
    /// Accept a server whose settings may lose acknowledged commits in a crash. The risks are
    /// logged, and [`MetaStore::durability`] returns [`Durability::Relaxed`] while the server has
    /// such settings.
    pub relaxed: bool,
    /// Number of connections that commit, each one batch at a time; at least 1.
    pub writers: u32,
    /// Number of connections that read, each one call at a time; at least 1. Opening the store, and
    /// each snapshot, use one more while they last.
    pub readers: u32,
}

impl Default for MysqlOptions {
    fn default() -> MysqlOptions {
        MysqlOptions { relaxed: false, writers: WRITERS, readers: READERS }
    }
}

/// A metadata store in a database of MariaDB or MySQL.
///
/// If it is dropped without [`MetaStore::close`], it still finishes the commits that it has
/// accepted, while the runtime exists.
#[derive(Debug)]
pub struct MysqlStore {
    connector: Arc<Connector>,
    writers: Arc<ConnectionPool>,
    readers: ConnectionPool,
    commits: TaskTracker,
    shortage: Shortage,
    /// Sixteen bytes that identify this store in positions of its change feed.
    store: Bytes,
}

impl MysqlStore {
    /// Opens the store in the database that `url` names, and creates its tables if they do not
    /// exist: `mysql://user:password@host:port/database`, or `mariadb://…`, percent-encoded where
    /// needed.
    ///
    /// Parameters: `ssl-mode` is `DISABLED`, `PREFERRED` (the default: encrypted if the server
    /// supports it, without verifying the server), `REQUIRED`, `VERIFY_CA` or `VERIFY_IDENTITY`;
    /// `ssl-ca` is a file of root certificates in PEM, used instead of the public ones; `ssl-cert`
    /// and `ssl-key` are the client's own; `socket` is the path of a Unix socket; `single_writer`
    /// confirms that all gateways use one node of a cluster, and excludes a list of hosts;
    /// `async_standbys=never_promoted` promises that no asynchronous replica takes over. Any other
    /// parameter is refused. A password for MySQL's `caching_sha2_password` is sent only over TLS
    /// or a Unix socket.
    ///
    /// The user needs the rights to read and write the tables, and once to create them. All users
    /// may run `SHOW VARIABLES`.
    ///
    /// # Errors
    /// [`StoreErrorKind::Unavailable`] if the URL does not parse, the server cannot be reached or
    /// refuses the user, its settings may lose acknowledged commits and `options` do not accept
    /// that, or the settings prevent writes. [`StoreErrorKind::Corrupt`] if the tables have another
    /// format. No error contains the password.
    pub async fn open(url: &str, options: MysqlOptions) -> Result<MysqlStore, StoreError> {
        let mut connector = Connector::new(url, options.relaxed)?;
        let store = open::open(&mut connector).await?;
        let connector = Arc::new(connector);
        let pool = |role, size| ConnectionPool::new(Arc::clone(&connector), role, size);
        Ok(MysqlStore {
            writers: Arc::new(pool(Role::Writer, options.writers)),
            readers: pool(Role::Reader, options.readers),
            connector,
            commits: TaskTracker::new(),
            shortage: Shortage::default(),
            store,
        })
    }

    /// Returns true if the URL names an existing store. Creates nothing.
    ///
    /// # Errors
    /// Fails like [`MysqlStore::open`].
    pub async fn is_made(url: &str, options: &MysqlOptions) -> Result<bool, StoreError> {
        open::is_made(&Connector::new(url, options.relaxed)?).await
    }

    /// Fails after `close`. If the last check of the server is too old, checks it in the
    /// background.
    fn check_open(&self) -> Result<(), StoreError> {
        if self.commits.is_closed() {
            return Err(error::closed());
        }
        if self.connector.standing.is_due() {
            let connector = Arc::clone(&self.connector);
            self.commits.spawn(async move {
                if let Err(error) = connector.check().await {
                    tracing::warn!(%error, "checking the metadata store");
                }
            });
        }
        Ok(())
    }
}

#[async_trait]
impl MetaStore for MysqlStore {
    fn limits(&self) -> Limits {
        LIMITS
    }

    fn durability(&self) -> Durability {
        self.connector.standing.durability()
    }

    fn shortage(&self) -> Option<String> {
        self.shortage.get()
    }

    async fn read(&self, reads: &[Read]) -> Result<Vec<ReadResult>, StoreError> {
        LIMITS.check_read(reads)?;
        self.check_open()?;
        read::read(&self.readers, reads).await
    }

    async fn commit(&self, plans: &[Plan]) -> Result<Vec<Verdict>, StoreError> {
        LIMITS.check_commit(plans)?;
        self.check_open()?;
        if plans.is_empty() {
            return Ok(Vec::new());
        }
        let (writers, plans) = (Arc::clone(&self.writers), plans.to_vec());
        let count = plans.len();
        // The task continues if the caller goes away, and `close` waits for it. The answer is lost
        // only if the runtime ended.
        let task = self.commits.spawn(async move { commit::commit(&writers, &plans).await });
        let outcome = task.await.unwrap_or_else(|error| {
            let doing = format!("committing {count} plans: the task is gone");
            Err(StoreError::because(StoreErrorKind::Unknown, doing, error))
        });
        self.shortage.observe(&outcome);
        if let Err(error) = &outcome
            && error::names_full_disk(error)
        {
            self.shortage.set(Some(error.to_string()));
        }
        outcome
    }

    async fn walk(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        read::walk(&self.readers, space, resume, limit).await
    }

    async fn walk_counters(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<CounterPage, StoreError> {
        read::walk_counters(&self.readers, space, resume, limit).await
    }

    async fn changes(&self, since: Option<&Position>) -> Result<Changes, StoreError> {
        self.check_open()?;
        let question = feed::Question::new(since, &self.store)?;
        let script = || question.script();
        let answers = read::ask(&self.readers, script, "reading the change feed").await?;
        question.answer(&answers)
    }

    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError> {
        self.check_open()?;
        Ok(Box::new(snapshot::MysqlSnapshot::begin(&self.connector).await?))
    }

    async fn close(&self) {
        self.commits.close();
        self.commits.wait().await;
        self.writers.close().await;
        self.readers.close().await;
    }
}

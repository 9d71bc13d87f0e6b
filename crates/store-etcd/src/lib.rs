//! The metadata store in an etcd cluster.
//!
//! A commit is one optimistic transaction: this process decides a batch on assumptions, and etcd
//! checks them as conditions, writes, and appends to the change feed. If a condition does not hold,
//! the same request returns the records, from which the batch is decided again. For example, a PUT
//! takes one round trip, also if it loses a race; a batch with that PUT and others takes two.
//!
//! A read is one transaction of gets at one revision. The history of one key is the change feed. A
//! snapshot is a revision. A counter is the sum of cells, of which each open store has one.
//!
//! # URLs
//! `etcd://USER:PASSWORD@HOST:PORT,HOST:PORT/NAME`, or `etcds://` for TLS. NAME is the beginning of
//! all keys, by default `ashlar`. Parameters: `cacert`, `cert` and `key` (paths of PEM files) and
//! `quota` (the members' `--quota-backend-bytes`, such as `8GiB`, for warnings).
//!
//! # Members
//! The members must run with `--max-txn-ops=8448 --max-request-bytes=10485760`, and in a version
//! that keeps its consistency: 3.4.22 or later of 3.4, or 3.5.6 or later. The operator compacts the
//! history, with `--auto-compaction-mode=periodic --auto-compaction-retention=1h`.
//!
//! # Durability
//! Strict: an acknowledged commit is synced by a majority of the members. A member with
//! `--unsafe-no-fsync` looks like any other.
//!
//! This crate knows keys, values and integers, and not their meaning.

mod address;
mod commit;
mod counters;
mod error;
mod feed;
mod guesses;
mod keys;
mod limits;
mod members;
mod open;
mod read;
mod rpc;
mod shared;
mod snapshot;
mod walk;
mod watching;

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use async_trait::async_trait;
use bytes::Bytes;
use store::{
    Changes, CounterPage, Durability, Limits, MetaStore, Page, Plan, Position, Read, ReadResult,
    Shortage, Snapshot, Space, StoreError, StoreErrorKind, Verdict,
};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::counters::OwnCells;
use crate::feed::Feed;
use crate::guesses::Guesses;
use crate::keys::Keys;
use crate::limits::LIMITS;
use crate::members::Members;
use crate::shared::Shared;
use crate::snapshot::EtcdSnapshot;

/// A metadata store in an etcd cluster, which can hold several stores, each under its own name.
#[derive(Debug)]
pub struct EtcdStore {
    shared: Arc<Shared>,
}

/// The options of opening a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtcdOptions {
    /// Number of counters whose cells this process remembers. A commit that changes another counter
    /// may take two round trips.
    pub counters_remembered: usize,
    /// Number of records whose targets this process remembers. A read that follows another record
    /// takes two round trips.
    pub targets_remembered: usize,
}

impl Default for EtcdOptions {
    fn default() -> EtcdOptions {
        EtcdOptions { counters_remembered: 100_000, targets_remembered: 100_000 }
    }
}

impl EtcdStore {
    /// Opens the store that a URL names, and creates it if it does not exist.
    ///
    /// # Errors
    /// [`StoreErrorKind::Unavailable`] if no member answers, or if a member refuses the user, has a
    /// version that can lose consistency, or allows smaller transactions than this engine needs.
    /// [`StoreErrorKind::Corrupt`] if the store has another format. [`StoreErrorKind::Malformed`]
    /// if the URL cannot be parsed. No error contains a password.
    pub async fn open(url: &str, options: EtcdOptions) -> Result<EtcdStore, StoreError> {
        let address = address::parse(url)?;
        let (members, keys) = (Members::new(&address)?, Keys::new(&address.name));
        open::check(&members, &keys).await?;
        let id = open::create(&members, &keys, rand::random()).await?;
        let shared = Arc::new_cyclic(|this| Shared {
            members,
            keys,
            cells: OwnCells::new(rand::random(), options.counters_remembered),
            counting: Mutex::default(),
            folding: Mutex::default(),
            guesses: Guesses::new(options.targets_remembered),
            feed: Feed::new(id),
            shortage: Shortage::default(),
            seen: AtomicI64::new(0),
            quota: address.quota,
            tasks: TaskTracker::new(),
            this: this.clone(),
            closed: CancellationToken::new(),
        });
        watching::begin(&shared).await?;
        shared.tasks.spawn(watching::follow(Arc::clone(&shared)));
        let checked = Arc::clone(&shared);
        shared.tasks.spawn(async move { checked.check_members().await });
        Ok(EtcdStore { shared })
    }

    /// Returns true if the URL names an existing store. Creates nothing.
    ///
    /// # Errors
    /// Fails like [`EtcdStore::open`].
    pub async fn is_made(url: &str, _options: &EtcdOptions) -> Result<bool, StoreError> {
        let address = address::parse(url)?;
        let (members, keys) = (Members::new(&address)?, Keys::new(&address.name));
        open::check(&members, &keys).await?;
        Ok(open::id(&members, &keys).await?.is_some())
    }

    /// Returns the number of requests that calls of this store have sent so far. Each is one round
    /// trip. The watch of the change feed and the checks of the members do not count.
    pub fn requests(&self) -> u64 {
        self.shared.members.requests()
    }

    fn check_open(&self) -> Result<(), StoreError> {
        if self.shared.closed.is_cancelled() { Err(error::closed()) } else { Ok(()) }
    }
}

#[async_trait]
impl MetaStore for EtcdStore {
    fn limits(&self) -> Limits {
        LIMITS
    }

    fn durability(&self) -> Durability {
        Durability::Strict
    }

    fn shortage(&self) -> Option<String> {
        self.shared.shortage.get()
    }

    async fn read(&self, reads: &[Read]) -> Result<Vec<ReadResult>, StoreError> {
        LIMITS.check_read(reads)?;
        self.check_open()?;
        read::read(&self.shared, reads).await
    }

    async fn commit(&self, plans: &[Plan]) -> Result<Vec<Verdict>, StoreError> {
        LIMITS.check_commit(plans)?;
        self.check_open()?;
        if plans.is_empty() {
            return Ok(Vec::new());
        }
        let (shared, plans) = (Arc::clone(&self.shared), plans.to_vec());
        let task = shared.tasks.clone().spawn(async move { commit::commit(&shared, &plans).await });
        let lost =
            |_| StoreError::new(StoreErrorKind::Unknown, "committing to etcd: its task is gone");
        task.await.map_err(lost)?
    }

    async fn walk(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        self.check_open()?;
        walk::records(&self.shared, space, resume, limit).await
    }

    async fn walk_counters(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<CounterPage, StoreError> {
        self.check_open()?;
        walk::counters(&self.shared, space, resume, limit).await
    }

    async fn changes(&self, since: Option<&Position>) -> Result<Changes, StoreError> {
        self.check_open()?;
        watching::changes(&self.shared, since).await
    }

    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError> {
        self.check_open()?;
        Ok(Box::new(EtcdSnapshot::begin(Arc::clone(&self.shared)).await?))
    }

    async fn close(&self) {
        self.shared.closed.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}

impl Drop for EtcdStore {
    fn drop(&mut self) {
        // The tasks of the feed and of the checks end; commits in flight still finish.
        self.shared.closed.cancel();
    }
}

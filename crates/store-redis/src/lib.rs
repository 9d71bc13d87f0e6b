//! The metadata store in Redis or Valkey.
//!
//! Each call is one script. Redis runs one script at a time, so a read is one snapshot, and no
//! other call runs while a batch is committed. This process decides a batch on assumptions, which
//! the script checks. If one is wrong, the script changes nothing and returns the records, with
//! which the batch is decided again. For example, a PUT is one script, also if it loses a race; a
//! batch with that PUT and others is two.
//!
//! Redis does not undo a script that fails. Therefore scripts read first, and then write with
//! commands that cannot fail. Redis may still refuse a script for lack of memory, but only before
//! its first write. Plans that free as much memory as they need are then decided by a script that
//! Redis does not refuse.
//!
//! All keys of a volume begin with one hash tag; `prelude.lua` lists them. Records of a point space
//! (whose records are read by key only) are fields of hashes, one hash for each chunk of
//! partitions. Records of an ordered space (which ranges scan) are members of sorted sets, one for
//! each partition. A member is the suffix and the value, so that small directories take few bytes.
//! Of a long record only the head is in these containers, because Redis copies whole fields and
//! members even for a reader that needs only a part.
//!
//! This crate knows keys, values and integers, and not their meaning.

mod about;
mod address;
mod agreement;
mod append_log;
mod commit;
mod connect;
mod encode;
mod error;
mod feed;
mod limits;
mod member;
mod open;
mod options;
mod overflow;
mod program;
mod read;
mod record;
mod reply;
mod sentinel;
mod sequence;
mod snapshot;
mod walk;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use store::{
    Changes, CounterPage, Durability, Limits, MetaStore, Page, Plan, Position, Read, ReadResult,
    Shortage, Snapshot, Space, StoreError, Verdict,
};

use crate::connect::Links;
use crate::limits::LIMITS;
pub use crate::options::{CONNECTIONS, RedisOptions, SNAPSHOT_PATIENCE};

/// A metadata store in a Redis or Valkey server, which can hold several volumes, each under its own
/// prefix.
#[derive(Debug)]
pub struct RedisStore {
    links: Arc<Links>,
    /// The volume's id: the first bytes of each position in its change feed.
    id: [u8; feed::ID_BYTES],
    options: RedisOptions,
    shortage: Shortage,
}

impl RedisStore {
    /// Opens the volume that a URL names, and creates it if it does not exist:
    /// `redis://[user:password@]host[:port][/db][?prefix=NAME]`.
    ///
    /// - `rediss://` uses TLS. It accepts certificates that the system accepts, or only those of
    ///   the authorities in the PEM file that `ca=PATH` names.
    /// - `redis+unix:///path/to/socket[?db=N&user=U&pass=P]` uses a socket of this machine.
    /// - `redis+sentinel://[user:password@]s1[:port],s2,s3/MASTER[/db]` asks these Sentinels for
    ///   the address of `MASTER`, now and after each failover. Most of them must answer. It needs
    ///   `options.relaxed`. User and password are those of the servers; the Sentinels' own are
    ///   `sentinel_user` and `sentinel_password`. `rediss+sentinel://` uses TLS for the servers and
    ///   the Sentinels; `sentinel_tls=no` and `sentinel_tls=yes` change that for the Sentinels.
    /// - `prefix` is the volume's name on the server: 1 to 64 letters, digits, `.`, `_` and `-`;
    ///   the default is `ashlar`.
    ///
    /// # Errors
    /// [`store::StoreErrorKind::Unavailable`] if the server cannot be reached, is a replica, is
    /// older than Redis 7.0, is a node of a cluster, is not named by most Sentinels, or, unless
    /// `options.relaxed`, may lose acknowledged commits. [`store::StoreErrorKind::Corrupt`] if the
    /// keys have a newer format or are not a volume. [`store::StoreErrorKind::Malformed`] if the
    /// URL does not parse. No error contains a password.
    pub async fn open(url: &str, options: RedisOptions) -> Result<RedisStore, StoreError> {
        let address = address::parse(url)?;
        let links = Arc::new(Links::new(address, &options));
        let id = open::open(&links).await?;
        Ok(RedisStore { links, id, options, shortage: Shortage::default() })
    }

    /// Returns true if the URL names an existing volume. Creates nothing.
    ///
    /// # Errors
    /// Fails like [`RedisStore::open`].
    pub async fn is_made(url: &str, options: &RedisOptions) -> Result<bool, StoreError> {
        let links = Arc::new(Links::new(address::parse(url)?, options));
        let is_made = open::is_made(&links).await;
        links.close().await;
        is_made
    }
}

#[async_trait]
impl MetaStore for RedisStore {
    fn limits(&self) -> Limits {
        LIMITS
    }

    fn durability(&self) -> Durability {
        self.links.standing.durability()
    }

    fn shortage(&self) -> Option<String> {
        self.shortage.get()
    }

    async fn read(&self, reads: &[Read]) -> Result<Vec<ReadResult>, StoreError> {
        LIMITS.check_read(reads)?;
        read::read(&self.links, reads).await
    }

    async fn commit(&self, plans: &[Plan]) -> Result<Vec<Verdict>, StoreError> {
        LIMITS.check_commit(plans)?;
        commit::commit(&self.links, plans, &self.options.spared, &self.shortage).await
    }

    async fn walk(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        walk::records(&self.links, space, resume, limit).await
    }

    async fn walk_counters(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<CounterPage, StoreError> {
        walk::counters(&self.links, space, resume, limit).await
    }

    async fn changes(&self, since: Option<&Position>) -> Result<Changes, StoreError> {
        feed::changes(&self.links, self.id, since).await
    }

    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError> {
        let snapshot =
            snapshot::RedisSnapshot::open(&self.links, self.options.snapshot_patience).await?;
        Ok(Box::new(snapshot))
    }

    async fn close(&self) {
        self.links.close().await;
    }
}

//! The metadata store in Redis or Valkey.
//!
//! Every call is one script. Redis runs one script at a time, so a read is one snapshot, and a batch is
//! decided with nobody in between. There is a second script only if some guard of a batch does not
//! hold: the first one changes nothing then, and does not find out which guard it was.
//!
//! A script that fails is not undone. Hence scripts read first, and then write with commands that
//! cannot fail. Redis may still refuse a script for want of memory, but only before its first write.
//! Plans that free as much memory as they need are then decided by a script that Redis does not refuse.
//!
//! All keys of a volume begin with one hash tag; `prelude.lua` lists them. The records of a point space
//! are fields of hashes, one hash for each chunk of partitions. Those of an ordered space are members
//! of sorted sets, one for each partition. A member holds suffix and value, so that small directories
//! take few bytes. Of a long record only the head is there: Redis copies whole fields and members even
//! for a reader who needs less.
//!
//! This crate knows keys, values and integers. It does not know what they mean.

mod about;
mod address;
mod append_log;
mod batch;
mod commit;
mod connect;
mod encode;
mod error;
mod feed;
mod limits;
mod member;
mod opcode;
mod open;
mod options;
mod overflow;
mod program;
mod read;
mod record;
mod reply;
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

/// A metadata store in a Redis or Valkey server.
#[derive(Debug)]
pub struct RedisStore {
    links: Arc<Links>,
    /// The first bytes of every position in this volume's feed.
    id: [u8; feed::ID_BYTES],
    options: RedisOptions,
    shortage: Shortage,
}

impl RedisStore {
    /// Opens the volume that a URL names, making it if there is none:
    /// `redis://[user:password@]host[:port][/db][?prefix=NAME]`.
    ///
    /// - `rediss://` speaks TLS and believes the certificates that the system believes, or the
    ///   authorities in the PEM file that `ca=PATH` names, instead.
    /// - `redis+unix:///path/to/socket[?db=N&user=U&pass=P]` goes to a socket of this machine.
    /// - `prefix` tells volumes of one server apart: 1 to 64 letters, digits, `.`, `_` and `-`;
    ///   `ashlar` if there is none.
    ///
    /// # Errors
    /// [`store::StoreErrorKind::Unavailable`] if the server cannot be reached, is not a master, is
    /// older than Redis 7.0 or a cluster, or, unless `options.relaxed`, if its settings may lose
    /// what was acknowledged; [`store::StoreErrorKind::Corrupt`] if the volume has a newer format
    /// or is none; [`store::StoreErrorKind::Malformed`] if the URL is none. No error tells a
    /// password.
    pub async fn open(url: &str, options: RedisOptions) -> Result<RedisStore, StoreError> {
        let address = address::parse(url)?;
        let links = Arc::new(Links::new(address, &options));
        let id = open::open(&links).await?;
        Ok(RedisStore { links, id, options, shortage: Shortage::default() })
    }

    /// Returns true if the URL names a volume that exists. Makes nothing.
    ///
    /// # Errors
    /// As [`RedisStore::open`].
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

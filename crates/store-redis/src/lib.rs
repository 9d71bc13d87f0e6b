//! The metadata store in Redis or Valkey.
//!
//! A call is one script: Redis runs scripts one after the other and none beside another, so that a
//! read is one snapshot and a batch is decided without neighbours. Only a batch of which some guard
//! does not hold takes a second script: the first, which has changed nothing then, does not ask which. Scripts are not undone when they
//! fail. Hence they look first and change afterwards, with commands that cannot fail, and the one
//! thing that Redis may still refuse, memory, it refuses before a script's first change. Plans that make
//! as much room as they need are decided all the same then, by a script that Redis does not refuse.
//!
//! All keys of a volume begin with one hash tag. The records of a point space are the fields of one
//! hash. Those of an ordered space are the members of a sorted set for each partition, where each
//! stands once, suffix and value together, and small directories take few bytes. Of a long record
//! only the beginning is there, since Redis copies whole fields and members for those who want less.
//! `prelude.lua` has the list.
//!
//! This crate knows keys, values and integers. It does not know what they mean.

mod about;
mod address;
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
mod room;
mod snapshot;
mod walk;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use store::{
    Changes, CounterPage, Durability, Found, Limits, MetaStore, Page, Plan, Position, Read,
    Snapshot, Space, StoreError, Verdict,
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
        Ok(RedisStore { links, id, options })
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

    async fn read(&self, reads: &[Read]) -> Result<Vec<Found>, StoreError> {
        LIMITS.check_read(reads)?;
        read::read(&self.links, reads).await
    }

    async fn commit(&self, plans: &[Plan]) -> Result<Vec<Verdict>, StoreError> {
        LIMITS.check_commit(plans)?;
        commit::commit(&self.links, plans, &self.options.spared).await
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

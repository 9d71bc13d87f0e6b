//! A metadata store behind the record cache: it answers a read from current entries, and asks the
//! engine if any record of the read is not current. Before it commits plans it gives notice to the
//! sessions that hold a lease of this one.
//!
//! For example, a read of one current and one unknown record goes to the engine as a whole, because
//! the answer must be one snapshot.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use store::{
    Changes, CounterPage, Durability, Limits, MetaStore, Page, Plan, Position, Read, ReadResult,
    Snapshot, Space, StoreError, StoreErrorKind, Verdict,
};

use crate::leases::Leases;
use crate::records::RecordCache;

/// A store, its record cache, and the leases that this session has given.
#[derive(Debug)]
pub(crate) struct CachedStore {
    store: Arc<dyn MetaStore>,
    cache: Arc<RecordCache>,
    leases: Arc<Leases>,
}

impl CachedStore {
    pub(crate) fn new(
        store: Arc<dyn MetaStore>,
        cache: Arc<RecordCache>,
        leases: Arc<Leases>,
    ) -> CachedStore {
        CachedStore { store, cache, leases }
    }
}

#[async_trait]
impl MetaStore for CachedStore {
    fn limits(&self) -> Limits {
        self.store.limits()
    }

    fn durability(&self) -> Durability {
        self.store.durability()
    }

    fn shortage(&self) -> Option<String> {
        self.store.shortage()
    }

    async fn read(&self, reads: &[Read]) -> Result<Vec<ReadResult>, StoreError> {
        self.store.limits().check_read(reads)?;
        if let Some(found) = self.cache.answer(reads) {
            return Ok(found);
        }
        let reading = self.cache.begin_read();
        let found = self.store.read(reads).await?;
        reading.found(reads, &found);
        Ok(found)
    }

    async fn commit(&self, plans: &[Plan]) -> Result<Vec<Verdict>, StoreError> {
        let batch = self.cache.begin_batch(plans);
        // From the acknowledgement on no peer answers reads of these records from its cache, so no
        // client can read the old value after another one has read the new value.
        let notice = self.leases.give_notice(batch.keys());
        notice.acknowledged().await;
        match self.store.commit(plans).await {
            Ok(verdicts) => {
                batch.decided(plans, &verdicts);
                notice.done();
                Ok(verdicts)
            }
            Err(error) => {
                if error.kind() == StoreErrorKind::Unknown {
                    drop(batch);
                    notice.unknown(plans);
                } else {
                    batch.not_committed();
                    notice.done();
                }
                Err(error)
            }
        }
    }

    async fn walk(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        self.store.walk(space, resume, limit).await
    }

    async fn walk_counters(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<CounterPage, StoreError> {
        self.store.walk_counters(space, resume, limit).await
    }

    async fn changes(&self, since: Option<&Position>) -> Result<Changes, StoreError> {
        self.store.changes(since).await
    }

    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError> {
        self.store.snapshot().await
    }

    async fn close(&self) {
        self.cache.end_authority();
        self.store.close().await;
    }
}

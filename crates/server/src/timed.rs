//! Layers that measure the latency of each call to the metadata store and to the block store.
//!
//! For example, `ashlar_metadata_call_seconds{operation="commit"}` shows the time of commits as the
//! session sees them, with the network and the wait for a connection. The layer of the block store
//! is below the retries, so each attempt is one observation. A call that its caller drops is not
//! observed.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use block::{BlockError, BlockPage, BlockRef, BlockStore, ByteSource, SealedBlock, Stored};
use bytes::Bytes;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use record::{BlockId, Nonce, RingNumber};
use store::{
    Changes, CounterPage, Durability, Limits, MetaStore, Page, Plan, Position, Read, ReadResult,
    Snapshot, Space, StoreError, Verdict,
};
use tokio::time::Instant;

/// Upper bounds of the histogram buckets in seconds, from 100 µs, a commit of a local store, to 30
/// seconds.
const SECONDS: [f64; 14] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Operation {
    operation: &'static str,
}

/// The latencies of the calls to a store, by operation.
#[derive(Clone, Debug)]
pub(crate) struct CallLatencies(Family<Operation, Histogram, fn() -> Histogram>);

impl CallLatencies {
    fn new() -> CallLatencies {
        CallLatencies(Family::new_with_constructor(|| Histogram::new(SECONDS)))
    }

    /// Returns the metric, to register it under a name.
    pub(crate) fn family(&self) -> impl prometheus_client::registry::Metric {
        self.0.clone()
    }

    /// Awaits a call and observes its latency, also if it fails.
    async fn time<T>(&self, operation: &'static str, call: impl Future<Output = T>) -> T {
        let begun = Instant::now();
        let result = call.await;
        let seconds = begun.elapsed().as_secs_f64();
        self.0.get_or_create(&Operation { operation }).observe(seconds);
        result
    }
}

/// A metadata store whose calls are timed.
#[derive(Debug)]
pub(crate) struct TimedMeta {
    inner: Arc<dyn MetaStore>,
    latencies: CallLatencies,
}

impl TimedMeta {
    /// Returns the layer over a store, and its latencies.
    pub(crate) fn over(inner: Arc<dyn MetaStore>) -> (Arc<dyn MetaStore>, CallLatencies) {
        let latencies = CallLatencies::new();
        (Arc::new(TimedMeta { inner, latencies: latencies.clone() }), latencies)
    }
}

#[async_trait]
impl MetaStore for TimedMeta {
    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }

    fn shortage(&self) -> Option<String> {
        self.inner.shortage()
    }

    async fn read(&self, reads: &[Read]) -> Result<Vec<ReadResult>, StoreError> {
        self.latencies.time("read", self.inner.read(reads)).await
    }

    async fn commit(&self, plans: &[Plan]) -> Result<Vec<Verdict>, StoreError> {
        self.latencies.time("commit", self.inner.commit(plans)).await
    }

    async fn walk(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<Page, StoreError> {
        self.latencies.time("walk", self.inner.walk(space, resume, limit)).await
    }

    async fn walk_counters(
        &self,
        space: Space,
        resume: Option<Bytes>,
        limit: u32,
    ) -> Result<CounterPage, StoreError> {
        self.latencies.time("walk", self.inner.walk_counters(space, resume, limit)).await
    }

    async fn changes(&self, since: Option<&Position>) -> Result<Changes, StoreError> {
        self.latencies.time("changes", self.inner.changes(since)).await
    }

    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError> {
        self.inner.snapshot().await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

/// A block store whose calls are timed.
#[derive(Debug)]
pub(crate) struct TimedBlocks<B> {
    inner: B,
    latencies: CallLatencies,
}

impl<B: BlockStore> TimedBlocks<B> {
    /// Returns the layer over a store, and its latencies.
    pub(crate) fn over(inner: B) -> (TimedBlocks<B>, CallLatencies) {
        let latencies = CallLatencies::new();
        (TimedBlocks { inner, latencies: latencies.clone() }, latencies)
    }
}

#[async_trait]
impl<B: BlockStore> BlockStore for TimedBlocks<B> {
    async fn put(&self, block: &SealedBlock) -> Result<Stored, BlockError> {
        self.latencies.time("put", self.inner.put(block)).await
    }

    fn reports_md5(&self) -> bool {
        self.inner.reports_md5()
    }

    async fn get(&self, id: BlockId, bytes: Range<u64>) -> Result<Bytes, BlockError> {
        self.latencies.time("get", self.inner.get(id, bytes)).await
    }

    fn streams(&self) -> bool {
        self.inner.streams()
    }

    /// Observes the time until the store begins to answer.
    async fn open(
        &self,
        id: BlockId,
        bytes: Range<u64>,
    ) -> Result<Box<dyn ByteSource>, BlockError> {
        self.latencies.time("open", self.inner.open(id, bytes)).await
    }

    async fn recompute_checksums(&self, block: BlockRef) -> Result<u64, BlockError> {
        self.inner.recompute_checksums(block).await
    }

    fn warnings(&self) -> Vec<String> {
        self.inner.warnings()
    }

    async fn size(&self, id: BlockId) -> Result<Option<u64>, BlockError> {
        self.latencies.time("size", self.inner.size(id)).await
    }

    async fn ring_of(&self, id: BlockId) -> Result<Option<RingNumber>, BlockError> {
        self.latencies.time("get", self.inner.ring_of(id)).await
    }

    async fn delete(&self, id: BlockId) -> Result<(), BlockError> {
        self.latencies.time("delete", self.inner.delete(id)).await
    }

    async fn sessions(&self) -> Result<Vec<Nonce>, BlockError> {
        self.latencies.time("sessions", self.inner.sessions()).await
    }

    async fn list(&self, session: Nonce, resume: Option<String>) -> Result<BlockPage, BlockError> {
        self.latencies.time("list", self.inner.list(session, resume)).await
    }

    async fn mark(&self) -> Result<Option<Bytes>, BlockError> {
        self.inner.mark().await
    }

    async fn set_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        self.inner.set_mark(mark).await
    }

    async fn remove_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        self.inner.remove_mark(mark).await
    }

    async fn probe(&self) -> Result<(), BlockError> {
        self.latencies.time("probe", self.inner.probe()).await
    }
}

#[cfg(test)]
mod tests;

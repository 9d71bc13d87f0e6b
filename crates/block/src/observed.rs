//! A layer that counts the calls to a block store.
//!
//! The counters only grow, and are read one after the other. For example, a snapshot may show a
//! call's request but not yet its bytes.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use record::{BlockId, Nonce, RingNumber};
use runtime::{Metered, Metric};

use crate::{BlockError, BlockPage, BlockRef, BlockStore, ByteSource, SealedBlock, Stored};

runtime::counters! {
    /// Counters of the calls of one kind to a block store.
    pub struct VerbMeters {
        /// Requests to the block store.
        ///
        /// They are counted when they start.
        requests: "ashlar_blocks_requests_total",
        /// Requests to the block store that failed.
        ///
        /// A call that was dropped is not counted.
        failures: "ashlar_blocks_request_failures_total",
        /// Bytes sent to and received from the block store.
        ///
        /// Sealed bytes (content, headers and checksums) that were returned, or sent and accepted.
        bytes: "ashlar_blocks_bytes_total",
    }
}

/// Counters of the calls to a store, by kind.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "each field is named as its verb")]
pub struct BlockMeters {
    pub put: VerbMeters,
    pub get: VerbMeters,
    pub size: VerbMeters,
    pub delete: VerbMeters,
    pub sessions: VerbMeters,
    pub list: VerbMeters,
    pub mark: VerbMeters,
    pub set_mark: VerbMeters,
    pub probe: VerbMeters,
}

impl Metered for BlockMeters {
    fn visit_metrics(&self, visit: &mut dyn FnMut(Metric)) {
        // A process reads and sets the mark once, so these two are no metrics.
        let operations = [
            ("put", &self.put),
            ("get", &self.get),
            ("size", &self.size),
            ("delete", &self.delete),
            ("sessions", &self.sessions),
            ("list", &self.list),
            ("probe", &self.probe),
        ];
        for (operation, meters) in operations {
            meters.visit_metrics(&mut |metric| visit(metric.with_label("operation", operation)));
        }
    }
}

impl VerbMeters {
    /// Counts a call, and the bytes that `bytes` finds in its result.
    async fn count<T>(
        &self,
        call: impl Future<Output = Result<T, BlockError>>,
        bytes: impl FnOnce(&T) -> usize,
    ) -> Result<T, BlockError> {
        // Counted before the call, so that calls under way are visible.
        self.requests.add(1);
        let answer = call.await;
        match &answer {
            Ok(found) => self.bytes.add(bytes(found) as u64),
            Err(_) => self.failures.add(1),
        }
        answer
    }
}

/// A block store that counts its calls.
#[derive(Debug)]
pub struct Observed<B> {
    inner: B,
    meters: Arc<BlockMeters>,
}

impl<B: BlockStore> Observed<B> {
    /// Creates a layer that counts the calls to the block store `inner`, with all counters at zero.
    pub fn new(inner: B) -> Observed<B> {
        Observed { inner, meters: Arc::default() }
    }

    /// Returns the block store whose calls are counted.
    pub fn inner(&self) -> &B {
        &self.inner
    }

    /// Returns the counters of calls since the layer was created.
    pub fn meters(&self) -> &BlockMeters {
        &self.meters
    }
}

impl<B: BlockStore> Metered for Observed<B> {
    fn visit_metrics(&self, visit: &mut dyn FnMut(Metric)) {
        self.meters.visit_metrics(visit);
    }
}

/// A stream whose bytes are counted as they arrive.
struct Counted {
    source: Box<dyn ByteSource>,
    meters: Arc<BlockMeters>,
}

#[async_trait]
impl ByteSource for Counted {
    async fn next(&mut self) -> Result<Option<Bytes>, BlockError> {
        let next = self.source.next().await;
        match &next {
            Ok(frame) => {
                let bytes = frame.as_ref().map_or(0, Bytes::len) as u64;
                self.meters.get.bytes.add(bytes);
            }
            Err(_) => self.meters.get.failures.add(1),
        }
        next
    }

    fn arrived(&mut self) -> Option<Bytes> {
        let bytes = self.source.arrived()?;
        self.meters.get.bytes.add(bytes.len() as u64);
        Some(bytes)
    }
}

#[async_trait]
impl<B: BlockStore> BlockStore for Observed<B> {
    async fn put(&self, block: &SealedBlock) -> Result<Stored, BlockError> {
        self.meters
            .put
            .count(self.inner.put(block), |_| block.pieces().iter().map(Bytes::len).sum())
            .await
    }

    async fn get(&self, id: BlockId, bytes: Range<u64>) -> Result<Bytes, BlockError> {
        self.meters.get.count(self.inner.get(id, bytes), Bytes::len).await
    }

    fn reports_md5(&self) -> bool {
        self.inner.reports_md5()
    }

    fn streams(&self) -> bool {
        self.inner.streams()
    }

    /// Counts one `get`, whose bytes and failure are counted as they arrive.
    async fn open(
        &self,
        id: BlockId,
        bytes: Range<u64>,
    ) -> Result<Box<dyn ByteSource>, BlockError> {
        // No bytes have arrived yet, so this counts the request only.
        let source = self.meters.get.count(self.inner.open(id, bytes), |_| 0).await?;
        Ok(Box::new(Counted { source, meters: Arc::clone(&self.meters) }))
    }

    /// Counts one `get` of a whole block, which is the cost of this call.
    async fn recompute_checksums(&self, block: BlockRef) -> Result<u64, BlockError> {
        let bytes = |read: &u64| usize::try_from(*read).unwrap_or(usize::MAX);
        self.meters.get.count(self.inner.recompute_checksums(block), bytes).await
    }

    fn warnings(&self) -> Vec<String> {
        self.inner.warnings()
    }

    async fn size(&self, id: BlockId) -> Result<Option<u64>, BlockError> {
        self.meters.size.count(self.inner.size(id), |_| 0).await
    }

    /// Counts one `get` of a few bytes.
    async fn ring_of(&self, id: BlockId) -> Result<Option<RingNumber>, BlockError> {
        self.meters.get.count(self.inner.ring_of(id), |_| 0).await
    }

    async fn delete(&self, id: BlockId) -> Result<(), BlockError> {
        self.meters.delete.count(self.inner.delete(id), |()| 0).await
    }

    async fn sessions(&self) -> Result<Vec<Nonce>, BlockError> {
        self.meters.sessions.count(self.inner.sessions(), |_| 0).await
    }

    async fn list(&self, session: Nonce, resume: Option<String>) -> Result<BlockPage, BlockError> {
        self.meters.list.count(self.inner.list(session, resume), |_| 0).await
    }

    async fn mark(&self) -> Result<Option<Bytes>, BlockError> {
        self.meters.mark.count(self.inner.mark(), |mark| mark.as_ref().map_or(0, Bytes::len)).await
    }

    async fn set_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        let length = mark.len();
        self.meters.set_mark.count(self.inner.set_mark(mark), |()| length).await
    }

    async fn remove_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        self.inner.remove_mark(mark).await
    }

    async fn probe(&self) -> Result<(), BlockError> {
        self.meters.probe.count(self.inner.probe(), |()| 0).await
    }
}

#[cfg(test)]
mod tests;

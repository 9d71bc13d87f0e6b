//! A layer that counts the calls to a block store.
//!
//! The counters only grow, and are read one after the other. For example, a snapshot may show a
//! call's request but not yet its bytes.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use record::{BlockId, Nonce};

use crate::{BlockError, BlockPage, BlockRef, BlockStore, ByteSource, SealedBlock, Stored};

/// The counts of the calls of one kind to a block store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerbCount {
    /// Calls that were started.
    pub requests: u64,
    /// Calls that failed. A call that was dropped is not counted.
    pub failures: u64,
    /// Sealed bytes (content, headers and checksums) that were returned, or sent and accepted.
    pub bytes: u64,
}

/// The calls to a store, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is named as its verb")]
pub struct BlockCounters {
    pub put: VerbCount,
    pub get: VerbCount,
    pub size: VerbCount,
    pub delete: VerbCount,
    pub sessions: VerbCount,
    pub list: VerbCount,
    pub mark: VerbCount,
    pub set_mark: VerbCount,
    pub probe: VerbCount,
}

/// A block store that counts its calls.
#[derive(Debug)]
pub struct Observed<B> {
    inner: B,
    put: VerbMetrics,
    get: Arc<VerbMetrics>,
    size: VerbMetrics,
    delete: VerbMetrics,
    sessions: VerbMetrics,
    list: VerbMetrics,
    mark: VerbMetrics,
    set_mark: VerbMetrics,
    probe: VerbMetrics,
}

#[derive(Debug, Default)]
struct VerbMetrics {
    requests: AtomicU64,
    failures: AtomicU64,
    bytes: AtomicU64,
}

impl VerbMetrics {
    /// Counts a call, and the bytes that `bytes` finds in its result.
    async fn count<T>(
        &self,
        call: impl Future<Output = Result<T, BlockError>>,
        bytes: impl FnOnce(&T) -> usize,
    ) -> Result<T, BlockError> {
        // Counted before the call, so that calls under way are visible.
        self.requests.fetch_add(1, Ordering::Relaxed);
        let answer = call.await;
        match &answer {
            Ok(found) => self.bytes.fetch_add(bytes(found) as u64, Ordering::Relaxed),
            Err(_) => self.failures.fetch_add(1, Ordering::Relaxed),
        };
        answer
    }

    fn read(&self) -> VerbCount {
        VerbCount {
            requests: self.requests.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

impl<B: BlockStore> Observed<B> {
    /// Creates a layer that counts the calls to the block store `inner`, with all counters at zero.
    pub fn new(inner: B) -> Observed<B> {
        Observed {
            inner,
            put: VerbMetrics::default(),
            get: Arc::default(),
            size: VerbMetrics::default(),
            delete: VerbMetrics::default(),
            sessions: VerbMetrics::default(),
            list: VerbMetrics::default(),
            mark: VerbMetrics::default(),
            set_mark: VerbMetrics::default(),
            probe: VerbMetrics::default(),
        }
    }

    /// Returns the block store whose calls are counted.
    pub fn inner(&self) -> &B {
        &self.inner
    }

    /// Returns the counts of calls since the layer was created.
    pub fn counters(&self) -> BlockCounters {
        BlockCounters {
            put: self.put.read(),
            get: self.get.read(),
            size: self.size.read(),
            delete: self.delete.read(),
            sessions: self.sessions.read(),
            list: self.list.read(),
            mark: self.mark.read(),
            set_mark: self.set_mark.read(),
            probe: self.probe.read(),
        }
    }
}

/// A stream whose bytes are counted as they arrive.
struct Counted {
    source: Box<dyn ByteSource>,
    metrics: Arc<VerbMetrics>,
}

#[async_trait]
impl ByteSource for Counted {
    async fn next(&mut self) -> Result<Option<Bytes>, BlockError> {
        let next = self.source.next().await;
        match &next {
            Ok(frame) => {
                let bytes = frame.as_ref().map_or(0, Bytes::len) as u64;
                self.metrics.bytes.fetch_add(bytes, Ordering::Relaxed)
            }
            Err(_) => self.metrics.failures.fetch_add(1, Ordering::Relaxed),
        };
        next
    }
}

#[async_trait]
impl<B: BlockStore> BlockStore for Observed<B> {
    async fn put(&self, block: &SealedBlock) -> Result<Stored, BlockError> {
        self.put.count(self.inner.put(block), |_| block.pieces().iter().map(Bytes::len).sum()).await
    }

    async fn get(&self, id: BlockId, bytes: Range<u64>) -> Result<Bytes, BlockError> {
        self.get.count(self.inner.get(id, bytes), Bytes::len).await
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
        let source = self.get.count(self.inner.open(id, bytes), |_| 0).await?;
        Ok(Box::new(Counted { source, metrics: Arc::clone(&self.get) }))
    }

    /// Counts one `get` of a whole block, which is the cost of this call.
    async fn recompute_checksums(&self, block: BlockRef) -> Result<u64, BlockError> {
        let bytes = |read: &u64| usize::try_from(*read).unwrap_or(usize::MAX);
        self.get.count(self.inner.recompute_checksums(block), bytes).await
    }

    fn warnings(&self) -> Vec<String> {
        self.inner.warnings()
    }

    async fn size(&self, id: BlockId) -> Result<Option<u64>, BlockError> {
        self.size.count(self.inner.size(id), |_| 0).await
    }

    async fn delete(&self, id: BlockId) -> Result<(), BlockError> {
        self.delete.count(self.inner.delete(id), |()| 0).await
    }

    async fn sessions(&self) -> Result<Vec<Nonce>, BlockError> {
        self.sessions.count(self.inner.sessions(), |_| 0).await
    }

    async fn list(&self, session: Nonce, resume: Option<String>) -> Result<BlockPage, BlockError> {
        self.list.count(self.inner.list(session, resume), |_| 0).await
    }

    async fn mark(&self) -> Result<Option<Bytes>, BlockError> {
        self.mark.count(self.inner.mark(), |mark| mark.as_ref().map_or(0, Bytes::len)).await
    }

    async fn set_mark(&self, mark: Bytes) -> Result<(), BlockError> {
        let length = mark.len();
        self.set_mark.count(self.inner.set_mark(mark), |()| length).await
    }

    async fn probe(&self) -> Result<(), BlockError> {
        self.probe.count(self.inner.probe(), |()| 0).await
    }
}

#[cfg(test)]
mod tests;

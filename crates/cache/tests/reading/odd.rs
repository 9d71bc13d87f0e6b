//! In-memory blocks that are slow, damaged or broken on demand.

use std::collections::HashMap;
use std::future::pending;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use block::{
    BlockError, BlockErrorKind, BlockId, BlockPage, BlockRef, BlockStore, MemoryBlocks, Nonce,
    SealedBlock, Sealer, Stored,
};
use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// The fault of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// One bit of the response is flipped.
    Flip,
    /// The request fails.
    Unavailable,
    /// The request never returns.
    Hang,
}

/// Blocks with injected faults.
#[derive(Debug, Default)]
pub struct Odd {
    inner: MemoryBlocks,
    /// Faults by the number of the request, from 0.
    pub faults: Mutex<HashMap<usize, Fault>>,
    /// The fault of every request.
    pub always: Mutex<Option<Fault>>,
    pub delay: Duration,
    pub asked: Mutex<Vec<Range<u64>>>,
    pub fired: AtomicUsize,
    /// Responses that are still referenced.
    pub held: std::sync::Arc<AtomicU64>,
}

impl Odd {
    pub fn slow(delay: Duration) -> Odd {
        Odd { delay, ..Odd::default() }
    }

    pub fn fails(self, number: usize, fault: Fault) -> Odd {
        self.faults.lock().unwrap().insert(number, fault);
        self
    }

    /// Returns the number of requests since the last call, and the bytes that they requested.
    pub fn asked(&self) -> (usize, u64) {
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        (asked.len(), asked.iter().map(|range| range.end - range.start).sum())
    }
}

/// A response, counted until it is dropped.
struct HeldBytes(Bytes, std::sync::Arc<AtomicU64>);

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl BlockStore for Odd {
    async fn put(&self, block: &SealedBlock) -> Result<Stored, BlockError> {
        self.inner.put(block).await
    }

    async fn get(&self, id: BlockId, bytes: Range<u64>) -> Result<Bytes, BlockError> {
        let number = {
            let mut asked = self.asked.lock().unwrap();
            asked.push(bytes.clone());
            asked.len() - 1
        };
        tokio::time::sleep(self.delay).await;
        let fault = self.always.lock().unwrap().or(self.faults.lock().unwrap().remove(&number));
        if fault.is_some() {
            self.fired.fetch_add(1, Ordering::SeqCst);
        }
        let mut found = self.inner.get(id, bytes).await?.to_vec();
        match fault {
            Some(Fault::Hang) => pending().await,
            Some(Fault::Unavailable) => {
                return Err(BlockError::new(BlockErrorKind::Unavailable, "reading in a test"));
            }
            Some(Fault::Flip) => {
                let middle = found.len() / 2;
                found[middle] ^= 4;
            }
            None => {}
        }
        self.held.fetch_add(1, Ordering::SeqCst);
        Ok(Bytes::from_owner(HeldBytes(found.into(), self.held.clone())))
    }

    async fn size(&self, id: BlockId) -> Result<Option<u64>, BlockError> {
        self.inner.size(id).await
    }

    async fn delete(&self, id: BlockId) -> Result<(), BlockError> {
        self.inner.delete(id).await
    }

    async fn sessions(&self) -> Result<Vec<Nonce>, BlockError> {
        self.inner.sessions().await
    }

    async fn list(&self, session: Nonce, resume: Option<String>) -> Result<BlockPage, BlockError> {
        self.inner.list(session, resume).await
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
        self.inner.probe().await
    }
}

/// Puts a block of arbitrary bytes. Returns its reference as in a record, and its content.
pub async fn block(store: &impl BlockStore, number: u64, length: u32) -> (BlockRef, Bytes) {
    let mut content = vec![0; length as usize];
    SmallRng::seed_from_u64(number).fill(&mut content[..]);
    let mut sealer = Sealer::new(BlockId::new(Nonce([5; Nonce::BYTES]), number), length);
    sealer.push_copy(&content);
    let block = sealer.finish();
    store.put(&block).await.unwrap();
    (block.reference(), content.into())
}

/// Returns a part of a block's content.
pub fn part(content: &Bytes, range: Range<u32>) -> Bytes {
    content.slice(range.start as usize..range.end as usize)
}

//! Readers of verified block content.
//!
//! A [`BlockStore`] returns sealed bytes, and a [`BlockReader`] returns content: it verifies the
//! bytes and may cache them. Every piece that a reader returns has passed its checksum after it
//! last came from a disk or over a network, or was sealed in this process. If a block is missing or
//! damaged, it is requested once more, and then the read fails. A reader never returns zeros or
//! fewer bytes instead of an error.
//!
//! For example, `UncachedReader` reads 10 bytes in the middle of a block by one request for the one
//! sub-block that contains them.
//!
//! A reader does not know files or clients. Its callers decide how far they read ahead.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use record::BlockId;
use tracing::warn;

use crate::{
    Arrival, BlockError, BlockErrorKind, BlockRef, BlockStore, VerifiedSubBlock, get_with_recovery,
    sealed,
};

/// A source of verified block content.
///
/// Every call may be made at any time from any task. A future may be dropped at any point.
#[async_trait]
pub trait BlockReader: Debug + Send + Sync + 'static {
    /// Returns the content of a range of a block, verified and in order, in pieces of at most
    /// [`SUB_BLOCK_BYTES`](crate::SUB_BLOCK_BYTES) each.
    ///
    /// # Errors
    /// Fails with `Corrupt` if the bytes are not those that were sealed, even after a second
    /// request, or if the range is not within the block; with `NotFound` if the block does not
    /// exist; and as [`get`](BlockStore::get).
    async fn read(&self, block: BlockRef, range: Range<u32>) -> Result<Vec<Bytes>, BlockError>;

    /// Returns the content of a range of a block if all of it is in memory and verified; `None`
    /// otherwise. It never waits.
    fn in_memory(&self, block: BlockRef, range: Range<u32>) -> Option<Vec<Bytes>>;

    /// Offers a sub-block that was just written to the cache. A reader without a cache ignores it.
    /// The caller has computed the checksum over the content.
    fn remember(&self, _block: BlockId, _sub_block: &VerifiedSubBlock) {}

    /// Removes from the cache the sub-blocks that are wholly in the range, because they will not be
    /// read again. A later read still finds them in the store.
    fn forget(&self, _block: BlockId, _range: Range<u32>) {}

    /// Returns an arrival for the first part of a range: as much of it as is not cached. Returns
    /// `None` if the range is to be read at once: because the store does not stream, because the
    /// range is short, or because its beginning is cached or being fetched. It sends no request.
    fn arrival(&self, block: BlockRef, range: Range<u32>) -> Option<Arrival>;

    /// [Opens](Arrival::open) an arrival of this reader.
    ///
    /// # Errors
    /// As [`read`](BlockReader::read).
    async fn open(&self, arrival: &mut Arrival) -> Result<(), BlockError>;

    /// [Waits](Arrival::advance) for more bytes of an arrival of this reader.
    ///
    /// # Errors
    /// As [`read`](BlockReader::read).
    async fn advance(&self, arrival: &mut Arrival) -> Result<bool, BlockError>;
}

/// A shared reader is a reader.
#[async_trait]
impl<R: BlockReader + ?Sized> BlockReader for Arc<R> {
    async fn read(&self, block: BlockRef, range: Range<u32>) -> Result<Vec<Bytes>, BlockError> {
        (**self).read(block, range).await
    }

    fn in_memory(&self, block: BlockRef, range: Range<u32>) -> Option<Vec<Bytes>> {
        (**self).in_memory(block, range)
    }

    fn remember(&self, block: BlockId, sub_block: &VerifiedSubBlock) {
        (**self).remember(block, sub_block);
    }

    fn forget(&self, block: BlockId, range: Range<u32>) {
        (**self).forget(block, range);
    }

    fn arrival(&self, block: BlockRef, range: Range<u32>) -> Option<Arrival> {
        (**self).arrival(block, range)
    }

    async fn open(&self, arrival: &mut Arrival) -> Result<(), BlockError> {
        (**self).open(arrival).await
    }

    async fn advance(&self, arrival: &mut Arrival) -> Result<bool, BlockError> {
        (**self).advance(arrival).await
    }
}

/// A reader of verified content without a cache. Each read is one request to the store, for exactly
/// the sub-blocks (of 64 KiB) that the range touches.
#[derive(Debug)]
pub struct UncachedReader<B> {
    blocks: B,
    second_reads: AtomicU64,
}

impl<B: BlockStore> UncachedReader<B> {
    /// Creates a reader, without a cache, of the blocks in a store.
    pub fn new(blocks: B) -> UncachedReader<B> {
        UncachedReader { blocks, second_reads: AtomicU64::new(0) }
    }

    /// Returns the block store from which this reads.
    pub fn inner(&self) -> &B {
        &self.blocks
    }

    /// Returns the number of reads that were repeated because the block was missing or damaged.
    pub fn second_reads(&self) -> u64 {
        self.second_reads.load(Ordering::Relaxed)
    }

    /// Counts those repeated requests of an arrival (a range passed on as it comes) that it made
    /// since it had `before` of them.
    fn count_second_reads(&self, arrival: &Arrival, before: u32) {
        let more = u64::from(arrival.second_reads() - before);
        self.second_reads.fetch_add(more, Ordering::Relaxed);
    }

    async fn read_once(
        &self,
        block: BlockRef,
        range: Range<u32>,
    ) -> Result<Vec<Bytes>, BlockError> {
        // Only whole sub-blocks can be verified, so the request covers those that the range
        // touches.
        let span = sealed::span(block.length, range.clone());
        // An empty range needs no request. `open` checks that it is within the block.
        let bytes = if span.bytes.is_empty() {
            Bytes::new()
        } else {
            get_with_recovery(&self.blocks, block, span.bytes).await?
        };
        sealed::open(block, range, bytes)
    }
}

#[async_trait]
impl<B: BlockStore> BlockReader for UncachedReader<B> {
    async fn read(&self, block: BlockRef, range: Range<u32>) -> Result<Vec<Bytes>, BlockError> {
        match self.read_once(block, range.clone()).await {
            // A cache between reader and store may have returned wrong bytes. A store that does not
            // answer is retried by the layer that limits such retries, not here.
            Err(error)
                if matches!(error.kind(), BlockErrorKind::Corrupt | BlockErrorKind::NotFound) =>
            {
                self.second_reads.fetch_add(1, Ordering::Relaxed);
                warn!(block = %block.id, %error, "a missing or damaged block is read again");
                self.read_once(block, range).await
            }
            first => first,
        }
    }

    fn in_memory(&self, _: BlockRef, _: Range<u32>) -> Option<Vec<Bytes>> {
        None
    }

    fn arrival(&self, block: BlockRef, range: Range<u32>) -> Option<Arrival> {
        let pays = Arrival::is_worthwhile(block, &range) && self.blocks.streams();
        pays.then(|| Arrival::new(block, range, None))
    }

    async fn open(&self, arrival: &mut Arrival) -> Result<(), BlockError> {
        let before = arrival.second_reads();
        let opened = arrival.open(&self.blocks).await;
        self.count_second_reads(arrival, before);
        opened
    }

    async fn advance(&self, arrival: &mut Arrival) -> Result<bool, BlockError> {
        let before = arrival.second_reads();
        let advanced = arrival.advance(&self.blocks, |_| ()).await;
        self.count_second_reads(arrival, before);
        advanced
    }
}

#[cfg(test)]
mod tests;

//! Where the verified content of blocks comes from.
//!
//! A [`BlockReader`] gives content, and a [`BlockStore`] gives sealed bytes: what lies between is
//! the verification, and, in a reader that has one, a memory. Every piece that a reader gives has
//! passed its checksum after it last came from a disk or over a network, or was sealed here. A block
//! that is missing or damaged is asked for once more and is then an error: never zeros, never fewer
//! bytes.
//!
//! A reader knows no files, and no clients: what to read ahead is its callers' business.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use record::BlockId;
use tracing::warn;

use crate::{Arrival, BlockError, BlockErrorKind, BlockRef, BlockStore, Opened, get_known, sealed};

/// Where the verified content of blocks comes from.
///
/// Every call may be made at any time from any task; a call whose future is dropped harms nobody.
#[async_trait]
pub trait BlockReader: Debug + Send + Sync + 'static {
    /// The content of a range, in order, verified, in pieces of at most
    /// [`SUB_BLOCK_BYTES`](crate::SUB_BLOCK_BYTES) each.
    ///
    /// # Errors
    /// `Corrupt` if the bytes are not those that were sealed, also when asked for again, or if the
    /// range is not within the block; `NotFound` if the block is not there; and what a store's
    /// [`get`](BlockStore::get) says.
    async fn read(&self, block: BlockRef, range: Range<u32>) -> Result<Vec<Bytes>, BlockError>;

    /// The same if all of it is in memory now and verified: no task, no await.
    fn in_memory(&self, block: BlockRef, range: Range<u32>) -> Option<Vec<Bytes>>;

    /// Takes a sub-block that was just written into memory, if there is one and it is worth a place
    /// there. The caller has computed its checksum over the content.
    fn remember(&self, _block: BlockId, _sub_block: &Opened) {}

    /// Lets memory go of what lies in a range and is not going to be read any more. Whoever reads
    /// it nevertheless finds it in the store.
    fn forget(&self, _block: BlockId, _range: Range<u32>) {}

    /// The beginning of a range as it arrives: as much of it as nothing is known of. `None` if it
    /// is to be read at once, because the store does not stream, because it is not much, or
    /// because something of its beginning is known or on its way. Nothing is asked for yet.
    fn arrival(&self, block: BlockRef, range: Range<u32>) -> Option<Arrival>;

    /// [Opens](Arrival::open) an arrival of this reader's.
    ///
    /// # Errors
    /// As [`read`](BlockReader::read) has them.
    async fn open(&self, arrival: &mut Arrival) -> Result<(), BlockError>;

    /// [Waits](Arrival::advance) for more of an arrival of this reader's.
    ///
    /// # Errors
    /// As [`read`](BlockReader::read) has them.
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

    fn remember(&self, block: BlockId, sub_block: &Opened) {
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

/// A reader without a memory: each read is one request to the store, for exactly the sub-blocks
/// that the range touches.
#[derive(Debug)]
pub struct Direct<B> {
    blocks: B,
    second_reads: AtomicU64,
}

impl<B: BlockStore> Direct<B> {
    /// Reads from a store.
    pub fn new(blocks: B) -> Direct<B> {
        Direct { blocks, second_reads: AtomicU64::new(0) }
    }

    /// The store beneath.
    pub fn inner(&self) -> &B {
        &self.blocks
    }

    /// Reads that were tried a second time, because what came first was missing or damaged.
    pub fn second_reads(&self) -> u64 {
        self.second_reads.load(Ordering::Relaxed)
    }

    /// Counts what an arrival asked for a second time.
    fn note(&self, arrival: &Arrival, before: u32) {
        let more = u64::from(arrival.second_reads() - before);
        self.second_reads.fetch_add(more, Ordering::Relaxed);
    }

    async fn read_once(
        &self,
        block: BlockRef,
        range: Range<u32>,
    ) -> Result<Vec<Bytes>, BlockError> {
        let span = sealed::span(block.length, range.clone());
        // An empty range is no request; whether it lies within its block is said by `open`.
        let bytes = if span.bytes.is_empty() {
            Bytes::new()
        } else {
            get_known(&self.blocks, block, span.bytes).await?
        };
        sealed::open(block, range, bytes)
    }
}

#[async_trait]
impl<B: BlockStore> BlockReader for Direct<B> {
    async fn read(&self, block: BlockRef, range: Range<u32>) -> Result<Vec<Bytes>, BlockError> {
        match self.read_once(block, range.clone()).await {
            // What a layer in between remembers may be wrong. A store that does not answer is
            // asked again by the layer that counts such repetitions, not here.
            Err(error)
                if matches!(error.kind(), BlockErrorKind::Corrupt | BlockErrorKind::NotFound) =>
            {
                self.second_reads.fetch_add(1, Ordering::Relaxed);
                warn!(block = %block.id, %error, "a block is read once more");
                self.read_once(block, range).await
            }
            first => first,
        }
    }

    fn in_memory(&self, _: BlockRef, _: Range<u32>) -> Option<Vec<Bytes>> {
        None
    }

    fn arrival(&self, block: BlockRef, range: Range<u32>) -> Option<Arrival> {
        let pays = Arrival::pays(block, &range) && self.blocks.streams();
        pays.then(|| Arrival::new(block, range, None))
    }

    async fn open(&self, arrival: &mut Arrival) -> Result<(), BlockError> {
        let before = arrival.second_reads();
        let opened = arrival.open(&self.blocks).await;
        self.note(arrival, before);
        opened
    }

    async fn advance(&self, arrival: &mut Arrival) -> Result<bool, BlockError> {
        let before = arrival.second_reads();
        let advanced = arrival.advance(&self.blocks, |_| ()).await;
        self.note(arrival, before);
        advanced
    }
}

#[cfg(test)]
mod tests;

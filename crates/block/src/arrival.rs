//! The verified content of a range as it arrives from a store.
//!
//! An [`Arrival`] requests its range once and yields each sub-block as soon as it has passed its
//! checksum, as slices of the store's own frames. The reader pulls. Bytes that it has not pulled
//! wait in the buffers of the connection, which slows the sender down. Each call gets the store as
//! an argument.
//!
//! **Invariant.** A reader gets each byte exactly once, or an error; never zeros, never fewer
//! bytes. If the source ends too early, the rest is requested again from the first sub-block that
//! was not yielded. If a sub-block is damaged or the block is missing, the rest is requested again
//! once.
//!
//! For example, a connection breaks after 5 MiB of 16 MiB. The arrival has yielded 80 sub-blocks
//! and requests the range again from sub-block 80 on.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use record::BlockId;
use tracing::warn;

use crate::opening::Opener;
use crate::sealed::VerifiedSubBlock;
use crate::store::open_with_recovery;
use crate::{BlockError, BlockErrorKind, BlockRef, BlockStore, ByteSource, SUB_BLOCK_BYTES};

/// The shortest range of a block for which passing the bytes on as they arrive is faster than
/// reading them at once, in content bytes.
pub const ARRIVAL_BYTES_MIN: u32 = 2 << 20;

/// The number of times that a response which broke off is replaced by a new request before another
/// sub-block (64 KiB) has arrived.
const RESUMES_MAX: u32 = 3;

/// A range of a block's content that is passed on, verified, as it arrives from the store.
pub struct Arrival {
    block: BlockRef,
    /// The rest of the requested range that is not verified yet.
    range: Range<u32>,
    /// The number of sub-blocks (of 64 KiB) that contain the requested range.
    sub_blocks: u32,
    opener: Opener,
    source: Option<Box<dyn ByteSource>>,
    /// Verified content that has arrived and that the reader has not taken.
    verified: VecDeque<Bytes>,
    /// Responses that broke off since the last sub-block arrived.
    lost: u32,
    second_reads: u32,
    _claim: Option<Box<dyn Any + Send>>,
}

impl Arrival {
    /// Returns true if a range is within its block and long enough to be passed on as it arrives.
    pub fn is_worthwhile(block: BlockRef, range: &Range<u32>) -> bool {
        range.end <= block.length && range.end.saturating_sub(range.start) >= ARRIVAL_BYTES_MIN
    }

    /// Creates the arrival of a non-empty range within its block. It sends no request. `claim` is
    /// any value that the caller ties to the arrival, for example the right to be the only stream
    /// of the block; it is dropped with the arrival.
    pub fn new(block: BlockRef, range: Range<u32>, claim: Option<Box<dyn Any + Send>>) -> Arrival {
        let sub_blocks = range.start / SUB_BLOCK_BYTES..range.end.div_ceil(SUB_BLOCK_BYTES);
        Arrival {
            block,
            range,
            sub_blocks: sub_blocks.end - sub_blocks.start,
            opener: Opener::new(block, sub_blocks),
            source: None,
            verified: VecDeque::new(),
            lost: 0,
            second_reads: 0,
            _claim: claim,
        }
    }

    /// Returns the id of the block.
    pub fn block_id(&self) -> BlockId {
        self.block.id
    }

    /// Returns the number of sub-blocks (of 64 KiB) of the whole range, including those that have
    /// arrived.
    pub fn sub_blocks(&self) -> u32 {
        self.sub_blocks
    }

    /// Returns the number of content bytes that the reader has not taken.
    pub fn left(&self) -> u32 {
        let waiting: usize = self.verified.iter().map(Bytes::len).sum();
        self.range.end - self.range.start + u32::try_from(waiting).unwrap_or(u32::MAX)
    }

    /// Sets the CRC-32C of all content of the block before the range. To be called before anything
    /// has arrived. If the range ends at the end of its block, its last sub-block is yielded only
    /// if the CRC of the whole block is the record's. For a range from the beginning of the block
    /// this needs no call.
    pub fn set_preceding_crc(&mut self, before: u32) {
        self.opener.set_preceding_crc(before);
    }

    /// Returns the CRC-32C of the block's content up to the last yielded sub-block; `None` if not
    /// all content before it is known.
    pub fn running_crc(&self) -> Option<u32> {
        self.opener.running_crc()
    }

    /// Returns the number of requests that were repeated because the block was missing or damaged:
    /// 0 or 1.
    pub fn second_reads(&self) -> u32 {
        self.second_reads
    }

    /// Returns the next verified piece of the range's content; `None` if none is waiting.
    pub fn take(&mut self) -> Option<Bytes> {
        self.verified.pop_front()
    }

    /// Requests the rest of the range, unless that was done, and waits until the store begins to
    /// answer.
    ///
    /// # Errors
    /// As [`BlockStore::get`]. A missing block is requested twice.
    pub async fn open(&mut self, store: &(impl BlockStore + ?Sized)) -> Result<(), BlockError> {
        // A missing block leads to one more iteration, and every other error ends the loop.
        while self.source.is_none() && !self.opener.is_done() {
            let bytes = self.opener.restart();
            match open_with_recovery(store, self.block, bytes).await {
                Ok(source) => self.source = Some(source),
                Err(error) => self.retry_damaged(error)?,
            }
        }
        Ok(())
    }

    /// Waits until a verified piece of the range can be taken. Returns true then, and false at the
    /// end of the range. `seen` is called with each sub-block (64 KiB) that has arrived.
    ///
    /// # Errors
    /// Fails with `Corrupt` if the bytes are not those that were sealed, even after a second
    /// request; as [`get`](BlockStore::get); and with the store's error if the source was lost too
    /// often.
    pub async fn advance(
        &mut self,
        store: &(impl BlockStore + ?Sized),
        mut seen: impl FnMut(&VerifiedSubBlock) + Send,
    ) -> Result<bool, BlockError> {
        while self.verified.is_empty() {
            if self.opener.is_done() {
                return Ok(false);
            }
            self.open(store).await?;
            let Some(source) = &mut self.source else { continue };
            // The source is kept in `self`, so a dropped call loses no bytes.
            match source.next().await {
                Ok(Some(frame)) => {
                    self.push(frame, &mut seen)?;
                    self.push_arrived(&mut seen)?;
                }
                Ok(None) => {
                    let error = self.corrupt("the block is shorter than in its record".to_owned());
                    self.retry_damaged(error)?;
                }
                Err(error) => self.retry_lost(error)?,
            }
            if self.opener.is_done() {
                self.end().await;
            }
        }
        Ok(true)
    }

    /// Adds bytes as they came from the store, and verifies the sub-blocks that they complete. If a
    /// checksum fails, the rest is requested again, once.
    fn push(
        &mut self,
        frame: Bytes,
        mut seen: impl FnMut(&VerifiedSubBlock),
    ) -> Result<(), BlockError> {
        let Arrival { opener, verified, range, lost, .. } = self;
        let pushed = opener.push(frame, |opened| {
            seen(&opened);
            // Progress was made, so the source may be lost again without an error.
            *lost = 0;
            cut(range, opened, verified);
        });
        match pushed {
            Ok(()) => Ok(()),
            Err(what) => {
                let error = self.corrupt(what);
                self.retry_damaged(error)
            }
        }
    }

    /// Adds the bytes that have arrived together with the last ones. A call that waits costs more
    /// than the verification of some bytes, and a bare block comes in two pieces for each
    /// sub-block.
    fn push_arrived(&mut self, mut seen: impl FnMut(&VerifiedSubBlock)) -> Result<(), BlockError> {
        // A damaged sub-block drops the source.
        while let Some(frame) = self.source.as_mut().and_then(|source| source.arrived()) {
            self.push(frame, &mut seen)?;
        }
        Ok(())
    }

    /// Drops a response whose bytes have all arrived. Its end is read first, so that the connection
    /// can be reused. An error does not matter here, because the bytes were verified.
    async fn end(&mut self) {
        if let Some(mut source) = self.source.take() {
            let _ = source.next().await;
        }
    }

    /// Drops a response that broke off, so that the rest is requested again. Fails with `error` if
    /// that happened too often.
    fn retry_lost(&mut self, error: BlockError) -> Result<(), BlockError> {
        if error.kind() != BlockErrorKind::Unavailable {
            // Other errors mean that the block is missing or damaged, not that the connection
            // failed.
            return self.retry_damaged(error);
        }
        self.source = None;
        self.lost += 1;
        if self.lost > RESUMES_MAX {
            return Err(error);
        }
        let index = self.opener.next_index();
        warn!(block = %self.block.id, index, %error, "a block stopped arriving; requesting it");
        Ok(())
    }

    /// Drops a response whose block was missing or damaged, so that the rest is requested again.
    /// Fails with `error` the second time.
    fn retry_damaged(&mut self, error: BlockError) -> Result<(), BlockError> {
        self.source = None;
        match error.kind() {
            BlockErrorKind::Corrupt | BlockErrorKind::NotFound if self.second_reads == 0 => {
                self.second_reads += 1;
                warn!(block = %self.block.id, %error, "a missing or damaged block is read again");
                Ok(())
            }
            _ => Err(error),
        }
    }

    fn corrupt(&self, what: String) -> BlockError {
        let (Range { start, end }, index) = (&self.range, self.opener.next_index());
        let doing =
            format!("opening bytes {start}..{end} of block {}, sub-block {index}", self.block.id);
        BlockError::with_cause(BlockErrorKind::Corrupt, doing, what)
    }
}

/// Takes the requested part of a sub-block.
fn cut(range: &mut Range<u32>, opened: VerifiedSubBlock, verified: &mut VecDeque<Bytes>) {
    let mut place = opened.index.saturating_mul(SUB_BLOCK_BYTES);
    for mut piece in opened.pieces {
        let length = u32::try_from(piece.len()).unwrap_or(SUB_BLOCK_BYTES);
        // The first and the last sub-block may extend beyond the requested range.
        piece.truncate(range.end.saturating_sub(place) as usize);
        let skip = range.start.saturating_sub(place) as usize;
        let piece = piece.split_off(skip.min(piece.len()));
        place = place.saturating_add(length);
        if !piece.is_empty() {
            range.start = place.min(range.end);
            verified.push_back(piece);
        }
    }
}

impl fmt::Debug for Arrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrival")
            .field("block", &self.block.id)
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

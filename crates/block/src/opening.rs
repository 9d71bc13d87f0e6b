//! Verifies sealed bytes that arrive in frames, without a copy.
//!
//! An [`Opener`] accepts frames of any size. It checksums each byte once, as it arrives, and yields
//! the pieces of a sub-block when all of them have arrived and match. It yields no unverified byte.
//! If it opens a whole block, it yields the last sub-block only if the CRC of the block is the
//! record's. It records its position, so that another source can continue there. It sends no
//! requests.
//!
//! For example, a frame of 100,000 bytes at the start of a block contains the header, sub-block 0,
//! and a part of sub-block 1. The opener yields sub-block 0 and keeps the rest.

use std::ops::Range;

use bytes::{Buf, Bytes};

use crate::SUB_BLOCK_BYTES;
use crate::sealed::{
    self, BlockRef, CHECKSUM_BYTES, VerifiedSubBlock, header, joined_sub_block, seed,
};
use crate::shift::extend_crc;

/// Verifies a block's sub-blocks (64 KiB of content with a checksum each) in order, from frames of
/// any size.
#[derive(Debug)]
pub(crate) struct Opener {
    block: BlockRef,
    /// The indices of the sub-blocks that were not yielded.
    left: Range<u32>,
    /// The CRC-32C of the block's content up to the last yielded sub-block; `None` if unknown.
    joined: Option<u32>,
    /// The bytes of the block's header that are still to come.
    header: Bytes,
    open: SubBlock,
}

/// The unfinished sub-block.
#[derive(Debug, Default)]
struct SubBlock {
    pieces: Vec<Bytes>,
    /// Content bytes of the sub-block that have arrived.
    length: u32,
    /// The CRC of the sub-block's seed (block id and index) and of its content so far.
    crc: u32,
    /// The bytes of its stored checksum that have arrived.
    checksum: u32,
    checksum_bytes: u32,
}

impl Opener {
    /// Creates an opener, which verifies the sub-blocks (64 KiB each) with these indices of the
    /// block.
    pub(crate) fn new(block: BlockRef, sub_blocks: Range<u32>) -> Opener {
        let joined = (sub_blocks.start == 0).then_some(0);
        let open = SubBlock::default();
        let mut opener = Opener { block, left: sub_blocks, joined, header: Bytes::new(), open };
        opener.restart();
        opener
    }

    /// Sets the CRC-32C of the block's content before the first sub-block that is opened. To be
    /// called before anything was yielded.
    pub(crate) fn set_preceding_crc(&mut self, before: u32) {
        self.joined = Some(before);
    }

    /// Returns the CRC-32C of the block's content up to the last yielded sub-block; `None` if
    /// unknown.
    pub(crate) fn running_crc(&self) -> Option<u32> {
        self.joined
    }

    /// Returns true if all requested sub-blocks were verified and yielded.
    pub(crate) fn is_done(&self) -> bool {
        self.left.is_empty()
    }

    /// Returns the index of the sub-block (64 KiB) that is verified next.
    pub(crate) fn next_index(&self) -> u32 {
        self.left.start
    }

    /// Drops all bytes that arrived and were not yielded. Returns the range of the block's sealed
    /// bytes (content, header and checksums) that has to come next.
    pub(crate) fn restart(&mut self) -> Range<u64> {
        let span = sealed::span(self.block.length, self.content());
        let header = if span.whole {
            Bytes::copy_from_slice(&header(self.block.id, self.block.length))
        } else {
            Bytes::new()
        };
        self.header = header;
        self.begin();
        span.bytes
    }

    /// Adds the next frame of sealed bytes, and passes the verified sub-blocks that it completes to
    /// `give`.
    ///
    /// # Errors
    /// Fails with a description if a checksum or the header does not match. Call [`restart`] before
    /// another frame then. Sub-blocks that were yielded before are valid. Bytes behind the last
    /// sub-block are ignored.
    ///
    /// [`restart`]: Opener::restart
    pub(crate) fn push(
        &mut self,
        mut frame: Bytes,
        mut give: impl FnMut(VerifiedSubBlock),
    ) -> Result<(), String> {
        // The header of the requested block is known, so the received one is only compared with it.
        if !self.header.is_empty() {
            let length = self.header.len().min(frame.len());
            if frame.split_to(length) != self.header.split_to(length) {
                return Err("the header belongs to another block".to_owned());
            }
        }
        while !frame.is_empty() && !self.is_done() {
            let content = self.content_bytes() - self.open.length;
            // The checksum may be split over two frames, so it is collected byte by byte.
            if content > 0 {
                let piece = frame.split_to(frame.len().min(content as usize));
                self.open.take(piece);
                continue;
            }
            self.open.checksum = self.open.checksum << 8 | u32::from(frame.get_u8());
            self.open.checksum_bytes += 1;
            if self.open.checksum_bytes == CHECKSUM_BYTES {
                give(self.close()?);
            }
        }
        Ok(())
    }

    /// Verifies the unfinished sub-block and begins the next one.
    fn close(&mut self) -> Result<VerifiedSubBlock, String> {
        let index = self.left.start;
        let SubBlock { pieces, length, crc, checksum, .. } = std::mem::take(&mut self.open);
        if crc != checksum {
            return Err(format!("the checksum of sub-block {index} does not match"));
        }
        let join = |before| joined_sub_block(before, self.block.id, index, length, checksum);
        // Computed before anything is yielded: the last sub-block must not leave if the block is
        // not the record's.
        let joined = self.joined.map(join);
        let ends = sealed::content_of(self.block.length, self.left.clone()).start + length;
        if ends == self.block.length && joined.is_some_and(|crc| crc != self.block.crc32c) {
            return Err("the whole block's checksum differs from the record's".to_owned());
        }
        self.joined = joined;
        self.left.start += 1;
        self.begin();
        Ok(VerifiedSubBlock { index, checksum, pieces })
    }

    fn begin(&mut self) {
        self.open = SubBlock { crc: seed(self.block.id, self.left.start), ..SubBlock::default() };
    }

    /// Returns the range of the block's content that was not yielded.
    fn content(&self) -> Range<u32> {
        sealed::content_of(self.block.length, self.left.clone())
    }

    /// Returns the content bytes of the unfinished sub-block.
    fn content_bytes(&self) -> u32 {
        let content = self.content();
        (content.end - content.start).min(SUB_BLOCK_BYTES)
    }
}

impl SubBlock {
    fn take(&mut self, piece: Bytes) {
        self.crc = extend_crc(self.crc, &piece);
        self.length += u32::try_from(piece.len()).unwrap_or(SUB_BLOCK_BYTES);
        self.pieces.push(piece);
    }
}

#[cfg(test)]
mod tests;

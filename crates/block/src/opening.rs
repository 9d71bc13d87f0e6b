//! Sealed bytes that arrive in frames, opened without a copy.
//!
//! An [`Opener`] is given frames of any size. It checksums each byte once, as it comes, and gives a
//! sub-block's pieces when all of them are there and match: nothing unverified leaves it. Where it
//! opens all of a block, the last sub-block leaves only if the block is the one of the record. It
//! knows how far it has come, so that another source can go on from there. It asks for nothing.

use std::ops::Range;

use bytes::{Buf, Bytes};

use crate::SUB_BLOCK_BYTES;
use crate::sealed::{self, BlockRef, CHECKSUM_BYTES, Opened, header, joined_sub_block, seed};
use crate::shift::extended;

/// Opens whole sub-blocks of a block, from the first to the last.
#[derive(Debug)]
pub(crate) struct Opener {
    block: BlockRef,
    /// The sub-blocks that were not given yet.
    left: Range<u32>,
    /// The CRC-32C of the block's content up to what was given, where all of that is known.
    joined: Option<u32>,
    /// Bytes of the header that are still to come.
    header: Bytes,
    open: SubBlock,
}

/// The sub-block in the making.
#[derive(Debug, Default)]
struct SubBlock {
    pieces: Vec<Bytes>,
    /// Bytes in the pieces.
    length: u32,
    /// Of its seed and the pieces.
    crc: u32,
    /// The first bytes of the checksum behind it.
    checksum: u32,
    checksum_bytes: u32,
}

impl Opener {
    /// Opens sub-blocks that lie within the block.
    pub(crate) fn new(block: BlockRef, sub_blocks: Range<u32>) -> Opener {
        let joined = (sub_blocks.start == 0).then_some(0);
        let open = SubBlock::default();
        let mut opener = Opener { block, left: sub_blocks, joined, header: Bytes::new(), open };
        opener.restart();
        opener
    }

    /// Says what the CRC-32C is of all that stands in the block before the first sub-block.
    /// Nothing was given yet.
    pub(crate) fn follow(&mut self, before: u32) {
        self.joined = Some(before);
    }

    /// The CRC-32C of the block's content up to what was given, where all of that is known.
    pub(crate) fn joined(&self) -> Option<u32> {
        self.joined
    }

    /// Whether all sub-blocks were given.
    pub(crate) fn is_done(&self) -> bool {
        self.left.is_empty()
    }

    /// The sub-block that is given next.
    pub(crate) fn next_index(&self) -> u32 {
        self.left.start
    }

    /// Forgets what was not given yet, and says which sealed bytes have to come now.
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

    /// Takes the next frame, and gives the sub-blocks that are complete with it.
    ///
    /// # Errors
    /// What is wrong, when a checksum or the header does not match: then [`restart`] before
    /// another frame. What was given before is sound. Bytes behind the last sub-block are left out.
    ///
    /// [`restart`]: Opener::restart
    pub(crate) fn push(
        &mut self,
        mut frame: Bytes,
        mut give: impl FnMut(Opened),
    ) -> Result<(), String> {
        if !self.header.is_empty() {
            let length = self.header.len().min(frame.len());
            if frame.split_to(length) != self.header.split_to(length) {
                return Err("the header is not this block's".to_owned());
            }
        }
        while !frame.is_empty() && !self.is_done() {
            let content = self.content_bytes() - self.open.length;
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

    /// Verifies the sub-block in the making and begins the next one.
    fn close(&mut self) -> Result<Opened, String> {
        let index = self.left.start;
        let SubBlock { pieces, length, crc, checksum, .. } = std::mem::take(&mut self.open);
        if crc != checksum {
            return Err(format!("the checksum of sub-block {index} does not match"));
        }
        let join = |before| joined_sub_block(before, self.block.id, index, length, checksum);
        let joined = self.joined.map(join);
        let ends = sealed::content_of(self.block.length, self.left.clone()).start + length;
        if ends == self.block.length && joined.is_some_and(|crc| crc != self.block.crc32c) {
            return Err("the whole block's checksum is not the record's".to_owned());
        }
        self.joined = joined;
        self.left.start += 1;
        self.begin();
        Ok(Opened { index, checksum, pieces })
    }

    fn begin(&mut self) {
        self.open = SubBlock { crc: seed(self.block.id, self.left.start), ..SubBlock::default() };
    }

    /// Which content is still to be given.
    fn content(&self) -> Range<u32> {
        sealed::content_of(self.block.length, self.left.clone())
    }

    /// Content bytes of the sub-block in the making.
    fn content_bytes(&self) -> u32 {
        let content = self.content();
        (content.end - content.start).min(SUB_BLOCK_BYTES)
    }
}

impl SubBlock {
    fn take(&mut self, piece: Bytes) {
        self.crc = extended(self.crc, &piece);
        self.length += u32::try_from(piece.len()).unwrap_or(SUB_BLOCK_BYTES);
        self.pieces.push(piece);
    }
}

#[cfg(test)]
mod tests;

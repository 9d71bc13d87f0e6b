//! A message's digest while the message arrives: what MD5 and SHA-256 have in common.
//!
//! Both take blocks of 64 bytes, one after the other. What was taken of a block that is not full is
//! kept, and whoever has a faster way takes the blocks in between.

use std::fmt;

use crate::vectors::{BLOCK_BYTES, Block};

/// A digest: how a block changes its state, and how it writes numbers.
pub(crate) trait Digest {
    /// The state after some blocks.
    type State: Copy;
    /// The state before the first block.
    const INITIAL: Self::State;
    /// Takes the next blocks.
    fn compress(state: &mut Self::State, blocks: &[Block]);
    /// The last bytes of a message that has so many bits.
    fn length(bits: u64) -> [u8; 8];
}

/// A running digest of one message.
pub(crate) struct Running<D: Digest> {
    state: D::State,
    /// Bytes that were taken.
    bytes: u64,
    /// The last bytes of them, as many as there are beyond whole blocks.
    rest: Block,
}

impl<D: Digest> Running<D> {
    /// Of nothing yet.
    pub(crate) fn new() -> Running<D> {
        Running { state: D::INITIAL, bytes: 0, rest: [0; BLOCK_BYTES] }
    }

    /// Takes the next bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        let filled = self.rest_bytes();
        self.bytes = self.bytes.wrapping_add(bytes.len() as u64);
        let mut bytes = bytes;
        if filled > 0 {
            let (first, others) = bytes.split_at(bytes.len().min(BLOCK_BYTES - filled));
            self.rest[filled..filled + first.len()].copy_from_slice(first);
            if filled + first.len() < BLOCK_BYTES {
                return;
            }
            D::compress(&mut self.state, &[self.rest]);
            bytes = others;
        }
        let (blocks, rest) = bytes.as_chunks();
        D::compress(&mut self.state, blocks);
        self.rest[..rest.len()].copy_from_slice(rest);
    }

    /// The state at the end of the message.
    pub(crate) fn finish(mut self) -> D::State {
        let length = D::length(self.bytes.wrapping_mul(8));
        let filled = self.rest_bytes();
        // One bit, zeros, and the length in the last eight bytes of a block.
        let mut padding = [0; 2 * BLOCK_BYTES];
        padding[0] = 0x80;
        let length_at = if filled < BLOCK_BYTES - 8 { BLOCK_BYTES } else { 2 * BLOCK_BYTES } - 8;
        self.update(&padding[..length_at - filled]);
        self.update(&length);
        self.state
    }

    /// How many bytes wait for their block to be full: fewer than a block has.
    pub(crate) fn rest_bytes(&self) -> usize {
        // What is left of a division by 64 is less than 64.
        usize::try_from(self.bytes % BLOCK_BYTES as u64).unwrap_or_default()
    }

    /// The state after the last whole block.
    pub(crate) fn state(&self) -> D::State {
        self.state
    }

    /// Goes on behind `blocks` blocks that were taken elsewhere, with the state after them.
    pub(crate) fn skip(&mut self, blocks: usize, state: D::State) {
        debug_assert_eq!(self.rest_bytes(), 0, "blocks begin where a block ended");
        self.bytes = self.bytes.wrapping_add(blocks as u64 * BLOCK_BYTES as u64);
        self.state = state;
    }
}

impl<D: Digest> Clone for Running<D> {
    fn clone(&self) -> Running<D> {
        Running { ..*self }
    }
}

impl<D: Digest> fmt::Debug for Running<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

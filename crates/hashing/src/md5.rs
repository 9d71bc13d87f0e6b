//! MD5 of one message while it arrives.

use std::fmt;

use crate::compress::{BLOCK_BYTES, Block, INITIAL, Md5State};
use crate::interleaved::interleaved;

/// A running MD5 of one message.
///
/// On one core it hashes some 900 MB/s. Only a [`HashingPool`](crate::HashingPool) is faster, with
/// several messages at once.
#[derive(Clone)]
pub struct Md5 {
    state: Md5State,
    /// How many bytes were hashed, those in `rest` included.
    bytes: u64,
    /// The last bytes, as many as there are beyond whole blocks.
    rest: Block,
}

impl Md5 {
    /// The MD5 of nothing yet.
    pub fn new() -> Md5 {
        Md5 { state: INITIAL, bytes: 0, rest: [0; BLOCK_BYTES] }
    }

    /// Hashes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        let filled = self.rest_bytes();
        self.bytes = self.bytes.wrapping_add(bytes.len() as u64);
        let mut bytes = bytes;
        if filled > 0 {
            let (first, others) = bytes.split_at(bytes.len().min(BLOCK_BYTES - filled));
            self.rest[filled..filled + first.len()].copy_from_slice(first);
            if filled + first.len() < BLOCK_BYTES {
                return;
            }
            let block = self.rest;
            self.compress(&[block]);
            bytes = others;
        }
        let (blocks, rest) = bytes.as_chunks();
        self.compress(blocks);
        self.rest[..rest.len()].copy_from_slice(rest);
    }

    /// The MD5 of all bytes.
    pub fn finish(mut self) -> [u8; 16] {
        let bits = self.bytes.wrapping_mul(8);
        let filled = self.rest_bytes();
        // One bit, zeros, and the length in the last eight bytes of a block.
        let mut padding = [0; 2 * BLOCK_BYTES];
        padding[0] = 0x80;
        let length_at = if filled < BLOCK_BYTES - 8 { BLOCK_BYTES } else { 2 * BLOCK_BYTES } - 8;
        self.update(&padding[..length_at - filled]);
        self.update(&bits.to_le_bytes());
        let mut sum = [0; 16];
        for (bytes, word) in sum.as_chunks_mut().0.iter_mut().zip(self.state) {
            *bytes = word.to_le_bytes();
        }
        sum
    }

    fn compress(&mut self, blocks: &[Block]) {
        interleaved(std::slice::from_mut(&mut self.state), &[blocks]);
    }

    /// How many bytes wait until their block is full.
    pub(crate) fn rest_bytes(&self) -> usize {
        // A remainder of a division by 64 fits.
        usize::try_from(self.bytes % BLOCK_BYTES as u64).unwrap_or_default()
    }

    /// The state after the last whole block.
    pub(crate) fn state(&self) -> Md5State {
        self.state
    }

    /// Continues after `blocks` blocks that were hashed elsewhere, with the state after them.
    pub(crate) fn skip(&mut self, blocks: usize, state: Md5State) {
        debug_assert_eq!(self.rest_bytes(), 0, "blocks begin where a block ended");
        self.bytes = self.bytes.wrapping_add(blocks as u64 * BLOCK_BYTES as u64);
        self.state = state;
    }
}

impl Default for Md5 {
    fn default() -> Md5 {
        Md5::new()
    }
}

impl fmt::Debug for Md5 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Md5").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

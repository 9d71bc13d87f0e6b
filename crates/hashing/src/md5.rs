//! MD5 of one message that arrives in pieces.
//!
//! For example, a body of a PUT is hashed by one `update` for each piece that arrives.

use std::fmt;

use crate::compress::{BLOCK_BYTES, Block, INITIAL, Md5State, compress_run};

/// A running MD5 of one message, whose bytes arrive in pieces.
///
/// It hashes about 900 MB/s on one core. A [`HashingPool`](crate::HashingPool) is faster, because
/// it hashes several messages in parallel.
#[derive(Clone)]
pub struct Md5 {
    state: Md5State,
    /// The number of bytes of the message so far, including those in `rest`.
    bytes: u64,
    /// The bytes after the last complete block, which are not hashed yet. The first `bytes % 64` of
    /// them are valid.
    rest: Block,
}

impl Md5 {
    /// Creates the MD5 of an empty message.
    pub fn new() -> Md5 {
        Md5 { state: INITIAL, bytes: 0, rest: [0; BLOCK_BYTES] }
    }

    /// Appends bytes to the message.
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
            compress_run(&mut self.state, &[block]);
            bytes = others;
        }
        let (blocks, rest) = bytes.as_chunks();
        compress_run(&mut self.state, blocks);
        self.rest[..rest.len()].copy_from_slice(rest);
    }

    /// Returns the MD5 of all bytes that were appended.
    pub fn finish(mut self) -> [u8; 16] {
        let bits = self.bytes.wrapping_mul(8);
        let filled = self.rest_bytes();
        // The padding of RFC 1321: a 1 bit, zeros, and the length in bits in the last 8 bytes of a
        // block.
        let mut padding = [0; 2 * BLOCK_BYTES];
        padding[0] = 0x80;
        // Without room for the length in this block, the padding takes another block.
        let length_at = if filled < BLOCK_BYTES - 8 { BLOCK_BYTES } else { 2 * BLOCK_BYTES } - 8;
        self.update(&padding[..length_at - filled]);
        self.update(&bits.to_le_bytes());
        let mut sum = [0; 16];
        for (bytes, word) in sum.as_chunks_mut().0.iter_mut().zip(self.state) {
            *bytes = word.to_le_bytes();
        }
        sum
    }

    /// Returns the number of bytes after the last complete block: 0 to 63. They are stored and not
    /// hashed yet.
    pub(crate) fn rest_bytes(&self) -> usize {
        // The remainder is less than 64, so the conversion cannot fail.
        usize::try_from(self.bytes % BLOCK_BYTES as u64).unwrap_or_default()
    }

    /// Returns the MD5 state, that is, the words A, B, C and D, after the last complete block.
    pub(crate) fn state(&self) -> Md5State {
        self.state
    }

    /// Records that the caller has hashed `blocks` more blocks elsewhere, and that `state` is the
    /// MD5 state after them. The message so far must end with a complete block.
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

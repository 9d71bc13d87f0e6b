//! A running SHA-256, whose state others can take further.

use std::fmt;

use sha2::block_api::compress256;

use crate::vectors::{BLOCK_BYTES, Block};

/// The state of one message.
pub(crate) type State = [u32; 8];

/// The state before the first block.
pub(crate) const INITIAL: State = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// Messages that are taken in turn, block by block. A processor with instructions for SHA-256 waits
/// for each of them about as long as it takes for another message's.
const IN_TURN_MAX: usize = 4;

/// A running SHA-256 of one message.
#[derive(Clone)]
pub(crate) struct Sha256 {
    state: State,
    /// Bytes that were taken.
    bytes: u64,
    /// The last bytes of them, as many as there are beyond whole blocks.
    rest: Block,
}

impl Sha256 {
    /// The SHA-256 of nothing yet.
    pub(crate) fn new() -> Sha256 {
        Sha256 { state: INITIAL, bytes: 0, rest: [0; BLOCK_BYTES] }
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
            compress256(&mut self.state, &[self.rest]);
            bytes = others;
        }
        let (blocks, rest) = bytes.as_chunks();
        compress256(&mut self.state, blocks);
        self.rest[..rest.len()].copy_from_slice(rest);
    }

    /// The SHA-256 of all that was taken.
    pub(crate) fn finish(mut self) -> [u8; 32] {
        let bits = self.bytes.wrapping_mul(8);
        let filled = self.rest_bytes();
        // One bit, zeros, and the length in the last eight bytes of a block.
        let mut padding = [0; 2 * BLOCK_BYTES];
        padding[0] = 0x80;
        let length_at = if filled < BLOCK_BYTES - 8 { BLOCK_BYTES } else { 2 * BLOCK_BYTES } - 8;
        self.update(&padding[..length_at - filled]);
        self.update(&bits.to_be_bytes());
        let mut sum = [0; 32];
        for (bytes, word) in sum.as_chunks_mut().0.iter_mut().zip(self.state) {
            *bytes = word.to_be_bytes();
        }
        sum
    }

    /// The state, if what was taken ends with a whole block.
    pub(crate) fn state_between_blocks(&self) -> Option<State> {
        (self.rest_bytes() == 0).then_some(self.state)
    }

    /// Goes on behind `blocks` blocks that were taken elsewhere, with the state after them.
    pub(crate) fn skip(&mut self, blocks: usize, state: State) {
        debug_assert_eq!(self.rest_bytes(), 0, "blocks begin where a block ended");
        self.bytes = self.bytes.wrapping_add(blocks as u64 * BLOCK_BYTES as u64);
        self.state = state;
    }

    /// How many bytes wait for their block to be full: fewer than a block has.
    fn rest_bytes(&self) -> usize {
        // What is left of a division by 64 is less than 64.
        usize::try_from(self.bytes % BLOCK_BYTES as u64).unwrap_or_default()
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sha256").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// Takes as many blocks of each message that has a state as `runs` has of the shortest. There are as
/// many runs as places for states.
pub(crate) fn in_turn(states: &mut [Option<State>], runs: &[&[Block]]) {
    let blocks = runs.iter().map(|run| run.len()).min().unwrap_or_default();
    let mut wanted =
        states.iter_mut().zip(runs).filter_map(|(state, run)| Some((state.as_mut()?, *run)));
    loop {
        let mut group: [Option<(&mut State, &[Block])>; IN_TURN_MAX] =
            std::array::from_fn(|_| wanted.next());
        match &mut group {
            [None, ..] => return,
            [Some((state, run)), None, ..] => compress256(state, &run[..blocks]),
            group => {
                for block in 0..blocks {
                    for (state, run) in group.iter_mut().flatten() {
                        compress256(state, &run[block..=block]);
                    }
                }
            }
        }
    }
}

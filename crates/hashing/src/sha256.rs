//! SHA-256 of one message, or of several in turn.

use sha2::block_api::compress256;

use crate::running::{Digest, Running};
use crate::vectors::Block;

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
#[derive(Clone, Debug)]
pub(crate) struct Sha256(pub(crate) Running<Function>);

/// What SHA-256 is.
pub(crate) struct Function;

impl Digest for Function {
    type State = State;
    const INITIAL: State = INITIAL;

    fn compress(state: &mut State, blocks: &[Block]) {
        compress256(state, blocks);
    }

    fn length(bits: u64) -> [u8; 8] {
        bits.to_be_bytes()
    }
}

impl Sha256 {
    /// The SHA-256 of nothing yet.
    pub(crate) fn new() -> Sha256 {
        Sha256(Running::new())
    }

    /// The SHA-256 of all that was taken.
    pub(crate) fn finish(self) -> [u8; 32] {
        let mut sum = [0; 32];
        for (bytes, word) in sum.as_chunks_mut().0.iter_mut().zip(self.0.finish()) {
            *bytes = word.to_be_bytes();
        }
        sum
    }

    /// The state, if what was taken ends with a whole block.
    pub(crate) fn state_between_blocks(&self) -> Option<State> {
        (self.0.rest_bytes() == 0).then(|| self.0.state())
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

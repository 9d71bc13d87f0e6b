//! Several messages at once, in whichever way is fastest on this processor.
//!
//! For a few messages there are two ways, and either may be up to twice as fast. If a vector addition
//! takes one cycle, vectors with rotations are faster even for one message; if it takes two, ordinary
//! registers are. So a caller that hashes much measures both first, which takes some milliseconds.

use std::time::{Duration, Instant};

use fearless_simd::Level;

use crate::compress::{BLOCK_BYTES, Block, INITIAL, Md5State};
use crate::interleaved::{INTERLEAVED_MAX, interleaved};
use crate::vectors::in_vectors;

/// Blocks of each message that are hashed to measure a way.
const TIMED_BLOCKS: usize = 64;

/// How often each way is measured. The shortest time counts, because others share the processor.
const TIMED_TRIES: usize = 12;

/// Which way of hashing a few messages is faster on this processor.
#[derive(Clone, Copy, Debug)]
pub struct Ways {
    level: Level,
    /// Whether ordinary registers are faster, for one message, for two, and so on.
    registers_are_quicker: [bool; INTERLEAVED_MAX],
}

impl Ways {
    /// Measures them all, in some milliseconds.
    pub fn timed() -> Ways {
        let level = Level::new();
        let registers_are_quicker =
            std::array::from_fn(|others| are_registers_quicker(level, others + 1));
        Ways { level, registers_are_quicker }
    }

    /// Given vectors, and one way for all numbers of messages.
    #[cfg(test)]
    pub(crate) fn given(level: Level, registers: bool) -> Ways {
        Ways { level, registers_are_quicker: [registers; INTERLEAVED_MAX] }
    }

    /// Hashes as many blocks of each message as the shortest run has.
    ///
    /// There are as many states as runs, and at most [`COLUMNS_MAX`](crate::COLUMNS_MAX).
    pub(crate) fn md5(self, states: &mut [Md5State], runs: &[&[Block]]) {
        let others = runs.len().checked_sub(1);
        let registers = others.and_then(|others| self.registers_are_quicker.get(others));
        if registers.is_some_and(|quicker| *quicker) {
            interleaved(states, runs);
        } else {
            in_vectors(self.level, states, runs);
        }
    }
}

fn are_registers_quicker(level: Level, messages: usize) -> bool {
    let mut states = [INITIAL; INTERLEAVED_MAX];
    let states = &mut states[..messages];
    let blocks = [[0x5a; BLOCK_BYTES]; TIMED_BLOCKS];
    let runs = vec![blocks.as_slice(); messages];
    let (mut registers, mut vectors) = (Duration::MAX, Duration::MAX);
    for _ in 0..TIMED_TRIES {
        let began = Instant::now();
        interleaved(states, &runs);
        registers = registers.min(began.elapsed());
        let began = Instant::now();
        in_vectors(level, states, &runs);
        vectors = vectors.min(began.elapsed());
    }
    registers < vectors
}

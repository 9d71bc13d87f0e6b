//! The choice between vectors and ordinary registers for one to three messages.
//!
//! Each of the two can be up to twice as fast as the other, depending on the processor. For
//! example, if a vector addition takes one cycle, vectors with rotations are faster even for one
//! message; if it takes two cycles, ordinary registers are faster. A caller that hashes much
//! therefore measures both first, which takes a few milliseconds.

use std::time::{Duration, Instant};

use fearless_simd::Level;

use crate::compress::{BLOCK_BYTES, Block, INITIAL, Md5State};
use crate::interleaved::{INTERLEAVED_MAX, interleaved};
use crate::vectors::in_vectors;

/// The number of blocks that a measurement of the speed hashes for each message.
const TIMED_BLOCKS: usize = 64;

/// The number of measurements of each implementation. The shortest time counts, because other
/// processes use the processor, too.
const TIMED_TRIES: usize = 12;

/// The faster implementation of MD5 on this processor, vectors or ordinary registers, for one, two
/// and three messages. More messages always use vectors.
#[derive(Clone, Copy, Debug)]
pub struct Ways {
    level: Level,
    /// For one message, for two, and for three: true if ordinary registers are faster than vectors.
    registers_are_quicker: [bool; INTERLEAVED_MAX],
}

impl Ways {
    /// Measures the speed of vectors and of ordinary registers, which takes a few milliseconds, and
    /// returns the faster choices.
    pub fn timed() -> Ways {
        let level = Level::new();
        let registers_are_quicker =
            std::array::from_fn(|others| are_registers_quicker(level, others + 1));
        Ways { level, registers_are_quicker }
    }

    /// Creates a choice for tests: one kind of vectors, and ordinary registers always or never.
    #[cfg(test)]
    pub(crate) fn given(level: Level, registers: bool) -> Ways {
        Ways { level, registers_are_quicker: [registers; INTERLEAVED_MAX] }
    }

    /// Hashes the same number of blocks of each message with the faster implementation, and updates
    /// the MD5 state of each. A run has the next complete blocks of one message; the shortest run
    /// determines the number of blocks.
    ///
    /// The numbers of states and runs are equal, and at most [`COLUMNS_MAX`](crate::COLUMNS_MAX).
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
        // Both are measured in turn, so that other processes disturb both alike.
        let began = Instant::now();
        interleaved(states, &runs);
        registers = registers.min(began.elapsed());
        let began = Instant::now();
        in_vectors(level, states, &runs);
        vectors = vectors.min(began.elapsed());
    }
    registers < vectors
}

//! Messages side by side, in whichever way this processor is quickest.
//!
//! For a few messages there are two ways, and processors differ in which is the better one by up
//! to a factor of two: where a vector's addition takes one cycle, vectors with rotations are quicker
//! even for one message; where it takes two, ordinary registers are. So whoever hashes much times the
//! ways before it begins, in some milliseconds. The sums are the same either way.

use std::time::{Duration, Instant};

use fearless_simd::Level;

use crate::compress::{BLOCK_BYTES, Block, INITIAL, State};
use crate::interleaved::{INTERLEAVED_MAX, interleaved};
use crate::vectors::in_vectors;

/// Blocks of each message that are hashed to time a way.
const TIMED_BLOCKS: usize = 64;

/// How often each way is timed. The shortest time counts: others share the processor.
const TIMED_TRIES: usize = 12;

/// Which way to hash a few messages is the quicker one on this processor.
#[derive(Clone, Copy, Debug)]
pub struct Ways {
    level: Level,
    /// Whether ordinary registers are quicker, for one message, for two, and so on.
    registers_are_quicker: [bool; INTERLEAVED_MAX],
}

impl Ways {
    /// Times them all, in some milliseconds.
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

    /// Takes as many blocks of each message as `runs` has of the shortest.
    ///
    /// There are as many states as runs, and at most [`COLUMNS_MAX`](crate::COLUMNS_MAX).
    pub(crate) fn md5(self, states: &mut [State], runs: &[&[Block]]) {
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

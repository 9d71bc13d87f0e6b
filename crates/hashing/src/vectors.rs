//! MD5 of several messages side by side, each in a column of vector registers.
//!
//! A call hashes the same number of blocks of each message; `job` combines messages of different
//! lengths. The kind of vectors is detected at run time. For example, with AVX-512 one register has
//! a word of sixteen messages.

use fearless_simd::prelude::*;
use fearless_simd::{Level, Simd, u8x16, u8x32, u8x64, u32x4, u32x8, u32x16};

use crate::compress::{Block, Md5State, Words, compress, compress_run, constants};

/// The largest number of messages that are hashed side by side.
pub const COLUMNS_MAX: usize = 16;

/// Hashes the same number of blocks of each message in vector registers, and updates the MD5 state
/// of each. A run has the next complete blocks of one message; the shortest run determines the
/// number of blocks. `level` is the kind of vectors that the processor has.
///
/// The numbers of states and runs are equal, and at most [`COLUMNS_MAX`].
///
/// Each kind of vectors has the two numbers of columns that are worth their code: 4 and 16 for
/// AVX-512, 8 and 16 for AVX2, 4 and 8 for narrow vectors. For the larger number, AVX2 and narrow
/// vectors take two registers per word, which fill the time in which an addition waits for the one
/// before. More numbers would add seconds to each compilation. One message takes ordinary
/// registers.
pub(crate) fn in_vectors(level: Level, states: &mut [Md5State], runs: &[&[Block]]) {
    if let ([state], [run]) = (&mut *states, runs) {
        return compress_run(state, run);
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = level.as_avx512() {
        return match runs.len() {
            0..=4 => call(states, runs, |states, runs| four(simd, states, runs)),
            _ => call(states, runs, |states, runs| sixteen(simd, states, runs)),
        };
    } else if let Some(simd) = level.as_avx2() {
        return match runs.len() {
            0..=8 => call(states, runs, |states, runs| eight(simd, states, runs)),
            _ => call(states, runs, |states, runs| sixteen(simd, states, runs)),
        };
    }
    // Narrow vectors take at most eight messages, so that all groups must take the same number of
    // blocks.
    let least = runs.iter().map(|run| run.len()).min().unwrap_or_default();
    for (states, runs) in states.chunks_mut(8).zip(runs.chunks(8)) {
        narrow(level, states, runs, least);
    }
}

/// Hashes `blocks` blocks of each of at most eight messages in narrow vectors, which have four
/// words (SSE2 or NEON). A processor without such vectors uses ordinary registers.
fn narrow(level: Level, states: &mut [Md5State], runs: &[&[Block]], blocks: usize) {
    #[cfg(target_arch = "x86_64")]
    let simd = level.as_sse2();
    #[cfg(target_arch = "aarch64")]
    let simd = level.as_neon();
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let simd: Option<fearless_simd::Fallback> = None;
    let mut trimmed: [&[Block]; 8] = [&[]; 8];
    for (trimmed, run) in trimmed.iter_mut().zip(runs) {
        *trimmed = run.get(..blocks).unwrap_or_default();
    }
    let runs = &trimmed[..runs.len().min(8)];
    match simd {
        Some(simd) if runs.len() <= 4 => {
            call(states, runs, |states, runs| four(simd, states, runs));
        }
        Some(simd) => call(states, runs, |states, runs| eight(simd, states, runs)),
        None => states.iter_mut().zip(runs).for_each(|(state, run)| compress_run(state, run)),
    }
}

/// Calls `columns` with exactly `COLUMNS` messages. Unused columns repeat the first message, and
/// their results are dropped.
fn call<const COLUMNS: usize>(
    states: &mut [Md5State],
    runs: &[&[Block]],
    columns: impl FnOnce(&mut [Md5State; COLUMNS], &[&[Block]; COLUMNS]),
) {
    let (Some(first), Some(run)) = (states.first(), runs.first()) else { return };
    let mut all = std::array::from_fn(|column| states.get(column).copied().unwrap_or(*first));
    let runs = std::array::from_fn(|column| runs.get(column).copied().unwrap_or(run));
    columns(&mut all, &runs);
    for (state, after) in states.iter_mut().zip(all) {
        *state = after;
    }
}

macro_rules! in_columns {
    ($name:ident, $inner:ident, $columns:literal, $words:ident, $bytes:ident) => {
        /// Hashes a fixed number of messages, each in a column of the vectors.
        ///
        /// A transposition puts the same word of all messages into one vector. At first each row is
        /// a piece of one message. Each round interleaves the upper half of the rows with the lower
        /// half. After log2(columns) rounds each row has the same word of all messages.
        fn $name<S: Simd>(simd: S, states: &mut [Md5State; $columns], runs: &[&[Block]; $columns]) {
            simd.vectorize(
                #[inline(always)]
                || $inner(simd, states, runs),
            );
        }

        #[inline(always)]
        fn $inner<S: Simd>(
            simd: S,
            states: &mut [Md5State; $columns],
            runs: &[&[Block]; $columns],
        ) {
            let constants = constants();
            let blocks = runs.iter().map(|run| run.len()).min().unwrap_or_default();
            let runs = runs.map(|run| &run[..blocks]);
            let mut vectors: [$words<S>; 4] = std::array::from_fn(
                #[inline(always)]
                |word| $words::from_fn(simd, |column| states[column][word]),
            );
            for block in 0..blocks {
                let mut words = [$words::splat(simd, 0); 16];
                for (piece, words) in words.as_chunks_mut::<$columns>().0.iter_mut().enumerate() {
                    let mut rows: [$words<S>; $columns] = std::array::from_fn(
                        #[inline(always)]
                        |column| {
                            let (pieces, _) = runs[column][block].as_chunks::<{ $columns * 4 }>();
                            $bytes::from_slice(simd, &pieces[piece]).bitcast()
                        },
                    );
                    let mut apart = $columns;
                    while apart > 1 {
                        let before = rows;
                        for row in 0..$columns / 2 {
                            let (upper, lower) = (before[row], before[row + $columns / 2]);
                            rows[2 * row] = upper.zip_low(lower);
                            rows[2 * row + 1] = upper.zip_high(lower);
                        }
                        apart /= 2;
                    }
                    *words = rows;
                }
                vectors = compress(vectors, &words, constants);
            }
            for (word, vector) in vectors.iter().enumerate() {
                for (state, value) in states.iter_mut().zip(vector.as_slice()) {
                    state[word] = *value;
                }
            }
        }

        impl<S: Simd> Words for $words<S> {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn plus_constant(self, constant: u32) -> Self {
                self + constant
            }

            #[inline(always)]
            fn rotate_left<const BITS: u32>(self) -> Self {
                (self << BITS) | (self >> (32 - BITS))
            }

            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }

            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }

            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }

            #[inline(always)]
            fn not(self) -> Self {
                !self
            }

            #[inline(always)]
            fn plus_selected(self, mask: Self, one: Self, other: Self) -> Self {
                self + (other ^ (mask & (one ^ other)))
            }
        }
    };
}

in_columns!(four, in_four, 4, u32x4, u8x16);
in_columns!(eight, in_eight, 8, u32x8, u8x32);
in_columns!(sixteen, in_sixteen, 16, u32x16, u8x64);

//! Messages side by side, in whichever way this processor is quickest.
//!
//! For a few messages there are two ways, and processors differ in which is the better one by up to
//! a factor of two: where a vector's addition takes one cycle, vectors with rotations are quicker
//! even for one message; where it takes two, ordinary registers are. So both are timed once, on
//! first use, in less than a millisecond. The sums are the same either way.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use fearless_simd::Level;

use crate::compress::INITIAL;
use crate::vectors::{BLOCK_BYTES, Block, State, in_vectors};
use crate::woven::{WOVEN_MAX, woven};

/// Blocks of each message that are hashed to time a way.
const TIMED_BLOCKS: usize = 16;

/// How often each way is timed. The shortest time counts: others share the processor.
const TIMED_TRIES: usize = 6;

/// Whether ordinary registers are quicker, for one message, for two, and so on.
static WOVEN_IS_QUICKER: LazyLock<[bool; WOVEN_MAX]> =
    LazyLock::new(|| std::array::from_fn(|others| is_woven_quicker(others + 1)));

/// Takes blocks of one message.
pub(crate) fn alone(level: Level, state: &mut State, blocks: &[Block]) {
    abreast(level, std::slice::from_mut(state), &[blocks]);
}

/// Takes as many blocks of each message as `runs` has of the shortest.
///
/// There are as many states as runs, and at most [`COLUMNS_MAX`](crate::COLUMNS_MAX).
pub(crate) fn abreast(level: Level, states: &mut [State], runs: &[&[Block]]) {
    let place = runs.len().checked_sub(1);
    if place.and_then(|place| WOVEN_IS_QUICKER.get(place)).is_some_and(|quicker| *quicker) {
        woven(states, runs);
    } else {
        in_vectors(level, states, runs);
    }
}

fn is_woven_quicker(messages: usize) -> bool {
    let level = Level::new();
    let blocks = [[0x5a; BLOCK_BYTES]; TIMED_BLOCKS];
    let runs = [blocks.as_slice(); WOVEN_MAX];
    let (mut states, runs) = (vec![INITIAL; messages], &runs[..messages]);
    let mut least = [Duration::MAX; 2];
    for _ in 0..TIMED_TRIES {
        let began = Instant::now();
        woven(&mut states, runs);
        let between = Instant::now();
        in_vectors(level, &mut states, runs);
        least[0] = least[0].min(between - began);
        least[1] = least[1].min(between.elapsed());
    }
    least[0] < least[1]
}

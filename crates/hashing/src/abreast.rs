//! Messages side by side, in whichever way this processor is quickest.
//!
//! For a few messages there are several ways, and processors differ in which is the best one by up
//! to a factor of two: where a vector's addition takes one cycle, vectors with rotations are quicker
//! even for one message; where it takes two, ordinary registers are. So whoever hashes much times the
//! ways before it begins, in some milliseconds. The sums are the same either way.

use std::time::{Duration, Instant};

use fearless_simd::Level;
use sha2::block_api::compress256;

use crate::sha256::in_turn;
use crate::vectors::{BLOCK_BYTES, Block, in_vectors};
use crate::woven::{WOVEN_MAX, woven};
use crate::{compress, md5, sha256};

/// Blocks of each message that are hashed to time a way.
const TIMED_BLOCKS: usize = 64;

/// How often each way is timed. The shortest time counts: others share the processor.
const TIMED_TRIES: usize = 12;

/// Messages up to whose number MD5 and SHA-256 may be computed in one stream.
const FUSED_MAX: usize = 4;

/// Which of several ways to hash a few messages are the quicker ones on this processor.
#[derive(Clone, Copy, Debug)]
pub struct Ways {
    level: Level,
    /// Whether ordinary registers are quicker, for one message, for two, and so on.
    woven_is_quicker: [bool; WOVEN_MAX],
    /// Whether both digests in one stream are quicker than one after the other.
    fused_is_quicker: [bool; FUSED_MAX],
}

impl Ways {
    /// Times them all, in some milliseconds.
    pub fn timed() -> Ways {
        let never = (Level::new(), [false; WOVEN_MAX], [false; FUSED_MAX]);
        let mut ways =
            Ways { level: never.0, woven_is_quicker: never.1, fused_is_quicker: never.2 };
        ways.woven_is_quicker = std::array::from_fn(|others| ways.is_woven_quicker(others + 1));
        ways.fused_is_quicker = std::array::from_fn(|others| ways.is_fused_quicker(others + 1));
        ways
    }

    /// The best vectors of the processor, or lesser ones, and `quick` for whatever else is there.
    #[cfg(test)]
    pub(crate) fn given(level: Level, quick: bool) -> Ways {
        Ways { level, woven_is_quicker: [quick; WOVEN_MAX], fused_is_quicker: [quick; FUSED_MAX] }
    }

    /// Takes as many blocks of each message as `runs` has of the shortest.
    ///
    /// There are as many states as runs, and at most [`COLUMNS_MAX`](crate::COLUMNS_MAX).
    pub(crate) fn md5(self, states: &mut [md5::State], runs: &[&[Block]]) {
        if is_best(&self.woven_is_quicker, runs.len()) {
            woven(states, runs);
        } else {
            in_vectors(self.level, states, runs);
        }
    }

    /// The same, and the SHA-256 of those messages that have a state for it.
    pub(crate) fn both(
        self,
        md5s: &mut [md5::State],
        sha256s: &mut [Option<sha256::State>],
        runs: &[&[Block]],
    ) {
        let all = sha256s.iter().all(Option::is_some);
        if all
            && is_best(&self.fused_is_quicker, runs.len())
            && in_one_stream(self.level, md5s, sha256s, runs)
        {
            return;
        }
        if let ([md5], [Some(sha256)], [run]) = (&mut *md5s, &mut *sha256s, runs) {
            // Block by block, what one waits for leaves time for the other.
            for block in run.chunks(1) {
                self.md5(std::slice::from_mut(md5), &[block]);
                compress256(sha256, block);
            }
            return;
        }
        self.md5(md5s, runs);
        in_turn(sha256s, runs);
    }

    fn is_woven_quicker(self, messages: usize) -> bool {
        let mut states = [compress::INITIAL; WOVEN_MAX];
        let states = &mut states[..messages];
        is_quicker(messages, |runs, way| match way {
            Way::New => woven(states, runs),
            Way::Usual => in_vectors(self.level, states, runs),
        })
    }

    fn is_fused_quicker(self, messages: usize) -> bool {
        let mut md5s = [compress::INITIAL; FUSED_MAX];
        let mut sha256s = [Some(sha256::INITIAL); FUSED_MAX];
        let (md5s, sha256s) = (&mut md5s[..messages], &mut sha256s[..messages]);
        is_quicker(messages, |runs, way| match way {
            Way::New => drop(in_one_stream(self.level, md5s, sha256s, runs)),
            Way::Usual => self.both(md5s, sha256s, runs),
        })
    }
}

fn is_best(is_quicker: &[bool], messages: usize) -> bool {
    messages.checked_sub(1).and_then(|others| is_quicker.get(others)).is_some_and(|is| *is)
}

/// Computes both digests of a few messages, if the processor has what it takes; false if not, and
/// then nothing was taken.
#[cfg(target_arch = "x86_64")]
pub(crate) fn in_one_stream(
    level: Level,
    md5s: &mut [md5::State],
    sha256s: &mut [Option<sha256::State>],
    runs: &[&[Block]],
) -> bool {
    use crate::fused::{FUSED, fused};

    const _: () = assert!(FUSED == FUSED_MAX, "each number of messages is timed");
    let Some(avx512) = level.as_avx512() else { return false };
    let (Some(first), true) = (runs.first(), runs.len() <= FUSED) else { return false };
    // Columns that nobody needs are filled with some message once more.
    let mut all_md5s = std::array::from_fn(|column| md5s.get(column).copied().unwrap_or_default());
    let mut all_sha256s =
        std::array::from_fn(|column| sha256s.get(column).copied().flatten().unwrap_or_default());
    let all_runs = std::array::from_fn(|column| runs.get(column).copied().unwrap_or(first));
    fused(avx512, &mut all_md5s, &mut all_sha256s, &all_runs);
    for (state, after) in md5s.iter_mut().zip(all_md5s) {
        *state = after;
    }
    for (state, after) in sha256s.iter_mut().zip(all_sha256s) {
        *state = Some(after);
    }
    true
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn in_one_stream(
    _: Level,
    _: &mut [md5::State],
    _: &mut [Option<sha256::State>],
    _: &[&[Block]],
) -> bool {
    false
}

#[derive(Clone, Copy, Debug)]
enum Way {
    New,
    Usual,
}

/// Whether the new way takes less time.
fn is_quicker(messages: usize, mut hash: impl FnMut(&[&[Block]], Way)) -> bool {
    let blocks = [[0x5a; BLOCK_BYTES]; TIMED_BLOCKS];
    let runs = vec![blocks.as_slice(); messages];
    let mut time = |way| {
        let began = Instant::now();
        hash(&runs, way);
        began.elapsed()
    };
    let (mut new, mut usual) = (Duration::MAX, Duration::MAX);
    for _ in 0..TIMED_TRIES {
        new = new.min(time(Way::New));
        usual = usual.min(time(Way::Usual));
    }
    new < usual
}

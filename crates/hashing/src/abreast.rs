//! Messages side by side, in whichever way this processor is quickest.
//!
//! For a few messages there are several ways, and processors differ in which is the best one by up
//! to a factor of two: where a vector's addition takes one cycle, vectors with rotations are quicker
//! even for one message; where it takes two, ordinary registers are. So whoever hashes much times the
//! ways before it begins, in some milliseconds. The sums are the same either way.

use std::time::{Duration, Instant};

use fearless_simd::Level;
use sha2::block_api::compress256;

#[cfg(target_arch = "x86_64")]
pub(crate) use crate::beside::together;
use crate::sha256::in_turn;
use crate::vectors::{BLOCK_BYTES, Block, COLUMNS_MAX, in_vectors};
use crate::woven::{WOVEN_MAX, woven};
use crate::{compress, md5, sha256};

/// Blocks of each message that are hashed to time a way.
const TIMED_BLOCKS: usize = 64;

/// How often each way is timed. The shortest time counts: others share the processor.
const TIMED_TRIES: usize = 12;

/// Numbers of messages for which the best way to both digests is found out: each further number goes
/// with the next of these.
const TIMED_BOTH: [usize; 6] = [1, 2, 3, 4, 8, COLUMNS_MAX];

/// Which of several ways to hash a few messages are the quicker ones on this processor.
#[derive(Clone, Copy, Debug)]
pub struct Ways {
    level: Level,
    /// Whether ordinary registers are quicker, for one message, for two, and so on.
    woven_is_quicker: [bool; WOVEN_MAX],
    /// Where MD5 is computed if both digests in one stream are quicker than one after the other, for
    /// each of [`TIMED_BOTH`].
    both: [Option<Place>; TIMED_BOTH.len()],
}

/// Where MD5's steps are taken, when SHA-256's stand between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In ordinary registers.
    Registers,
    /// In vectors.
    Vectors,
}

impl Ways {
    /// Times them all, in some milliseconds.
    pub fn timed() -> Ways {
        let mut ways = Ways {
            level: Level::new(),
            woven_is_quicker: [false; WOVEN_MAX],
            both: [None; TIMED_BOTH.len()],
        };
        ways.woven_is_quicker = std::array::from_fn(|others| ways.is_woven_quicker(others + 1));
        for (number, messages) in TIMED_BOTH.into_iter().enumerate() {
            ways.both[number] = ways.best_for_both(messages);
        }
        ways
    }

    /// The best vectors of the processor, or lesser ones, and given ways for all else.
    #[cfg(test)]
    pub(crate) fn given(level: Level, woven: bool, both: Option<Place>) -> Ways {
        Ways { level, woven_is_quicker: [woven; WOVEN_MAX], both: [both; TIMED_BOTH.len()] }
    }

    /// Takes as many blocks of each message as `runs` has of the shortest.
    ///
    /// There are as many states as runs, and at most [`COLUMNS_MAX`].
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
        let timed = TIMED_BOTH.iter().position(|messages| runs.len() <= *messages);
        let place = timed.and_then(|number| self.both[number]);
        if let Some(place) = place.filter(|_| sha256s.iter().all(Option::is_some))
            && together(self.level, place, md5s, sha256s, runs)
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

    fn with_both(self, place: Option<Place>) -> Ways {
        Ways { both: [place; TIMED_BOTH.len()], ..self }
    }

    fn best_for_both(self, messages: usize) -> Option<Place> {
        let mut md5s = [compress::INITIAL; COLUMNS_MAX];
        let mut sha256s = [Some(sha256::INITIAL); COLUMNS_MAX];
        let (md5s, sha256s) = (&mut md5s[..messages], &mut sha256s[..messages]);
        let mut best = None;
        for place in [Place::Registers, Place::Vectors] {
            let is_better = is_quicker(messages, |runs, which| match which {
                Way::New => self.with_both(Some(place)).both(md5s, sha256s, runs),
                Way::Usual => self.with_both(best).both(md5s, sha256s, runs),
            });
            if is_better {
                best = Some(place);
            }
        }
        best
    }
}

fn is_best(is_quicker: &[bool], messages: usize) -> bool {
    messages.checked_sub(1).and_then(|others| is_quicker.get(others)).is_some_and(|is| *is)
}

/// On other processors there is no such way.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn together(
    _: Level,
    _: Place,
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

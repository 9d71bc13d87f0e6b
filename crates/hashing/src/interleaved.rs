//! A few messages at once in ordinary registers: their instructions are interleaved, step by step.
//!
//! One message leaves most of a processor idle, because each instruction waits for the one before. The
//! instructions of two more messages fill that time. There are not enough registers for a fourth.
#![expect(clippy::inline_always, reason = "a call for each of some hundred additions")]

use std::array::from_fn;

use crate::compress::{Block, Md5State, Words, compress, constants};

/// Messages that are hashed in this way at most.
pub(crate) const INTERLEAVED_MAX: usize = 3;

/// Hashes as many blocks of each message as the shortest run has. There are as many states as runs, and
/// at most [`INTERLEAVED_MAX`].
pub(crate) fn interleaved(states: &mut [Md5State], runs: &[&[Block]]) {
    match (states, runs) {
        ([one], [run]) => interleave([one], [run]),
        // The compiler interleaves three messages, but hashes two one after the other, block by block,
        // which fills no idle time.
        ([one, two], [first, second]) => {
            let mut spare = *one;
            interleave([one, two, &mut spare], [first, second, first]);
        }
        ([one, two, three], [first, second, third]) => {
            interleave([one, two, three], [first, second, third]);
        }
        (_, runs) => debug_assert!(runs.is_empty(), "there are as many states, and not too many"),
    }
}

fn interleave<const MESSAGES: usize>(
    mut states: [&mut Md5State; MESSAGES],
    runs: [&[Block]; MESSAGES],
) {
    let constants = constants();
    let blocks = runs.iter().map(|run| run.len()).min().unwrap_or_default();
    let runs = runs.map(|run| &run[..blocks]);
    let mut words: [Each<MESSAGES>; 4] =
        from_fn(|word| Each(from_fn(|message| states[message][word])));
    for block in 0..blocks {
        let input = from_fn(
            #[inline(always)]
            |word| Each::of(runs.map(|run| &run[block]), word),
        );
        words = compress(words, &input, constants);
    }
    for (place, word) in words.into_iter().enumerate() {
        for (message, state) in states.iter_mut().enumerate() {
            state[place] = word.0[message];
        }
    }
}

/// A word of each message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Each<const MESSAGES: usize>(pub(crate) [u32; MESSAGES]);

impl<const MESSAGES: usize> Each<MESSAGES> {
    /// A word of each block.
    #[inline(always)]
    pub(crate) fn of(blocks: [&Block; MESSAGES], word: usize) -> Self {
        Each(blocks.map(
            #[inline(always)]
            |block| u32::from_le_bytes(block.as_chunks().0[word]),
        ))
    }

    #[inline(always)]
    fn map(self, change: impl Fn(u32) -> u32) -> Self {
        Each(from_fn(
            #[inline(always)]
            |message| change(self.0[message]),
        ))
    }

    #[inline(always)]
    fn with(self, other: Self, join: impl Fn(u32, u32) -> u32) -> Self {
        Each(from_fn(
            #[inline(always)]
            |message| join(self.0[message], other.0[message]),
        ))
    }
}

impl<const MESSAGES: usize> Words for Each<MESSAGES> {
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.with(other, u32::wrapping_add)
    }

    #[inline(always)]
    fn plus_constant(self, constant: u32) -> Self {
        self.map(
            #[inline(always)]
            |word| word.wrapping_add(constant),
        )
    }

    #[inline(always)]
    fn rotate_left<const BITS: u32>(self) -> Self {
        self.map(
            #[inline(always)]
            |word| word.rotate_left(BITS),
        )
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        self.with(
            other,
            #[inline(always)]
            |one, other| one & other,
        )
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        self.with(
            other,
            #[inline(always)]
            |one, other| one | other,
        )
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self.with(
            other,
            #[inline(always)]
            |one, other| one ^ other,
        )
    }

    #[inline(always)]
    fn not(self) -> Self {
        self.map(
            #[inline(always)]
            |word| !word,
        )
    }

    /// Of the two halves, the one that is known early is added early.
    #[inline(always)]
    fn plus_selected(self, mask: Self, one: Self, other: Self) -> Self {
        Each(from_fn(
            #[inline(always)]
            |message| {
                let known = self.0[message].wrapping_add(other.0[message] & !mask.0[message]);
                known.wrapping_add(one.0[message] & mask.0[message])
            },
        ))
    }
}

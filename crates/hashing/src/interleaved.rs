//! MD5 of up to three messages in ordinary registers, with interleaved instructions.
//!
//! One message uses a small part of a processor core, because each instruction waits for the one
//! before. The instructions of two more messages fill this time. There are not enough registers for
//! a fourth message. For example, on processors without fast vector rotations three interleaved
//! messages can be faster than three columns of a vector.
#![expect(clippy::inline_always, reason = "a call per addition would cost more than the addition")]

use std::array::from_fn;

use crate::compress::{Block, Md5State, Words, compress, constants};

/// The largest number of messages that one call hashes with interleaved instructions.
pub(crate) const INTERLEAVED_MAX: usize = 3;

/// Hashes the same number of blocks of each message and updates the MD5 state of each. A run has
/// the next complete blocks of one message; the shortest run determines the number of blocks, and
/// the caller keeps the rest. The numbers of states and runs are equal, and at most
/// [`INTERLEAVED_MAX`].
pub(crate) fn interleaved(states: &mut [Md5State], runs: &[&[Block]]) {
    match (states, runs) {
        ([one], [run]) => interleave([one], [run]),
        // The compiler interleaves three messages, but not two: those it hashes one after the
        // other, which fills no idle time. So a spare message makes three.
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

/// One 32-bit word of each of several messages, kept in ordinary registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Each<const MESSAGES: usize>(pub(crate) [u32; MESSAGES]);

impl<const MESSAGES: usize> Each<MESSAGES> {
    /// Loads one 32-bit word from the block of each message. `word` is the index of the word in the
    /// block, 0 to 15.
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

    /// First adds `other & !mask`, which does not depend on the result of the previous step, and
    /// then `one & mask`, which does. This order shortens the dependency chain.
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

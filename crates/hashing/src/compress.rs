//! The compression function of MD5 for one block, of one message or of several messages in
//! parallel.
//!
//! A block takes 64 steps on a state of four words, and each step needs the result of the step
//! before. This dependency chain limits the speed of one message. The code therefore computes every
//! term that is not part of the chain first. The words can be vectors: each column is then a
//! message of its own. For example, with words of sixteen columns one call compresses a block of
//! sixteen messages. The caller loads the words.
#![expect(
    clippy::inline_always,
    reason = "only code that is inlined into a function with a CPU feature uses its instructions"
)]

use std::hint::black_box;

/// The operations of MD5 on 32-bit words. A value is one word, or a vector with a word of a
/// different message in each column; the operations then apply to each column.
pub(crate) trait Words: Copy {
    /// Returns the sum of both words, modulo 2³².
    fn plus(self, other: Self) -> Self;
    /// Returns the sum with the same constant in each column, modulo 2³².
    fn plus_constant(self, constant: u32) -> Self;
    fn rotate_left<const BITS: u32>(self) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn not(self) -> Self;
    /// Returns the sum of this word and a selected word, modulo 2³². The selected word has the bits
    /// of `one` where `mask` has ones, and the bits of `other` where `mask` has zeros.
    fn plus_selected(self, mask: Self, one: Self, other: Self) -> Self;
}

impl Words for u32 {
    #[inline(always)]
    fn plus(self, other: u32) -> u32 {
        self.wrapping_add(other)
    }

    #[inline(always)]
    fn plus_constant(self, constant: u32) -> u32 {
        self.wrapping_add(constant)
    }

    #[inline(always)]
    fn rotate_left<const BITS: u32>(self) -> u32 {
        self.rotate_left(BITS)
    }

    #[inline(always)]
    fn and(self, other: u32) -> u32 {
        self & other
    }

    #[inline(always)]
    fn or(self, other: u32) -> u32 {
        self | other
    }

    #[inline(always)]
    fn xor(self, other: u32) -> u32 {
        self ^ other
    }

    #[inline(always)]
    fn not(self) -> u32 {
        !self
    }

    /// First adds `other & !mask`, which does not depend on the result of the previous step, and
    /// then `one & mask`, which does. This order shortens the dependency chain.
    #[inline(always)]
    fn plus_selected(self, mask: u32, one: u32, other: u32) -> u32 {
        self.wrapping_add(other & !mask).wrapping_add(one & mask)
    }
}

/// The size in bytes of a block, the unit in which MD5 processes a message.
pub(crate) const BLOCK_BYTES: usize = 64;

/// One block of a message.
pub(crate) type Block = [u8; BLOCK_BYTES];

/// The MD5 state of one message after some of its blocks: the words A, B, C and D of RFC 1321.
pub(crate) type Md5State = [u32; 4];

/// The MD5 state of a message before its first block.
pub(crate) const INITIAL: Md5State = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// The constants that MD5 adds in the 64 steps of a block, four per row.
pub(crate) type Constants = [[u32; 4]; 16];

/// Returns the constants of the 64 steps in a way that hides their values from the compiler.
///
/// If the compiler knew the values, it would add them last. This would put one more addition into
/// each step of the dependency chain, and take a quarter more time.
pub(crate) fn constants() -> &'static Constants {
    black_box(&CONSTANTS)
}

const CONSTANTS: Constants = [
    [0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee],
    [0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501],
    [0x6980_98d8, 0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be],
    [0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821],
    [0xf61e_2562, 0xc040_b340, 0x265e_5a51, 0xe9b6_c7aa],
    [0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8],
    [0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87, 0x455a_14ed],
    [0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a],
    [0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c],
    [0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70],
    [0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05],
    [0xd9d4_d039, 0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665],
    [0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039],
    [0x655b_59c3, 0x8f0c_cc92, 0xffef_f47d, 0x8584_5dd1],
    [0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1],
    [0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb, 0xeb86_d391],
];

/// One of the four round functions of MD5 (F, G, H and I of RFC 1321). `add` returns `sum` plus the
/// result of the function for the state words `b`, `c` and `d`.
trait Mix {
    fn add<W: Words>(sum: W, b: W, c: W, d: W) -> W;
}

#[derive(Debug)]
struct F;
#[derive(Debug)]
struct G;
#[derive(Debug)]
struct H;
#[derive(Debug)]
struct I;

impl Mix for F {
    #[inline(always)]
    fn add<W: Words>(sum: W, b: W, c: W, d: W) -> W {
        sum.plus(d.xor(b.and(c.xor(d))))
    }
}

impl Mix for G {
    #[inline(always)]
    fn add<W: Words>(sum: W, b: W, c: W, d: W) -> W {
        sum.plus_selected(d, b, c)
    }
}

impl Mix for H {
    #[inline(always)]
    fn add<W: Words>(sum: W, b: W, c: W, d: W) -> W {
        sum.plus(b.xor(c.xor(d)))
    }
}

impl Mix for I {
    #[inline(always)]
    fn add<W: Words>(sum: W, b: W, c: W, d: W) -> W {
        sum.plus(c.xor(b.or(d.not())))
    }
}

#[inline(always)]
fn step<M: Mix, W: Words, const BITS: u32>([a, b, c, d]: [W; 4], word: W, constant: u32) -> W {
    let known = a.plus(word.plus_constant(constant));
    M::add(known, b, c, d).rotate_left::<BITS>().plus(b)
}

/// Performs four of the 64 steps of a block, with the round function `M` and the rotations `S`,
/// `T`, `U` and `V` in bits. Returns the four state words. After four steps each word is again at
/// its own position in the state.
#[inline(always)]
fn four<M: Mix, W: Words, const S: u32, const T: u32, const U: u32, const V: u32>(
    [a, b, c, d]: [W; 4],
    words: [W; 4],
    constants: [u32; 4],
) -> [W; 4] {
    let a = step::<M, W, S>([a, b, c, d], words[0], constants[0]);
    let d = step::<M, W, T>([d, a, b, c], words[1], constants[1]);
    let c = step::<M, W, U>([c, d, a, b], words[2], constants[2]);
    let b = step::<M, W, V>([b, c, d, a], words[3], constants[3]);
    [a, b, c, d]
}

/// Returns the MD5 state after one more block. `w` has the sixteen words of the block, read as
/// little-endian numbers, and `k` the constants that `constants` returns.
#[inline(always)]
pub(crate) fn compress<W: Words>(state: [W; 4], w: &[W; 16], k: &Constants) -> [W; 4] {
    let s = state;
    let s = four::<F, W, 7, 12, 17, 22>(s, [w[0], w[1], w[2], w[3]], k[0]);
    let s = four::<F, W, 7, 12, 17, 22>(s, [w[4], w[5], w[6], w[7]], k[1]);
    let s = four::<F, W, 7, 12, 17, 22>(s, [w[8], w[9], w[10], w[11]], k[2]);
    let s = four::<F, W, 7, 12, 17, 22>(s, [w[12], w[13], w[14], w[15]], k[3]);
    let s = four::<G, W, 5, 9, 14, 20>(s, [w[1], w[6], w[11], w[0]], k[4]);
    let s = four::<G, W, 5, 9, 14, 20>(s, [w[5], w[10], w[15], w[4]], k[5]);
    let s = four::<G, W, 5, 9, 14, 20>(s, [w[9], w[14], w[3], w[8]], k[6]);
    let s = four::<G, W, 5, 9, 14, 20>(s, [w[13], w[2], w[7], w[12]], k[7]);
    let s = four::<H, W, 4, 11, 16, 23>(s, [w[5], w[8], w[11], w[14]], k[8]);
    let s = four::<H, W, 4, 11, 16, 23>(s, [w[1], w[4], w[7], w[10]], k[9]);
    let s = four::<H, W, 4, 11, 16, 23>(s, [w[13], w[0], w[3], w[6]], k[10]);
    let s = four::<H, W, 4, 11, 16, 23>(s, [w[9], w[12], w[15], w[2]], k[11]);
    let s = four::<I, W, 6, 10, 15, 21>(s, [w[0], w[7], w[14], w[5]], k[12]);
    let s = four::<I, W, 6, 10, 15, 21>(s, [w[12], w[3], w[10], w[1]], k[13]);
    let s = four::<I, W, 6, 10, 15, 21>(s, [w[8], w[15], w[6], w[13]], k[14]);
    let s = four::<I, W, 6, 10, 15, 21>(s, [w[4], w[11], w[2], w[9]], k[15]);
    [s[0].plus(state[0]), s[1].plus(state[1]), s[2].plus(state[2]), s[3].plus(state[3])]
}

/// Hashes the next complete blocks of one message in ordinary registers, and updates its MD5 state.
pub(crate) fn compress_run(state: &mut Md5State, run: &[Block]) {
    let constants = constants();
    for block in run {
        let (words, _) = block.as_chunks();
        let words = std::array::from_fn(
            #[inline(always)]
            |index| u32::from_le_bytes(words[index]),
        );
        *state = compress(*state, &words, constants);
    }
}

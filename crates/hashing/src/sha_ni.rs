//! SHA-256 with the processor's own instructions, four steps at a time.
//!
//! Each of them waits for the one before, so whoever takes the steps puts others between: those of
//! another message, or of an MD5.

use std::arch::x86_64::{
    __m128i, _mm_add_epi32, _mm_alignr_epi8, _mm_extract_epi32, _mm_set_epi8, _mm_set_epi32,
    _mm_set_epi64x, _mm_sha256msg1_epu32, _mm_sha256msg2_epu32, _mm_sha256rnds2_epu32,
    _mm_shuffle_epi8, _mm_shuffle_epi32,
};
use std::hint::black_box;

use crate::sha256::State;
use crate::vectors::Block;

/// The constants of SHA-256's steps, four in a row.
pub(crate) type Constants = [[i32; 4]; 16];

/// The constants, in a way that hides their values from the compiler: it would add what it knows
/// when it is too late.
pub(crate) fn constants() -> &'static Constants {
    black_box(&CONSTANTS)
}

const CONSTANTS: Constants = signed([
    [0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5],
    [0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5],
    [0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3],
    [0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174],
    [0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc],
    [0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da],
    [0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7],
    [0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967],
    [0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13],
    [0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85],
    [0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3],
    [0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070],
    [0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5],
    [0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3],
    [0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208],
    [0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2],
]);

const fn signed(words: [[u32; 4]; 16]) -> Constants {
    let mut signed = [[0; 4]; 16];
    let mut place = 0;
    while place < 64 {
        signed[place / 4][place % 4] = words[place / 4][place % 4].cast_signed();
        place += 1;
    }
    signed
}

/// The words of state in the order in which the instructions want them.
#[derive(Clone, Copy)]
pub(crate) struct Chain {
    abef: __m128i,
    cdgh: __m128i,
}

/// A chain within a block, and the last sixteen words of its schedule.
#[derive(Clone, Copy)]
pub(crate) struct Stream {
    chain: Chain,
    words: [__m128i; 4],
}

impl Chain {
    #[inline]
    #[target_feature(enable = "sha,ssse3,sse4.1")]
    pub(crate) fn load(state: &State) -> Chain {
        let word = |place: usize| state[place].cast_signed();
        Chain {
            abef: _mm_set_epi32(word(0), word(1), word(4), word(5)),
            cdgh: _mm_set_epi32(word(2), word(3), word(6), word(7)),
        }
    }

    /// Begins with the next block.
    #[inline]
    #[target_feature(enable = "sha,ssse3,sse4.1")]
    pub(crate) fn begin(self, block: &Block) -> Stream {
        let big_endian = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
        let halves = block.as_chunks().0;
        let half = |place: usize| i64::from_le_bytes(halves[place]);
        let words = [
            _mm_shuffle_epi8(_mm_set_epi64x(half(1), half(0)), big_endian),
            _mm_shuffle_epi8(_mm_set_epi64x(half(3), half(2)), big_endian),
            _mm_shuffle_epi8(_mm_set_epi64x(half(5), half(4)), big_endian),
            _mm_shuffle_epi8(_mm_set_epi64x(half(7), half(6)), big_endian),
        ];
        Stream { chain: self, words }
    }

    /// The chain behind a block of which all steps were taken.
    #[inline]
    #[target_feature(enable = "sha,ssse3,sse4.1")]
    pub(crate) fn behind(self, stream: &Stream) -> Chain {
        Chain {
            abef: _mm_add_epi32(self.abef, stream.chain.abef),
            cdgh: _mm_add_epi32(self.cdgh, stream.chain.cdgh),
        }
    }

    #[inline]
    #[target_feature(enable = "sha,ssse3,sse4.1")]
    pub(crate) fn state(self) -> State {
        let Chain { abef, cdgh } = self;
        [
            _mm_extract_epi32::<3>(abef),
            _mm_extract_epi32::<2>(abef),
            _mm_extract_epi32::<3>(cdgh),
            _mm_extract_epi32::<2>(cdgh),
            _mm_extract_epi32::<1>(abef),
            _mm_extract_epi32::<0>(abef),
            _mm_extract_epi32::<1>(cdgh),
            _mm_extract_epi32::<0>(cdgh),
        ]
        .map(i32::cast_unsigned)
    }
}

impl Stream {
    /// Takes four steps, the `GROUP`th of sixteen.
    #[inline]
    #[target_feature(enable = "sha,ssse3,sse4.1")]
    pub(crate) fn steps<const GROUP: usize>(&mut self, constants: &Constants) {
        let [first, second, third, fourth] =
            std::array::from_fn(|place| self.words[(GROUP + place) % 4]);
        let mut words = first;
        if GROUP >= 4 {
            let sum = _mm_add_epi32(
                _mm_sha256msg1_epu32(first, second),
                _mm_alignr_epi8::<4>(fourth, third),
            );
            words = _mm_sha256msg2_epu32(sum, fourth);
            self.words[GROUP % 4] = words;
        }
        let [one, two, three, four] = constants[GROUP];
        let sum = _mm_add_epi32(words, _mm_set_epi32(four, three, two, one));
        let Chain { abef, cdgh } = &mut self.chain;
        *cdgh = _mm_sha256rnds2_epu32(*cdgh, *abef, sum);
        *abef = _mm_sha256rnds2_epu32(*abef, *cdgh, _mm_shuffle_epi32::<0x0e>(sum));
    }
}

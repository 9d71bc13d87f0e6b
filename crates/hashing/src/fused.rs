//! MD5 and SHA-256 of four messages in one stream of instructions.
//!
//! Either digest is a chain in which each step waits for the one before. Four MD5s abreast are one
//! such chain, and the processor idles most of the time; four SHA-256s in between fill it. Both take
//! sixteen steps of four for a block, so the steps alternate.

use std::arch::x86_64::{
    __m128i, _mm_add_epi32, _mm_alignr_epi8, _mm_extract_epi32, _mm_set_epi8, _mm_set_epi32,
    _mm_sha256msg1_epu32, _mm_sha256msg2_epu32, _mm_sha256rnds2_epu32, _mm_shuffle_epi8,
    _mm_shuffle_epi32,
};
use std::array::from_fn;
use std::hint::black_box;

use fearless_simd::prelude::*;
use fearless_simd::{u8x16, u32x4};

use crate::compress::{F, G, H, I, constants, four};
use crate::vectors::Block;
use crate::{md5, sha256};

/// Messages that are hashed at once.
pub(crate) const FUSED: usize = 4;

/// The constants of SHA-256's steps, four in a row.
const SHA256_CONSTANTS: [[u32; 4]; 16] = [
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
];

/// SHA-256 of one message within a block: its words of state in the order in which the processor's
/// instructions want them, and the last sixteen words of its schedule.
struct Stream {
    abef: __m128i,
    cdgh: __m128i,
    words: [__m128i; 4],
}

/// Four steps of each stream, the `$group`th of sixteen.
macro_rules! sha256_steps {
    ($token:ident, $constants:ident, $group:literal, $($stream:ident),*) => {
        let constant: __m128i = u32x4::from_slice($token, &$constants[$group]).into();
        $(
            if $group >= 4 {
                let [first, second, third, fourth] = [
                    $stream.words[$group % 4],
                    $stream.words[($group + 1) % 4],
                    $stream.words[($group + 2) % 4],
                    $stream.words[($group + 3) % 4],
                ];
                let sum = _mm_add_epi32(
                    _mm_sha256msg1_epu32(first, second),
                    _mm_alignr_epi8::<4>(fourth, third),
                );
                $stream.words[$group % 4] = _mm_sha256msg2_epu32(sum, fourth);
            }
            let sum = _mm_add_epi32($stream.words[$group % 4], constant);
            $stream.cdgh = _mm_sha256rnds2_epu32($stream.cdgh, $stream.abef, sum);
            let sum = _mm_shuffle_epi32::<0x0e>(sum);
            $stream.abef = _mm_sha256rnds2_epu32($stream.abef, $stream.cdgh, sum);
        )*
    };
}

fearless_simd::kernel!(
    #[expect(clippy::needless_range_loop, reason = "a block is a place in each of the runs")]
    /// Takes as many blocks of each message as `runs` has of the shortest.
    pub(crate) fn fused(
        avx512: Avx512,
        md5s: &mut [md5::State; FUSED],
        sha256s: &mut [sha256::State; FUSED],
        runs: &[&[Block]; FUSED],
    ) {
        let (k, sha256_k) = (constants(), black_box(&SHA256_CONSTANTS));
        let blocks = runs.iter().map(|run| run.len()).min().unwrap_or_default();
        let runs = runs.map(|run| &run[..blocks]);
        let big_endian = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
        let mut s: [u32x4<_>; 4] =
            from_fn(|word| u32x4::from_fn(avx512, |column| md5s[column][word]));
        let mut chains: [[__m128i; 2]; FUSED] = sha256s.map(|state| {
            let [a, b, c, d, e, f, g, h] = state.map(u32::cast_signed);
            [_mm_set_epi32(a, b, e, f), _mm_set_epi32(c, d, g, h)]
        });
        for block in 0..blocks {
            let load = |column: usize, part: usize| -> u8x16<_> {
                u8x16::from_slice(avx512, &runs[column][block].as_chunks::<16>().0[part])
            };
            // The four words of each part, turned into vectors of one word of each message.
            let mut w = [u32x4::splat(avx512, 0); 16];
            for (part, words) in w.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                let rows: [u32x4<_>; 4] = from_fn(|column| load(column, part).bitcast());
                let even = [rows[0].zip_low(rows[2]), rows[1].zip_low(rows[3])];
                let odd = [rows[0].zip_high(rows[2]), rows[1].zip_high(rows[3])];
                *words = [
                    even[0].zip_low(even[1]),
                    even[0].zip_high(even[1]),
                    odd[0].zip_low(odd[1]),
                    odd[0].zip_high(odd[1]),
                ];
            }
            let [mut one, mut two, mut three, mut last] = from_fn(|column| Stream {
                abef: chains[column][0],
                cdgh: chains[column][1],
                words: from_fn(|part| _mm_shuffle_epi8(load(column, part).into(), big_endian)),
            });
            let before = s;
            s = four::<F, _, 7, 12, 17, 22>(s, [w[0], w[1], w[2], w[3]], k[0]);
            sha256_steps!(avx512, sha256_k, 0, one, two, three, last);
            s = four::<F, _, 7, 12, 17, 22>(s, [w[4], w[5], w[6], w[7]], k[1]);
            sha256_steps!(avx512, sha256_k, 1, one, two, three, last);
            s = four::<F, _, 7, 12, 17, 22>(s, [w[8], w[9], w[10], w[11]], k[2]);
            sha256_steps!(avx512, sha256_k, 2, one, two, three, last);
            s = four::<F, _, 7, 12, 17, 22>(s, [w[12], w[13], w[14], w[15]], k[3]);
            sha256_steps!(avx512, sha256_k, 3, one, two, three, last);
            s = four::<G, _, 5, 9, 14, 20>(s, [w[1], w[6], w[11], w[0]], k[4]);
            sha256_steps!(avx512, sha256_k, 4, one, two, three, last);
            s = four::<G, _, 5, 9, 14, 20>(s, [w[5], w[10], w[15], w[4]], k[5]);
            sha256_steps!(avx512, sha256_k, 5, one, two, three, last);
            s = four::<G, _, 5, 9, 14, 20>(s, [w[9], w[14], w[3], w[8]], k[6]);
            sha256_steps!(avx512, sha256_k, 6, one, two, three, last);
            s = four::<G, _, 5, 9, 14, 20>(s, [w[13], w[2], w[7], w[12]], k[7]);
            sha256_steps!(avx512, sha256_k, 7, one, two, three, last);
            s = four::<H, _, 4, 11, 16, 23>(s, [w[5], w[8], w[11], w[14]], k[8]);
            sha256_steps!(avx512, sha256_k, 8, one, two, three, last);
            s = four::<H, _, 4, 11, 16, 23>(s, [w[1], w[4], w[7], w[10]], k[9]);
            sha256_steps!(avx512, sha256_k, 9, one, two, three, last);
            s = four::<H, _, 4, 11, 16, 23>(s, [w[13], w[0], w[3], w[6]], k[10]);
            sha256_steps!(avx512, sha256_k, 10, one, two, three, last);
            s = four::<H, _, 4, 11, 16, 23>(s, [w[9], w[12], w[15], w[2]], k[11]);
            sha256_steps!(avx512, sha256_k, 11, one, two, three, last);
            s = four::<I, _, 6, 10, 15, 21>(s, [w[0], w[7], w[14], w[5]], k[12]);
            sha256_steps!(avx512, sha256_k, 12, one, two, three, last);
            s = four::<I, _, 6, 10, 15, 21>(s, [w[12], w[3], w[10], w[1]], k[13]);
            sha256_steps!(avx512, sha256_k, 13, one, two, three, last);
            s = four::<I, _, 6, 10, 15, 21>(s, [w[8], w[15], w[6], w[13]], k[14]);
            sha256_steps!(avx512, sha256_k, 14, one, two, three, last);
            s = four::<I, _, 6, 10, 15, 21>(s, [w[4], w[11], w[2], w[9]], k[15]);
            sha256_steps!(avx512, sha256_k, 15, one, two, three, last);
            s = from_fn(|word| s[word] + before[word]);
            for (chain, stream) in chains.iter_mut().zip([one, two, three, last]) {
                chain[0] = _mm_add_epi32(chain[0], stream.abef);
                chain[1] = _mm_add_epi32(chain[1], stream.cdgh);
            }
        }
        for (word, vector) in s.iter().enumerate() {
            for (state, value) in md5s.iter_mut().zip(vector.as_slice()) {
                state[word] = *value;
            }
        }
        for (state, [abef, cdgh]) in sha256s.iter_mut().zip(chains) {
            *state = [
                _mm_extract_epi32::<3>(abef),
                _mm_extract_epi32::<2>(abef),
                _mm_extract_epi32::<3>(cdgh),
                _mm_extract_epi32::<2>(cdgh),
                _mm_extract_epi32::<1>(abef),
                _mm_extract_epi32::<0>(abef),
                _mm_extract_epi32::<1>(cdgh),
                _mm_extract_epi32::<0>(cdgh),
            ]
            .map(i32::cast_unsigned);
        }
    }
);

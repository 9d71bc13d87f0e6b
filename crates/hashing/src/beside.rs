//! MD5 and SHA-256 of a few messages in one stream of instructions.
//!
//! Either digest is a chain in which each step waits for the one before, and both take sixteen times
//! four steps for a block. So the steps alternate, and each fills the pauses of the others. MD5's are
//! taken in ordinary registers, for one message after the other, or in vectors, each message in a
//! column of its own; SHA-256's by instructions that do nothing else.
//!
//! The crate that finds out what vectors a processor has does not ask for those instructions unless
//! it has AVX-512, too. So they are asked for here: the one place of unsafe code.

use std::array::from_fn;

use fearless_simd::prelude::*;
use fearless_simd::{Avx2, Avx512, Level, u8x16, u32x4};

use crate::abreast::Place;
use crate::compress::{F, G, H, I, Words as _, constants, four};
use crate::sha_ni::{self, Chain};
use crate::vectors::Block;
use crate::woven::{Each, WOVEN_MAX};
use crate::{md5, sha256};

/// Messages that are hashed at once in vectors.
const COLUMNS: usize = 4;

/// Computes both digests of messages, a few at a time, if the processor has what it takes; false if
/// not, and then nothing was taken.
///
/// Takes as many blocks of each message as `runs` has of the shortest. There are as many states as
/// runs. A message that has no state of SHA-256 is given that of another.
pub(crate) fn together(
    level: Level,
    place: Place,
    md5s: &mut [md5::State],
    sha256s: &mut [Option<sha256::State>],
    runs: &[&[Block]],
) -> bool {
    let Some(able) = Able::new(level) else { return false };
    let most = match place {
        Place::Registers => WOVEN_MAX,
        Place::Vectors => COLUMNS,
    };
    // Evenly, so that none is left to go alone.
    let at_once = runs.len().div_ceil(runs.len().div_ceil(most).max(1)).max(1);
    let blocks = runs.iter().map(|run| run.len()).min().unwrap_or_default();
    let states = md5s.chunks_mut(at_once).zip(sha256s.chunks_mut(at_once));
    for ((md5s, sha256s), runs) in states.zip(runs.chunks(at_once)) {
        match (place, runs.len()) {
            (Place::Registers, 1) => {
                each(md5s, sha256s, runs, |few| able.in_registers::<1>(few, blocks));
            }
            (Place::Registers, 2) => {
                each(md5s, sha256s, runs, |few| able.in_registers::<2>(few, blocks));
            }
            (Place::Registers, _) => {
                each(md5s, sha256s, runs, |few| able.in_registers::<WOVEN_MAX>(few, blocks));
            }
            (Place::Vectors, _) => each(md5s, sha256s, runs, |few| able.in_vectors(few, blocks)),
        }
    }
    true
}

/// A few messages, and their states.
struct Few<'a, const MESSAGES: usize> {
    md5s: [md5::State; MESSAGES],
    sha256s: [sha256::State; MESSAGES],
    runs: [&'a [Block]; MESSAGES],
}

/// Brings messages into arrays, and their states back. Places that nobody needs are filled with one of
/// them once more.
fn each<'a, const MESSAGES: usize>(
    md5s: &mut [md5::State],
    sha256s: &mut [Option<sha256::State>],
    runs: &[&'a [Block]],
    take: impl FnOnce(&mut Few<'a, MESSAGES>),
) {
    let first = runs.first().copied().unwrap_or_default();
    let mut few = Few {
        md5s: from_fn(|place| md5s.get(place).copied().unwrap_or_default()),
        sha256s: from_fn(|place| sha256s.get(place).copied().flatten().unwrap_or_default()),
        runs: from_fn(|place| runs.get(place).copied().unwrap_or(first)),
    };
    take(&mut few);
    for (state, after) in md5s.iter_mut().zip(few.md5s) {
        *state = after;
    }
    for (state, after) in sha256s.iter_mut().zip(few.sha256s) {
        *state = Some(after);
    }
}

/// Tells that the processor has AVX2 and instructions for SHA-256, and maybe AVX-512.
#[derive(Clone, Copy)]
struct Able {
    avx2: Avx2,
    avx512: Option<Avx512>,
}

impl Able {
    fn new(level: Level) -> Option<Able> {
        let avx2 = level.as_avx2().filter(|_| is_x86_feature_detected!("sha"))?;
        Some(Able { avx2, avx512: level.as_avx512() })
    }

    fn in_registers<const MESSAGES: usize>(self, few: &mut Few<'_, MESSAGES>, blocks: usize) {
        let Able { avx2: _, avx512: _ } = self;
        // SAFETY: `new` has asked for SHA's instructions, and whoever has AVX2 has AVX and BMI1: its
        // token stands for all that `x86-64-v3` has.
        #[expect(unsafe_code, reason = "what it is compiled for was asked for")]
        unsafe {
            in_registers(few, blocks);
        }
    }

    fn in_vectors(self, few: &mut Few<'_, COLUMNS>, blocks: usize) {
        if let Some(avx512) = self.avx512 {
            return in_avx512(avx512, few, blocks);
        }
        // SAFETY: `new` has asked for SHA's instructions, and AVX2's token stands for all else.
        #[expect(unsafe_code, reason = "what it is compiled for was asked for")]
        unsafe {
            in_avx2(self.avx2, few, blocks);
        }
    }
}

/// Takes all steps of a block: of MD5 with the state `$s` and the block's words `$w`, of SHA-256 with
/// `$streams`.
macro_rules! alternate {
    ($s:ident, $w:ident, $k:ident, $streams:ident, $sha256_k:ident) => {
        alternate!(@F 7, 12, 17, 22; $s, $w, $k, $streams, $sha256_k; 0: 0 1 2 3);
        alternate!(@F 7, 12, 17, 22; $s, $w, $k, $streams, $sha256_k; 1: 4 5 6 7);
        alternate!(@F 7, 12, 17, 22; $s, $w, $k, $streams, $sha256_k; 2: 8 9 10 11);
        alternate!(@F 7, 12, 17, 22; $s, $w, $k, $streams, $sha256_k; 3: 12 13 14 15);
        alternate!(@G 5, 9, 14, 20; $s, $w, $k, $streams, $sha256_k; 4: 1 6 11 0);
        alternate!(@G 5, 9, 14, 20; $s, $w, $k, $streams, $sha256_k; 5: 5 10 15 4);
        alternate!(@G 5, 9, 14, 20; $s, $w, $k, $streams, $sha256_k; 6: 9 14 3 8);
        alternate!(@G 5, 9, 14, 20; $s, $w, $k, $streams, $sha256_k; 7: 13 2 7 12);
        alternate!(@H 4, 11, 16, 23; $s, $w, $k, $streams, $sha256_k; 8: 5 8 11 14);
        alternate!(@H 4, 11, 16, 23; $s, $w, $k, $streams, $sha256_k; 9: 1 4 7 10);
        alternate!(@H 4, 11, 16, 23; $s, $w, $k, $streams, $sha256_k; 10: 13 0 3 6);
        alternate!(@H 4, 11, 16, 23; $s, $w, $k, $streams, $sha256_k; 11: 9 12 15 2);
        alternate!(@I 6, 10, 15, 21; $s, $w, $k, $streams, $sha256_k; 12: 0 7 14 5);
        alternate!(@I 6, 10, 15, 21; $s, $w, $k, $streams, $sha256_k; 13: 12 3 10 1);
        alternate!(@I 6, 10, 15, 21; $s, $w, $k, $streams, $sha256_k; 14: 8 15 6 13);
        alternate!(@I 6, 10, 15, 21; $s, $w, $k, $streams, $sha256_k; 15: 4 11 2 9);
    };
    (@$mix:ident $r0:literal, $r1:literal, $r2:literal, $r3:literal;
     $s:ident, $w:ident, $k:ident, $streams:ident, $sha256_k:ident;
     $group:literal: $w0:literal $w1:literal $w2:literal $w3:literal) => {
        $s = four::<$mix, _, $r0, $r1, $r2, $r3>(
            $s,
            [$w[$w0], $w[$w1], $w[$w2], $w[$w3]],
            $k[$group],
        );
        for stream in &mut $streams {
            stream.steps::<$group>($sha256_k);
        }
    };
}

/// Takes so many blocks of each message, with MD5 in ordinary registers.
#[target_feature(enable = "sha,avx,bmi1")]
fn in_registers<const MESSAGES: usize>(few: &mut Few<'_, MESSAGES>, blocks: usize) {
    let (k, sha256_k) = (constants(), sha_ni::constants());
    let runs = few.runs.map(|run| &run[..blocks]);
    let mut s: [Each<MESSAGES>; 4] = from_fn(|word| Each(few.md5s.map(|state| state[word])));
    let mut chains: [Chain; MESSAGES] = from_fn(|message| Chain::load(&few.sha256s[message]));
    for block in 0..blocks {
        let w: [_; 16] = from_fn(
            #[inline(always)]
            |word| Each::of(runs.map(|run| &run[block]), word),
        );
        let before = s;
        let mut streams: [_; MESSAGES] =
            from_fn(|message| chains[message].begin(&runs[message][block]));
        alternate!(s, w, k, streams, sha256_k);
        s = from_fn(|word| s[word].plus(before[word]));
        for (chain, stream) in chains.iter_mut().zip(&streams) {
            *chain = chain.behind(stream);
        }
    }
    few.md5s = from_fn(|message| s.map(|word| word.0[message]));
    few.sha256s = chains.map(|chain| chain.state());
}

/// Takes so many blocks of each message, with MD5 in vectors: the body of a function for each kind.
macro_rules! in_columns {
    ($simd:ident, $few:ident, $blocks:ident) => {
        let (k, sha256_k) = (constants(), sha_ni::constants());
        let runs = $few.runs.map(|run| &run[..$blocks]);
        let mut s: [u32x4<_>; 4] =
            from_fn(|word| u32x4::from_fn($simd, |column| $few.md5s[column][word]));
        let mut chains: [Chain; COLUMNS] = from_fn(|column| Chain::load(&$few.sha256s[column]));
        for block in 0..$blocks {
            // The four words of each part, turned into vectors of one word of each message.
            let mut w = [u32x4::splat($simd, 0); 16];
            for (part, words) in w.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                let rows: [u32x4<_>; 4] = from_fn(|column| {
                    let row = &runs[column][block].as_chunks::<16>().0[part];
                    u8x16::from_slice($simd, row).bitcast()
                });
                let even = [rows[0].zip_low(rows[2]), rows[1].zip_low(rows[3])];
                let odd = [rows[0].zip_high(rows[2]), rows[1].zip_high(rows[3])];
                *words = [
                    even[0].zip_low(even[1]),
                    even[0].zip_high(even[1]),
                    odd[0].zip_low(odd[1]),
                    odd[0].zip_high(odd[1]),
                ];
            }
            let before = s;
            let mut streams: [_; COLUMNS] =
                from_fn(|column| chains[column].begin(&runs[column][block]));
            alternate!(s, w, k, streams, sha256_k);
            s = from_fn(|word| s[word] + before[word]);
            for (chain, stream) in chains.iter_mut().zip(&streams) {
                *chain = chain.behind(stream);
            }
        }
        for (word, vector) in s.iter().enumerate() {
            for (state, value) in $few.md5s.iter_mut().zip(vector.as_slice()) {
                state[word] = *value;
            }
        }
        $few.sha256s = chains.map(|chain| chain.state());
    };
}

fearless_simd::kernel!(
    fn in_avx512(avx512: Avx512, few: &mut Few<'_, COLUMNS>, blocks: usize) {
        in_columns!(avx512, few, blocks);
    }
);

/// What AVX2's token stands for, and `sha`.
#[target_feature(enable = "sha,avx2,bmi1,bmi2,cmpxchg16b,f16c,fma,fxsr,lzcnt,movbe,popcnt,xsave")]
fn in_avx2(avx2: Avx2, few: &mut Few<'_, COLUMNS>, blocks: usize) {
    in_columns!(avx2, few, blocks);
}

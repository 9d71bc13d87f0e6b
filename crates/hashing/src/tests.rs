use bytes::Bytes;
use fearless_simd::Level;
use md5::Digest as _;
use proptest::prelude::*;

use crate::abreast::{Place, Ways, together};
use crate::columns::{Column, step};
use crate::compress::INITIAL;
use crate::md5::{Md5, State};
use crate::sha256::{self, Sha256, in_turn};
use crate::vectors::{BLOCK_BYTES, Block, COLUMNS_MAX, in_vectors};
use crate::woven::{WOVEN_MAX, woven};
use crate::{Job, Piece, Sums};

/// What the `md-5` crate says.
pub(crate) fn reference(message: &[u8]) -> [u8; 16] {
    md5::Md5::digest(message).into()
}

/// What the `sha2` crate says.
fn reference_sha256(message: &[u8]) -> [u8; 32] {
    sha2::Sha256::digest(message).into()
}

/// Bytes that differ from place to place and from one message to the next.
pub(crate) fn message(number: usize, bytes: usize) -> Vec<u8> {
    let mut state = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..bytes).map(next).collect()
}

/// All kinds of vectors that this processor has.
fn levels() -> Vec<Level> {
    let best = Level::new();
    let mut levels = vec![best, Level::baseline()];
    #[cfg(target_arch = "x86_64")]
    levels.extend(best.as_avx2().map(Level::Avx2));
    levels
}

/// All kinds of vectors, with and without what may be quicker for a few messages.
fn all_ways() -> Vec<Ways> {
    let ways = |level| {
        let both = [None, Some(Place::Registers), Some(Place::Vectors)];
        both.map(|place| Ways::given(level, place.is_some(), place))
    };
    levels().into_iter().flat_map(ways).collect()
}

fn cut(message: &[u8], cuts: &[usize]) -> Vec<Piece> {
    let mut rest = Bytes::copy_from_slice(message);
    let mut pieces: Vec<Piece> =
        cuts.iter().map(|bytes| rest.split_to((*bytes).min(rest.len())).into()).collect();
    pieces.push(rest.into());
    pieces
}

#[test]
fn known_answers() {
    for (text, sum) in [
        ("", "d41d8cd98f00b204e9800998ecf8427e"),
        ("a", "0cc175b9c0f1b6a831c399e269772661"),
        ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
        (
            "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
            "57edf4a22be3c955ac49da2e2107b67a",
        ),
    ] {
        let mut md5 = Md5::new();
        md5.update(text.as_bytes());
        let expected = u128::from_str_radix(sum, 16).unwrap().to_be_bytes();
        assert_eq!(md5.finish(), expected, "{text:?}");
    }
}

#[test]
fn every_length_is_padded_as_it_should() {
    let message = message(0, 260);
    for bytes in 0..=message.len() {
        let mut md5 = Md5::new();
        md5.update(&message[..bytes]);
        assert_eq!(md5.finish(), reference(&message[..bytes]), "{bytes} bytes");
    }
}

/// Hashes several messages in one way, and each by itself with the reference.
fn compare(columns: usize, name: &str, way: impl FnOnce(&mut [State], &[&[Block]])) {
    const BLOCKS: usize = 9;
    let messages: Vec<Vec<u8>> =
        (0..columns).map(|number| message(number, BLOCKS * BLOCK_BYTES)).collect();
    let runs: Vec<&[Block]> = messages.iter().map(|message| message.as_chunks().0).collect();
    let mut states = vec![INITIAL; columns];
    way(&mut states, &runs);
    for (state, message) in states.into_iter().zip(&messages) {
        let mut md5 = Md5::new();
        md5.0.skip(BLOCKS, state);
        assert_eq!(md5.finish(), reference(message), "{name}, {columns} columns");
    }
}

#[test]
fn every_number_of_columns_on_every_kind_of_vectors_hashes_each_message_alike() {
    for level in levels() {
        for columns in 1..=COLUMNS_MAX {
            let name = format!("{level:?}");
            compare(columns, &name, |states, runs| in_vectors(level, states, runs));
        }
    }
}

#[test]
fn ordinary_registers_hash_each_of_a_few_messages_alike() {
    for columns in 1..=WOVEN_MAX {
        compare(columns, "woven", woven);
    }
}

#[test]
fn whichever_way_is_quicker_hashes_each_message_alike() {
    let ways = Ways::timed();
    for columns in 1..=COLUMNS_MAX {
        compare(columns, "timed", |states, runs| ways.md5(states, runs));
    }
}

/// Computes both digests of several messages in one way, and compares them with the references.
fn compare_both(
    columns: usize,
    name: &str,
    way: impl FnOnce(&mut [State], &mut [Option<sha256::State>], &[&[Block]]),
) {
    const BLOCKS: usize = 9;
    let messages: Vec<Vec<u8>> =
        (0..columns).map(|number| message(number, BLOCKS * BLOCK_BYTES)).collect();
    let runs: Vec<&[Block]> = messages.iter().map(|message| message.as_chunks().0).collect();
    let (mut md5s, mut sha256s) = (vec![INITIAL; columns], vec![Some(sha256::INITIAL); columns]);
    way(&mut md5s, &mut sha256s, &runs);
    for ((md5_state, sha256_state), message) in md5s.into_iter().zip(sha256s).zip(&messages) {
        let (mut md5, mut sha256) = (Md5::new(), Sha256::new());
        md5.0.skip(BLOCKS, md5_state);
        sha256.0.skip(BLOCKS, sha256_state.unwrap());
        assert_eq!(md5.finish(), reference(message), "MD5, {name}, {columns} columns");
        assert_eq!(sha256.finish(), reference_sha256(message), "{name}, {columns} columns");
    }
}

#[test]
fn both_digests_in_one_stream_are_those_of_each_message() {
    for level in levels() {
        for (place, columns) in [Place::Registers, Place::Vectors]
            .into_iter()
            .flat_map(|place| (1..=COLUMNS_MAX).map(move |columns| (place, columns)))
        {
            compare_both(columns, &format!("{level:?}, {place:?}"), |md5s, sha256s, runs| {
                if !together(level, place, md5s, sha256s, runs) {
                    #[cfg(target_arch = "x86_64")]
                    assert!(
                        level.as_avx2().is_none() || !is_x86_feature_detected!("sha"),
                        "it can where there are AVX2 and instructions for SHA-256"
                    );
                    in_vectors(level, md5s, runs);
                    in_turn(sha256s, runs);
                }
            });
        }
    }
}

#[test]
fn whichever_way_is_quicker_computes_both_digests_of_each_message() {
    for ways in all_ways().into_iter().chain([Ways::timed()]) {
        for columns in 1..=COLUMNS_MAX {
            compare_both(columns, &format!("{ways:?}"), |md5s, sha256s, runs| {
                ways.both(md5s, sha256s, runs);
            });
        }
    }
}

#[test]
fn a_message_without_sha256_gets_none_beside_others() {
    let messages = [message(1, 5 * BLOCK_BYTES), message(2, 5 * BLOCK_BYTES)];
    let runs: Vec<&[Block]> = messages.iter().map(|message| message.as_chunks().0).collect();
    let (mut md5s, mut sha256s) = ([INITIAL; 2], [None, Some(sha256::INITIAL)]);
    Ways::timed().both(&mut md5s, &mut sha256s, &runs);
    assert_eq!(sha256s[0], None);
    let mut sha256 = Sha256::new();
    sha256.0.skip(5, sha256s[1].unwrap());
    assert_eq!(sha256.finish(), reference_sha256(&messages[1]));
}

#[test]
fn every_length_of_a_sha256_is_padded_as_it_should() {
    let message = message(0, 260);
    for bytes in 0..=message.len() {
        for cut in [0, bytes / 3, bytes] {
            let mut sha256 = Sha256::new();
            sha256.0.update(&message[..cut]);
            sha256.0.update(&message[cut..bytes]);
            assert_eq!(sha256.finish(), reference_sha256(&message[..bytes]), "{bytes}, {cut}");
        }
    }
}

#[test]
fn columns_take_as_many_blocks_as_the_shortest_has() {
    let messages = [message(1, 5 * BLOCK_BYTES), message(2, 3 * BLOCK_BYTES)];
    let runs: Vec<&[Block]> = messages.iter().map(|message| message.as_chunks().0).collect();
    for level in [None, Some(Level::new())] {
        let mut states: Vec<State> = vec![INITIAL; 2];
        match level {
            None => woven(&mut states, &runs),
            Some(level) => in_vectors(level, &mut states, &runs),
        }
        for (state, message) in states.into_iter().zip(&messages) {
            let mut md5 = Md5::new();
            md5.0.skip(3, state);
            assert_eq!(md5.finish(), reference(&message[..3 * BLOCK_BYTES]));
        }
    }
}

#[test]
fn more_jobs_than_columns_are_done_in_their_order() {
    let messages: Vec<Vec<u8>> =
        (0..3 * COLUMNS_MAX).map(|number| message(number, 50_000 - 997 * number)).collect();
    let job = |message: &Vec<u8>| Job { sums: Sums::md5(), pieces: cut(message, &[5_000, 64, 1]) };
    let sums = Job::run_all(Ways::timed(), messages.iter().map(job).collect());
    let sums: Vec<_> = sums.into_iter().map(Sums::finish).collect();
    let expected: Vec<_> = messages.iter().map(|message| (reference(message), None)).collect();
    assert_eq!(sums, expected);
}

proptest! {
    #[test]
    fn however_a_message_is_cut_its_sum_is_the_same(
        bytes in 0_usize..1_000,
        cuts in prop::collection::vec(0_usize..200, 0..12),
    ) {
        let message = message(3, bytes);
        let mut md5 = Md5::new();
        for piece in cut(&message, &cuts) {
            md5.update(&piece.bytes);
        }
        prop_assert_eq!(md5.finish(), reference(&message));
    }

    /// Each job is one of a message's several, has pieces of any length, and joins others that are
    /// under way. Some have no SHA-256, some one, and some one for each of their parts.
    #[test]
    fn jobs_that_come_and_go_beside_others_take_what_each_alone_would(
        jobs in prop::collection::vec(
            (0_usize..400, prop::collection::vec((0_usize..3_000, any::<bool>()), 0..5), 0_usize..4,
             any::<bool>(), any::<bool>()),
            1..40,
        ),
        width in 1_usize..=COLUMNS_MAX,
        ways in prop::sample::select(all_ways()),
    ) {
        let mut columns: Vec<Column<(usize, Expected)>> = Vec::new();
        let mut sums = Vec::new();
        let mut coming = jobs.iter().enumerate();
        loop {
            let mut steps = 1;
            while columns.len() < width
                && let Some((number, (before, cuts, pause, sha256, whole_blocks))) = coming.next()
            {
                let before = if *whole_blocks { before * BLOCK_BYTES } else { *before };
                let cuts = cuts.iter().map(|(bytes, ends)| {
                    (if *whole_blocks { bytes / BLOCK_BYTES * BLOCK_BYTES } else { *bytes }, *ends)
                });
                let (job, expected) = expect(number, before, &cuts.collect::<Vec<_>>(), *sha256);
                columns.push(Column::new(job, (number, expected)));
                steps = *pause;
                if steps > 0 {
                    break;
                }
            }
            for _ in 0..steps.max(1) {
                let done = columns.extract_if(.., |column| column.is_done());
                sums.extend(done.map(Column::into_sums));
                step(ways, &mut columns);
            }
            if columns.is_empty() && coming.len() == 0 {
                break;
            }
        }
        prop_assert_eq!(sums.len(), jobs.len());
        for (mut sums, (number, (parts, whole))) in sums {
            prop_assert_eq!(sums.ended_parts(), parts, "job {}", number);
            prop_assert_eq!(sums.finish(), whole, "job {}", number);
        }
    }
}

/// The SHA-256s of a job's parts, and the sums at its end.
type Expected = (Vec<[u8; 32]>, ([u8; 16], Option<[u8; 32]>));

/// A job behind `before` bytes, cut into pieces some of which end a part, and what should come of it.
fn expect(number: usize, before: usize, cuts: &[(usize, bool)], sha256: bool) -> (Job, Expected) {
    let whole = message(number, before + cuts.iter().map(|cut| cut.0).sum::<usize>());
    let mut sums = if sha256 { Sums::md5_and_sha256() } else { Sums::md5() };
    sums.update(&whole[..before]);
    let (mut from, mut at, mut parts, mut pieces) = (0, before, Vec::new(), Vec::new());
    for (bytes, ends_part) in cuts {
        let bytes = Bytes::copy_from_slice(&whole[at..at + bytes]);
        at += bytes.len();
        pieces.push(Piece { bytes, ends_part: *ends_part });
        if *ends_part {
            parts.extend(sha256.then(|| reference_sha256(&whole[from..at])));
            from = at;
        }
    }
    let rest = sha256.then(|| reference_sha256(&whole[from..]));
    (Job { sums, pieces }, (parts, (reference(&whole), rest)))
}

use bytes::Bytes;
use fearless_simd::Level;
use md5::Digest as _;
use proptest::prelude::*;

use crate::Job;
use crate::compress::{BLOCK_BYTES, Block, INITIAL, Md5State};
use crate::job::{Column, step};
use crate::md5::Md5;
use crate::vectors::{COLUMNS_MAX, in_vectors};

/// Returns the MD5 that the `md-5` crate computes.
pub(crate) fn reference(message: &[u8]) -> [u8; 16] {
    md5::Md5::digest(message).into()
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

fn cut(message: &[u8], cuts: &[usize]) -> Vec<Bytes> {
    let mut rest = Bytes::copy_from_slice(message);
    let mut pieces: Vec<Bytes> =
        cuts.iter().map(|bytes| rest.split_to((*bytes).min(rest.len()))).collect();
    pieces.push(rest);
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
fn messages_of_each_length_are_padded_correctly() {
    let message = message(0, 260);
    for bytes in 0..=message.len() {
        let mut md5 = Md5::new();
        md5.update(&message[..bytes]);
        assert_eq!(md5.finish(), reference(&message[..bytes]), "{bytes} bytes");
    }
}

/// Hashes several messages together, and each by itself with the reference.
fn compare(columns: usize, level: Level) {
    const BLOCKS: usize = 9;
    let messages: Vec<Vec<u8>> =
        (0..columns).map(|number| message(number, BLOCKS * BLOCK_BYTES)).collect();
    let runs: Vec<&[Block]> = messages.iter().map(|message| message.as_chunks().0).collect();
    let mut states = vec![INITIAL; columns];
    in_vectors(level, &mut states, &runs);
    for (state, message) in states.into_iter().zip(&messages) {
        let mut md5 = Md5::new();
        md5.skip(BLOCKS, state);
        assert_eq!(md5.finish(), reference(message), "{level:?}, {columns} columns");
    }
}

#[test]
fn each_number_of_columns_equals_the_reference_on_each_kind_of_vectors() {
    for level in levels() {
        for columns in 1..=COLUMNS_MAX {
            compare(columns, level);
        }
    }
}

#[test]
fn columns_take_as_many_blocks_as_the_shortest_run() {
    let messages = [message(1, 5 * BLOCK_BYTES), message(2, 3 * BLOCK_BYTES)];
    let runs: Vec<&[Block]> = messages.iter().map(|message| message.as_chunks().0).collect();
    for level in levels() {
        let mut states: Vec<Md5State> = vec![INITIAL; 2];
        in_vectors(level, &mut states, &runs);
        for (state, message) in states.into_iter().zip(&messages) {
            let mut md5 = Md5::new();
            md5.skip(3, state);
            assert_eq!(md5.finish(), reference(&message[..3 * BLOCK_BYTES]));
        }
    }
}

#[test]
fn results_of_more_jobs_than_columns_keep_their_order() {
    let messages: Vec<Vec<u8>> =
        (0..3 * COLUMNS_MAX).map(|number| message(number, 50_000 - 997 * number)).collect();
    let job = |message: &Vec<u8>| Job { md5: Md5::new(), pieces: cut(message, &[5_000, 64, 1]) };
    let sums = Job::run_all(messages.iter().map(job).collect());
    let sums: Vec<_> = sums.into_iter().map(Md5::finish).collect();
    let expected: Vec<_> = messages.iter().map(|message| reference(message)).collect();
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
            md5.update(&piece);
        }
        prop_assert_eq!(md5.finish(), reference(&message));
    }

    /// Each job is one of a message's several, has pieces of any length, and joins others that are
    /// under way.
    #[test]
    fn jobs_that_join_others_equal_the_reference(
        jobs in prop::collection::vec(
            (0_usize..400, prop::collection::vec(0_usize..3_000, 0..5), 0_usize..4, any::<bool>()),
            1..40,
        ),
        width in 1_usize..=COLUMNS_MAX,
    ) {
        let mut columns: Vec<Column<(usize, [u8; 16])>> = Vec::new();
        let mut results = Vec::new();
        let mut coming = jobs.iter().enumerate();
        loop {
            let mut steps = 1;
            while columns.len() < width
                && let Some((number, (before, cuts, pause, whole_blocks))) = coming.next()
            {
                let bytes = if *whole_blocks { BLOCK_BYTES } else { 1 };
                let cuts: Vec<usize> = cuts.iter().map(|cut| cut / bytes * bytes).collect();
                let (job, expected) = expect(number, before * bytes, &cuts);
                columns.push(Column::new(job, (number, expected)));
                steps = *pause;
                if steps > 0 {
                    break;
                }
            }
            for _ in 0..steps.max(1) {
                let done = columns.extract_if(.., |column| column.is_done());
                results.extend(done.map(Column::into_md5));
                step(&mut columns);
            }
            if columns.is_empty() && coming.len() == 0 {
                break;
            }
        }
        prop_assert_eq!(results.len(), jobs.len());
        for (md5, (number, expected)) in results {
            prop_assert_eq!(md5.finish(), expected, "job {}", number);
        }
    }
}

/// A job behind `before` bytes, cut into pieces, and what should come of it.
fn expect(number: usize, before: usize, cuts: &[usize]) -> (Job, [u8; 16]) {
    let whole = message(number, before + cuts.iter().sum::<usize>());
    let mut md5 = Md5::new();
    md5.update(&whole[..before]);
    let pieces = cut(&whole[before..], cuts);
    (Job { md5, pieces }, reference(&whole))
}

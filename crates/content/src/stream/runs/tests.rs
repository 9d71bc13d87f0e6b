//! How slices are cut, and the checksum of a block that is read in runs.

use record::{BlockId, Nonce};

use super::*;

const KIB: u32 = 1 << 10;
const MIB: u32 = 1 << 20;

fn slice(offset: u32, length: u32, block_length: u32) -> Slice {
    let block = BlockId::new(Nonce([1; Nonce::BYTES]), 7);
    Slice { position: 99, block, block_length, block_crc32c: 0, offset, length }
}

/// Returns the start and end of each run of a slice.
fn cut(slice: &Slice, bytes: u32) -> Vec<(u32, u32)> {
    let mut planned = Some(Planned::new(slice));
    std::iter::from_fn(|| {
        let run = planned?.first_run(bytes);
        planned = planned?.behind(&run);
        Some((run.range().start, run.range().end))
    })
    .collect()
}

#[test]
fn runs_cover_a_slice_once_and_end_with_sub_blocks() {
    assert_eq!(cut(&slice(5, 100, 9_000), MIB), [(5, 105)]);
    assert_eq!(cut(&slice(0, 4 * MIB, 4 * MIB), 4 * MIB), [(0, 4 * MIB)]);
    let part = slice(0, 3 * MIB, 4 * MIB);
    assert_eq!(cut(&part, MIB), [(0, MIB), (MIB, 2 * MIB), (2 * MIB, 3 * MIB)]);
    let (start, cuts) = (70 * KIB, [MIB + 64 * KIB, 2 * MIB + 64 * KIB]);
    let odd = cut(&slice(start, 3 * MIB, 4 * MIB), MIB);
    assert_eq!(odd, [(start, cuts[0]), (cuts[0], cuts[1]), (cuts[1], start + 3 * MIB)]);
}

#[test]
fn remainder_of_less_than_half_a_run_joins_the_last_run() {
    let one = MIB + 512 * KIB;
    assert_eq!(cut(&slice(0, one, 4 * MIB), MIB), [(0, one)]);
    assert_eq!(cut(&slice(0, one + 1, 4 * MIB), MIB), [(0, MIB), (MIB, one + 1)]);
}

#[test]
fn a_slice_beyond_32_bits_stays_beyond_its_block() {
    let runs = cut(&slice(u32::MAX - 10, u32::MAX, 9_000), MIB);
    assert!(runs.iter().all(|(start, end)| *end > 9_000 && start <= end));
}

/// Follows runs of 3 MiB of zeros. `known` says for each whether it has a checksum; one from memory
/// has none.
fn follow(slice: &Slice, known: &[bool]) -> Result<(), ContentError> {
    let mut planned = Some(Planned::new(slice));
    let mut block_checksum = BlockChecksum::default();
    for known in known {
        let run = planned.expect("another run").first_run(MIB);
        planned = planned.and_then(|planned| planned.behind(&run));
        let frames = vec![Bytes::from(vec![0; run.length as usize])];
        let checksum =
            (run.is_part_of_whole() && !known).then(|| sealed::content_checksum(&frames));
        block_checksum.follow(&run, &FetchedRun { frames, checksum })?;
    }
    assert_eq!(planned, None, "all runs were followed");
    Ok(())
}

#[test]
fn wrong_block_is_detected_at_its_last_run() {
    let zeros = sealed::content_checksum(&[Bytes::from(vec![0; 3 << 20])]);
    let whole = Slice { block_crc32c: zeros, ..slice(0, 3 * MIB, 3 * MIB) };
    follow(&whole, &[false; 3]).expect("it is the block");
    let other = Slice { block_crc32c: zeros ^ 1, ..whole };
    let error = follow(&other, &[false; 3]).expect_err("it is another");
    assert!(matches!(error, ContentError::Corrupt(_)), "{error}");
    for known in 0..3 {
        let known: Vec<bool> = (0..3).map(|run| run == known).collect();
        follow(&other, &known).expect("runs from memory are not compared");
    }
    let part = Slice { length: 2 * MIB, ..other };
    follow(&part, &[false; 2]).expect("a part has no checksum of its own");
}

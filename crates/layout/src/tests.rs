use proptest::prelude::*;
use record::{BlockId, Nonce};

use super::*;

const FILE_BYTES: u64 = 200;

fn slice(block: u64, position: u64, offset: u32, length: u32) -> Slice {
    Slice {
        position,
        block: BlockId::new(Nonce([1; Nonce::BYTES]), block),
        block_length: 1_000,
        block_crc32c: 7,
        offset,
        length,
    }
}

/// For each byte of the file, the block and the place in it that hold the byte.
fn painted(slices: &[Slice]) -> Vec<Option<(BlockId, u64)>> {
    let mut bytes = vec![None; 400];
    for slice in slices {
        for (at, place) in (slice.position..slice.end()).zip(u64::from(slice.offset)..) {
            bytes[usize::try_from(at).unwrap()] = Some((slice.block, place));
        }
    }
    bytes
}

#[track_caller]
fn check(slices: &[Slice], range: Range<u64>) {
    let model = painted(slices);
    let mut at = range.start;
    for segment in resolve(slices, range.clone()) {
        assert_eq!(segment.position(), at, "segments follow each other without gap or overlap");
        assert!(segment.end() > at, "no segment is empty");
        for byte in segment.position()..segment.end() {
            let found = match segment {
                Segment::Hole { .. } => None,
                Segment::Block(piece) => {
                    Some((piece.block, u64::from(piece.offset) + (byte - piece.position)))
                }
            };
            assert_eq!(found, model[usize::try_from(byte).unwrap()], "byte {byte}");
        }
        at = segment.end();
    }
    assert_eq!(at, range.end.max(range.start), "the range is covered");
}

proptest! {
    #[test]
    fn resolve_covers_its_range_exactly_once_and_shows_the_latest(
        writes in prop::collection::vec((0..FILE_BYTES, 0..500_u32, 1..100_u32), 0..20),
        start in 0..FILE_BYTES + 50,
        length in 0..FILE_BYTES,
    ) {
        let slices: Vec<Slice> = (0..)
            .zip(writes)
            .map(|(block, (position, offset, length))| slice(block, position, offset, length))
            .collect();
        check(&slices, start..(start + length).min(400));
    }
}

#[test]
fn an_unwritten_file_is_one_hole() {
    assert_eq!(resolve(&[], 3..10), [Segment::Hole { position: 3, length: 7 }]);
    assert_eq!(resolve(&[], 3..3), []);
}

#[test]
fn a_slice_within_another_splits_it() {
    let slices = [slice(1, 0, 100, 30), slice(2, 10, 0, 5)];
    let expected =
        [slice(1, 0, 100, 10), slice(2, 10, 0, 5), slice(1, 15, 115, 15)].map(Segment::Block);
    assert_eq!(resolve(&slices, 0..30), expected);
}

#[test]
fn the_end_of_the_number_range_is_an_ordinary_place() {
    let last = slice(1, u64::MAX - 10, 0, 10);
    assert_eq!(resolve(&[last], u64::MAX - 10..u64::MAX), [Segment::Block(last)]);
}

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

/// For each byte of the file, the block and the offset in it that hold the byte.
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
    fn resolve_covers_its_range_once_with_the_latest_slices(
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

/// Slices with these gaps and lengths, one behind the other, in blocks from `first` on.
fn apart(first: u64, gaps: &[(u64, u32)]) -> Vec<Slice> {
    let mut position = 0;
    let mut slices = Vec::new();
    for (block, (gap, length)) in (first..).zip(gaps) {
        position += gap;
        slices.push(slice(block, position, 10, *length));
        position += u64::from(*length);
    }
    slices
}

/// The number of slices that hold each byte of a block.
fn count(slices: &[Slice]) -> BTreeMap<(BlockId, u64), u32> {
    let mut counts = BTreeMap::new();
    for slice in slices {
        for byte in u64::from(slice.offset)..u64::from(slice.offset + slice.length) {
            *counts.entry((slice.block, byte)).or_default() += 1;
        }
    }
    counts
}

proptest! {
    #[test]
    fn overlay_shows_new_slices_and_returns_each_hidden_byte_once(
        old in prop::collection::vec((0..9_u64, 1..20_u32), 0..8),
        new in prop::collection::vec((0..20_u64, 1..30_u32), 0..5),
        size in 0..FILE_BYTES,
    ) {
        let (old, new) = (apart(1, &old), apart(100, &new));
        let Overlay { slices, hidden } = overlay(&old, &new, size);
        prop_assert!(slices.windows(2).all(|pair| pair[0].end() <= pair[1].position));
        prop_assert!(slices.iter().chain(&hidden).all(|piece| piece.length > 0));
        let mut expected = painted(&[&old[..], &new[..]].concat());
        expected[usize::try_from(size).unwrap()..].fill(None);
        prop_assert_eq!(painted(&slices), expected);
        // Each old byte is visible or hidden, exactly once, and no new byte is hidden.
        let is_old = |slice: &&Slice| old.iter().any(|old| old.block == slice.block);
        let shown: Vec<Slice> = slices.iter().filter(is_old).copied().collect();
        prop_assert_eq!(count(&[shown, hidden].concat()), count(&old));
    }
}

proptest! {
    #[test]
    fn cleared_range_is_a_hole_and_each_hidden_byte_is_returned_once(
        old in prop::collection::vec((0..9_u64, 1..20_u32), 0..8),
        start in 0..FILE_BYTES,
        length in 0..FILE_BYTES,
    ) {
        let (old, range) = (apart(1, &old), start..start + length);
        let Overlay { slices, hidden } = clear(&old, &range);
        prop_assert!(slices.windows(2).all(|pair| pair[0].end() <= pair[1].position));
        prop_assert!(slices.iter().chain(&hidden).all(|piece| piece.length > 0));
        let mut expected = painted(&old);
        let end = usize::try_from(range.end).unwrap();
        expected[usize::try_from(start).unwrap()..end].fill(None);
        prop_assert_eq!(painted(&slices), expected);
        prop_assert_eq!(count(&[slices, hidden].concat()), count(&old));
    }

    #[test]
    fn seek_finds_the_first_data_or_hole(
        old in prop::collection::vec((0..9_u64, 1..20_u32), 0..8),
        start in 0..FILE_BYTES,
        length in 0..FILE_BYTES,
        hole in any::<bool>(),
    ) {
        let old = apart(1, &old);
        let model = painted(&old);
        let is_wanted = |at: &u64| model[usize::try_from(*at).unwrap()].is_none() == hole;
        let expected = (start..start + length).find(is_wanted);
        prop_assert_eq!(seek(&old, start..start + length, hole), expected);
    }
}

#[test]
fn overlay_within_a_slice_leaves_two_pieces() {
    let expected = Overlay {
        slices: vec![slice(1, 0, 100, 10), slice(2, 10, 0, 5), slice(1, 15, 115, 15)],
        hidden: vec![slice(1, 10, 110, 5)],
    };
    assert_eq!(overlay(&[slice(1, 0, 100, 30)], &[slice(2, 10, 0, 5)], 30), expected);
}

#[test]
fn overlay_hides_slices_behind_the_end() {
    let expected =
        Overlay { slices: vec![slice(1, 0, 100, 7)], hidden: vec![slice(1, 7, 107, 23)] };
    assert_eq!(overlay(&[slice(1, 0, 100, 30)], &[], 7), expected);
    let all = Overlay { slices: vec![], hidden: vec![slice(1, 0, 100, 30)] };
    assert_eq!(overlay(&[slice(1, 0, 100, 30)], &[], 0), all);
}

#[test]
fn empty_content_map_is_one_hole() {
    assert_eq!(resolve(&[], 3..10), [Segment::Hole { position: 3, length: 7 }]);
    assert_eq!(resolve(&[], 3..3), []);
}

#[test]
fn slice_within_another_splits_it() {
    let slices = [slice(1, 0, 100, 30), slice(2, 10, 0, 5)];
    let expected =
        [slice(1, 0, 100, 10), slice(2, 10, 0, 5), slice(1, 15, 115, 15)].map(Segment::Block);
    assert_eq!(resolve(&slices, 0..30), expected);
}

#[test]
fn resolve_handles_the_largest_position() {
    let last = slice(1, u64::MAX - 10, 0, 10);
    assert_eq!(resolve(&[last], u64::MAX - 10..u64::MAX), [Segment::Block(last)]);
}

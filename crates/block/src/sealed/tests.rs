//! Sealing and opening: the golden bytes, every kind of corruption, and the law that sealed
//! content opens unchanged.

use proptest::prelude::*;
use record::Nonce;

use super::*;

const SUB: usize = SUB_BLOCK_BYTES as usize;
const SEALED_SUB: usize = SUB + CHECKSUM_BYTES as usize;
const HEAD: usize = HEADER_BYTES as usize;

fn id(counter: u64) -> BlockId {
    BlockId::new(Nonce([0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9]), counter)
}

/// Content in which no two sub-blocks are alike.
fn content(length: usize) -> Vec<u8> {
    (0..length).map(|i| u8::try_from((i * 7 + i / 251) % 256).expect("below 256")).collect()
}

fn seal(id: BlockId, content: &[u8]) -> SealedBlock {
    let mut sealer = Sealer::new(id, u32::try_from(content.len()).expect("a small block"));
    sealer.push_copy(content);
    sealer.finish()
}

fn cut(block: &SealedBlock, range: Range<u32>) -> Bytes {
    let span = span(block.length(), range).bytes;
    let place = |at: u64| usize::try_from(at).expect("a small block");
    block.to_bytes().slice(place(span.start)..place(span.end))
}

fn golden(text: &str) -> Vec<u8> {
    hex::decode(text.split_whitespace().collect::<String>()).expect("golden files are hexadecimal")
}

#[track_caller]
fn corrupt(block: BlockRef, range: Range<u32>, bytes: &[u8], why: &str) {
    let error = open(block, range, Bytes::copy_from_slice(bytes)).expect_err(why);
    assert_eq!(error.kind(), BlockErrorKind::Corrupt, "{why}");
    assert!(error.to_string().contains(&block.id.to_string()), "{error} names its block");
}

#[test]
fn a_small_block_has_the_golden_bytes() {
    let block = seal(id(7), b"Ashlar is dressed stone cut into square blocks.\n");
    assert_eq!(block.to_bytes(), golden(include_str!("../../tests/golden/small.hex")));
    assert_eq!(block.crc32c(), crc32c(b"Ashlar is dressed stone cut into square blocks.\n"));
}

#[test]
fn the_ends_of_two_sub_blocks_have_the_golden_bytes() {
    let block = seal(id(7), &content(SUB + 5));
    let ends = [&block.to_bytes()[..HEAD], &block.to_bytes()[HEAD + SUB - 8..]].concat();
    assert_eq!(ends, golden(include_str!("../../tests/golden/two_sub_blocks_ends.hex")));
}

#[test]
fn the_sub_blocks_of_a_sealed_block_are_those_that_open() {
    for length in [1, 5, SUB - 1, SUB, SUB + 1, 3 * SUB, 3 * SUB + 7] {
        let content = content(length);
        for step in [SUB, SUB / 2 + 1, 20_000, 900] {
            let mut sealer = Sealer::new(id(7), 0);
            content.chunks(step).for_each(|piece| sealer.push_copy(piece));
            let block = sealer.finish();
            let whole = 0..block.length().div_ceil(SUB_BLOCK_BYTES);
            let opened = open_sub_blocks(block.reference(), whole, block.to_bytes());
            let opened =
                opened.expect("it is sound").into_iter().map(|it| (it.checksum, it.content));
            let given = block.sub_blocks().map(|it| (it.checksum, it.pieces.concat().into()));
            assert!(opened.eq(given), "{length} bytes in pieces of {step}");
            let indexes: Vec<u32> = block.sub_blocks().map(|it| it.index).collect();
            assert_eq!(indexes.len(), length.div_ceil(SUB));
            assert!(indexes.iter().copied().eq((0..).take(indexes.len())), "in order");
        }
    }
}

#[test]
fn sizes_and_spans_follow_the_layout() {
    assert_eq!(sealed_bytes(1), 32 + 1 + 4);
    assert_eq!(sealed_bytes(SUB_BLOCK_BYTES), 32 + 65_536 + 4);
    assert_eq!(sealed_bytes(SUB_BLOCK_BYTES + 1), 32 + 65_536 + 4 + 1 + 4);
    assert_eq!(sealed_bytes(BLOCK_BYTES_MAX), 32 + 256 * 65_540);
    let length = 3 * SUB_BLOCK_BYTES - 10;
    let check = |range: Range<u32>, bytes, first_sub_block, skip, whole| {
        assert_eq!(span(length, range), SealedRange { bytes, first_sub_block, skip, whole });
    };
    let end = sealed_bytes(length);
    check(0..length, 0..end, 0, 0, true);
    check(0..length - 1, 32..end, 0, 0, false);
    check(0..1, 32..32 + 65_540, 0, 0, false);
    check(65_535..65_537, 32..32 + 2 * 65_540, 0, 65_535, false);
    check(65_536..65_537, 32 + 65_540..32 + 2 * 65_540, 1, 0, false);
    check(length - 1..length + 9, 32 + 2 * 65_540..end, 2, 65_525, false);
    check(5..5, 0..0, 0, 5, false);
}

#[test]
fn every_flipped_bit_is_detected() {
    let block = seal(id(1), &content(100));
    for bit in 0..block.to_bytes().len() * 8 {
        let mut bytes = block.to_bytes().to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        corrupt(block.reference(), 0..100, &bytes, "a flipped bit");
        if bit / 8 >= HEAD {
            corrupt(block.reference(), 1..99, &bytes[HEAD..], "a flipped bit in part of it");
        }
    }
}

#[test]
fn missing_and_surplus_bytes_are_detected() {
    let block = seal(id(1), &content(SUB + 100));
    let whole = 0..block.length();
    let bytes = block.to_bytes();
    for length in [0, 1, HEAD - 1, HEAD, HEAD + SUB, HEAD + SEALED_SUB, bytes.len() - 1] {
        corrupt(block.reference(), whole.clone(), &bytes[..length], "a truncated block");
    }
    corrupt(block.reference(), whole.clone(), &[&bytes[..], b"x"].concat(), "a longer block");
    corrupt(block.reference(), whole, &vec![0; bytes.len()], "zeros");
    let part = cut(&block, 10..20);
    corrupt(block.reference(), 10..20, &part[..part.len() - 1], "a truncated part");
    corrupt(block.reference(), 10..20, &vec![0; part.len()], "zeros for a part");
    corrupt(block.reference(), 10..20, &[], "nothing");
}

#[test]
fn swapped_shifted_and_foreign_sub_blocks_are_detected() {
    // All sub-blocks hold the same bytes, so only their seeds differ.
    let same = vec![5; 3 * SUB];
    let block = seal(id(1), &same);
    let bytes = block.to_bytes();
    let (first, second) =
        (&bytes[HEAD..HEAD + SEALED_SUB], &bytes[HEAD + SEALED_SUB..HEAD + 2 * SEALED_SUB]);
    assert_ne!(first, second, "the seed differs by index");
    let swapped = [&bytes[..HEAD], second, first, &bytes[HEAD + 2 * SEALED_SUB..]].concat();
    corrupt(block.reference(), 0..block.length(), &swapped, "two swapped sub-blocks");
    corrupt(block.reference(), 1..9, second, "the neighbour's sub-block");
    let foreign = seal(id(2), &same);
    corrupt(block.reference(), 1..9, &cut(&foreign, 1..9), "another block's sub-block");
    corrupt(block.reference(), 0..block.length(), &foreign.to_bytes(), "another block");
}

#[test]
fn replaced_content_is_detected_by_the_record() {
    let block = seal(id(1), &content(1_000));
    let other = seal(id(1), &vec![9; 1_000]);
    corrupt(block.reference(), 0..1_000, &other.to_bytes(), "a replaced block");
    let shorter = seal(id(1), &content(999));
    corrupt(block.reference(), 0..1_000, &shorter.to_bytes(), "a stale, shorter block");
}

#[test]
fn a_range_outside_of_the_block_is_refused() {
    let block = seal(id(1), &content(100));
    corrupt(block.reference(), 0..101, &block.to_bytes(), "behind the end");
    corrupt(block.reference(), 200..300, &[], "far behind the end");
    #[expect(clippy::reversed_empty_ranges, reason = "a malformed record may hold one")]
    corrupt(block.reference(), 9..8, &[], "a reversed range");
}

#[test]
fn opening_copies_nothing() {
    let block = seal(id(1), &content(2 * SUB));
    let bytes = block.to_bytes();
    let pieces = open(block.reference(), 0..block.length(), bytes.clone()).expect("whole");
    assert_eq!(pieces.len(), 2);
    assert_eq!(pieces[0].as_ptr(), bytes[HEAD..].as_ptr());
    assert_eq!(pieces[1].as_ptr(), bytes[HEAD + SEALED_SUB..].as_ptr());
}

#[test]
fn sealing_copies_only_short_pieces() {
    let content = Bytes::from(content(2 * SUB));
    let mut sealer = Sealer::new(id(1), 0);
    let cuts = [0, 9, 99, SUB + 9, SUB + 10, 2 * SUB];
    for cut in cuts.windows(2) {
        sealer.push(content.slice(cut[0]..cut[1]));
    }
    let block = sealer.finish();
    let lengths: Vec<usize> = block.pieces().iter().map(Bytes::len).collect();
    assert_eq!(lengths, [HEAD, 99, SUB - 99, 4, 9, 1, SUB - 10, 4], "short ones are adjacent");
    for (piece, place) in [(2, 99), (4, SUB), (6, SUB + 10)] {
        assert_eq!(block.pieces()[piece].as_ptr(), content[place..].as_ptr());
    }
    assert_eq!(block.to_bytes(), seal(id(1), &content).to_bytes());
}

#[test]
fn the_sealer_counts_and_reserves() {
    let mut sealer = Sealer::new(id(3), 10);
    assert!(sealer.is_empty());
    assert_eq!((sealer.id(), sealer.remaining()), (id(3), BLOCK_BYTES_MAX));
    sealer.push_copy(b"");
    sealer.push_copy(&content(SUB));
    assert_eq!((sealer.len(), sealer.remaining()), (SUB_BLOCK_BYTES, BLOCK_BYTES_MAX - 65_536));
    let grown = sealer.finish();
    let expected = seal(id(3), &content(SUB));
    assert_eq!(grown.reference(), expected.reference(), "capacity is a hint");
    assert_eq!(grown.to_bytes(), expected.to_bytes());
    assert_eq!(grown.sealed_bytes(), grown.to_bytes().len() as u64);
}

#[test]
#[should_panic(expected = "the caller cuts")]
fn a_block_holds_no_more_than_its_maximum() {
    let mut sealer = Sealer::new(id(3), 0);
    sealer.push_copy(&vec![1; BLOCK_BYTES_MAX as usize]);
    sealer.push_copy(b"x");
}

#[test]
#[should_panic(expected = "no empty block")]
fn there_is_no_empty_block() {
    let _ = Sealer::new(id(3), 0).finish();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Any range of content that was sealed in any pieces opens unchanged.
    #[test]
    fn sealed_content_opens(
        length in prop_oneof![1..200_usize, SUB - 2..SUB + 3, 1..5 * SUB, 3 * SUB..=3 * SUB],
        piece in prop_oneof![1..300_usize, SUB - 1..SUB + 2, Just(usize::MAX)],
        ends in any::<(prop::sample::Index, prop::sample::Index)>(),
    ) {
        let content = content(length);
        let mut sealer = Sealer::new(id(9), 0);
        content.chunks(piece.max(length / 200 + 1)).for_each(|piece| sealer.push_copy(piece));
        let block = sealer.finish();
        let at_once = seal(id(9), &content);
        prop_assert_eq!(block.reference(), at_once.reference());
        prop_assert_eq!(block.to_bytes(), at_once.to_bytes());
        prop_assert!(block.pieces().iter().all(|piece| !piece.is_empty()));
        let (a, b) = (ends.0.index(length + 1), ends.1.index(length + 1));
        for range in [a.min(b)..a.max(b), 0..length] {
            let asked = u32::try_from(range.start).unwrap()..u32::try_from(range.end).unwrap();
            let bytes = cut(&block, asked.clone());
            let pieces = open(block.reference(), asked, bytes).expect("nothing was changed");
            prop_assert!(pieces.iter().all(|piece| !piece.is_empty()));
            prop_assert_eq!(pieces.concat(), &content[range]);
        }
    }

    /// One changed byte anywhere in the requested range is detected.
    #[test]
    fn changed_byte_is_detected(
        length in 1..4 * SUB,
        ends in any::<(prop::sample::Index, prop::sample::Index)>(),
        place in any::<prop::sample::Index>(),
        change in 1..=255_u8,
    ) {
        let block = seal(id(9), &content(length));
        let (a, b) = (ends.0.index(length + 1), ends.1.index(length + 1));
        prop_assume!(a != b);
        let asked = u32::try_from(a.min(b)).unwrap()..u32::try_from(a.max(b)).unwrap();
        let mut bytes = cut(&block, asked.clone()).to_vec();
        let place = place.index(bytes.len());
        bytes[place] ^= change;
        let error = open(block.reference(), asked, Bytes::from(bytes)).expect_err("changed");
        prop_assert_eq!(error.kind(), BlockErrorKind::Corrupt);
    }

    /// For any reference and any bytes of a store, the result is an error or verified content.
    #[test]
    fn no_input_causes_a_panic(
        length in prop_oneof![any::<u32>(), 0..200_000_u32],
        start in prop_oneof![any::<u32>(), 0..200_000_u32],
        end in prop_oneof![any::<u32>(), 0..200_000_u32],
        crc32c in any::<u32>(),
        noise in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let block = BlockRef { id: id(9), length, crc32c };
        let size = span(length, start..end).bytes;
        let size = usize::try_from(size.end - size.start).unwrap().min(200_000);
        let fitting: Vec<u8> = noise.iter().copied().chain([0]).cycle().take(size).collect();
        for bytes in [noise, fitting] {
            let bytes = Bytes::from(bytes);
            if let Ok(opened) = open_sub_blocks(block, start..end, bytes.clone()) {
                prop_assert!(opened.is_empty(), "noise has no checksums");
            }
            if let Ok(pieces) = open(block, start..end, bytes) {
                prop_assert!(pieces.is_empty() && start == end, "noise has no checksums");
            }
        }
    }
}

//! Frames of every size, and damage at every place.

use proptest::prelude::*;
use record::{BlockId, Nonce};

use super::*;
use crate::{SealedBlock, Sealer};

fn block(length: u32) -> SealedBlock {
    let mut sealer = Sealer::new(BlockId::new(Nonce([6; Nonce::BYTES]), 3), length);
    let content: Vec<u8> = (0..length).map(|at| (at * 31 % 251) as u8).collect();
    sealer.push_copy(&content);
    sealer.finish()
}

/// Returns the content that an opener yields for these frames, and true if it is complete.
fn open(block: BlockRef, sub_blocks: Range<u32>, frames: &[Bytes]) -> Result<Vec<u8>, String> {
    let mut opener = Opener::new(block, sub_blocks.clone());
    let mut content = Vec::new();
    let mut next = sub_blocks.start;
    let mut failed = None;
    for frame in frames {
        let pushed = opener.push(frame.clone(), |opened| {
            assert_eq!(opened.index, next, "in order");
            next += 1;
            let pieces = opened.pieces.concat();
            assert!(sealed::verify_sub_block(block.id, opened.index, &pieces, opened.checksum));
            content.extend(pieces);
        });
        if let Err(what) = pushed {
            failed = Some(what);
            break;
        }
    }
    assert_eq!(opener.next_index(), next);
    assert_eq!(opener.is_done(), next == sub_blocks.end);
    match failed {
        Some(what) => Err(what),
        None if opener.is_done() => Ok(content),
        None => Err("not all of it".to_owned()),
    }
}

fn cut(bytes: &Bytes, mut sizes: impl Iterator<Item = usize>) -> Vec<Bytes> {
    let mut rest = bytes.clone();
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let size = sizes.next().unwrap_or(rest.len()).clamp(1, rest.len());
        frames.push(rest.split_to(size));
    }
    frames
}

/// The content, computed without an opener.
fn content(block: &SealedBlock, sub_blocks: Range<u32>) -> Vec<u8> {
    let range = sealed::content_of(block.length(), sub_blocks);
    let bytes = block.to_bytes();
    let all = sealed::open(block.reference(), 0..block.length(), bytes).expect("sound").concat();
    all[range.start as usize..range.end as usize].to_vec()
}

fn span(block: &SealedBlock, sub_blocks: Range<u32>) -> Bytes {
    let content = sealed::content_of(block.length(), sub_blocks);
    let span = sealed::span(block.length(), content).bytes;
    let at = |place: u64| usize::try_from(place).expect("it is small");
    block.to_bytes().slice(at(span.start)..at(span.end))
}

#[test]
fn small_block_opens_for_every_cut_into_three_frames() {
    let block = block(40);
    let bytes = block.to_bytes();
    for first in 0..bytes.len() {
        for second in 1..bytes.len() - first {
            let frames = cut(&bytes, [first.max(1), second].into_iter());
            assert_eq!(open(block.reference(), 0..1, &frames), Ok(content(&block, 0..1)));
        }
    }
    let single = cut(&bytes, std::iter::repeat(1));
    assert_eq!(open(block.reference(), 0..1, &single), Ok(content(&block, 0..1)));
}

#[test]
fn every_flipped_bit_is_detected_and_nothing_is_yielded() {
    let block = block(40);
    for place in 0..block.to_bytes().len() * 8 {
        let mut bytes = block.to_bytes().to_vec();
        bytes[place / 8] ^= 1 << (place % 8);
        let bytes = Bytes::from(bytes);
        for size in [1, 7, 33, 1_000] {
            let frames = cut(&bytes, std::iter::repeat(size));
            let found = open(block.reference(), 0..1, &frames);
            assert!(found.is_err(), "bit {place} in frames of {size}");
        }
    }
}

#[test]
fn short_body_is_incomplete_and_surplus_is_ignored() {
    let block = block(100_000);
    for missing in [1, 4, 5, 40_000, 100_000] {
        let bytes = block.to_bytes().slice(..block.to_bytes().len() - missing);
        let found = open(block.reference(), 0..2, &cut(&bytes, std::iter::repeat(9_999)));
        assert_eq!(found, Err("not all of it".to_owned()), "{missing} are missing");
    }
    let longer = Bytes::from([&block.to_bytes()[..], b"surplus"].concat());
    let found = open(block.reference(), 0..2, &cut(&longer, std::iter::repeat(9_999)));
    assert_eq!(found, Ok(content(&block, 0..2)));
}

#[test]
fn pieces_are_parts_of_their_frames() {
    let block = block(200_000);
    let frames = cut(&block.to_bytes(), std::iter::repeat(50_000));
    let mut opener = Opener::new(block.reference(), 0..4);
    let mut sizes = Vec::new();
    for frame in &frames {
        let range = frame.as_ptr_range();
        let within = |piece: &Bytes| range.contains(&piece.as_ptr());
        opener
            .push(frame.clone(), |opened| {
                assert!(opened.pieces.last().is_some_and(within), "no copy");
                sizes.push(opened.pieces.iter().map(Bytes::len).collect::<Vec<_>>());
            })
            .expect("sound");
    }
    assert_eq!(sizes.len(), 4);
    assert_eq!(sizes[0], [50_000 - 32, 65_536 - 50_000 + 32]);
}

#[test]
fn replaced_block_is_detected_before_its_last_sub_block() {
    let block = block(3 * SUB_BLOCK_BYTES);
    let other = BlockRef { crc32c: block.crc32c() ^ 1, ..block.reference() };
    for size in [1_000, 65_540, 1 << 20] {
        let mut opener = Opener::new(other, 0..3);
        let mut given = 0;
        let frames = cut(&block.to_bytes(), std::iter::repeat(size));
        let failed =
            frames.iter().find_map(|frame| opener.push(frame.clone(), |_| given += 1).err());
        assert!(failed.is_some_and(|what| what.contains("the whole block's checksum")));
        assert_eq!(given, 2);
    }
    // After sub-blocks whose checksum is known, and after unknown ones.
    for (known, found) in [(true, false), (false, true)] {
        let mut opener = Opener::new(other, 1..3);
        if known {
            opener.set_preceding_crc(extend_crc(0, &content(&block, 0..1)));
        }
        let pushed = opener.push(span(&block, 1..3), |_| ());
        assert_eq!(pushed.is_ok(), found);
    }
}

#[test]
fn opener_resumes_after_an_interruption() {
    let block = block(300_000);
    let mut opener = Opener::new(block.reference(), 0..5);
    let mut found = Vec::new();
    assert_eq!(opener.restart(), 0..block.to_bytes().len() as u64);
    for (size, next) in [(10, 0), (70_000, 1), (100_000, 2), (1_000_000, 5)] {
        let bytes = opener.restart();
        let at = usize::try_from(bytes.start).expect("it is small");
        let end = block.to_bytes().len().min(at + size);
        let frame = block.to_bytes().slice(at..end);
        opener.push(frame, |opened| found.extend(opened.pieces.concat())).expect("sound");
        assert_eq!(opener.next_index(), next);
    }
    assert!(found == content(&block, 0..5));
    assert_eq!(opener.running_crc(), Some(block.crc32c()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_sub_blocks_open_for_any_frames(
        length in 1_u32..300_000,
        from in 0_u32..5,
        count in 1_u32..5,
        sizes in prop::collection::vec(1_usize..100_000, 0..50),
    ) {
        let block = block(length);
        let last = length.div_ceil(SUB_BLOCK_BYTES);
        let from = from.min(last - 1);
        let sub_blocks = from..(from + count).min(last);
        let frames = cut(&span(&block, sub_blocks.clone()), sizes.into_iter());
        let found = open(block.reference(), sub_blocks.clone(), &frames);
        prop_assert!(found == Ok(content(&block, sub_blocks)));
    }

    #[test]
    fn flipped_bit_is_detected_at_any_place(
        length in 1_u32..200_000,
        place: prop::sample::Index,
        bit in 0_u8..8,
        size in 1_usize..100_000,
    ) {
        let block = block(length);
        let mut bytes = block.to_bytes().to_vec();
        bytes[place.index(block.to_bytes().len())] ^= 1 << bit;
        let last = length.div_ceil(SUB_BLOCK_BYTES);
        let frames = cut(&Bytes::from(bytes), std::iter::repeat(size));
        prop_assert!(open(block.reference(), 0..last, &frames).is_err());
    }
}

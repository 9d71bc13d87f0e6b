//! Content maps: concatenating slices, cutting them, and storing them in pages.

use namespace::{build_content, concatenate, cut, pages_of, part_runs};
use proptest::prelude::*;
use record::{
    BlockId, Content, INODE_SLICES_MAX, Ino, MapPage, PAGE_SLICES_MAX, PageRef, PartRun, Slice,
};
use store::Write;

use crate::world::NONCE;

/// Slices of these lengths, one behind the other, each in a block of its own.
fn slices(lengths: &[u32]) -> Vec<Slice> {
    let mut position = 0;
    let slice = |(n, length): (u64, &u32)| {
        let (at, offset) = (position, 3);
        position += u64::from(*length);
        let block = BlockId::new(NONCE, n);
        let block_length = offset + length;
        Slice { position: at, block, block_length, block_crc32c: 0, offset, length: *length }
    };
    (0..).zip(lengths).map(slice).collect()
}

/// Each byte of a file, with its block and its offset in the block.
fn bytes(slices: &[Slice]) -> Vec<(u64, BlockId, u32)> {
    let of = |slice: &Slice| {
        let Slice { position, block, offset, .. } = *slice;
        (0..slice.length).map(move |n| (position + u64::from(n), block, offset + n))
    };
    slices.iter().flat_map(of).collect()
}

proptest! {
    #[test]
    fn cut_returns_the_bytes_of_its_range(
        lengths in prop::collection::vec(1_u32..9, 0..12), start in 0_u64..100, end in 0_u64..100,
    ) {
        let whole = slices(&lengths);
        let inside = bytes(&whole).into_iter().filter(|(at, ..)| (start..end).contains(at));
        let expected: Vec<_> = inside.map(|(at, block, n)| (at - start, block, n)).collect();
        prop_assert_eq!(bytes(&cut(&whole, start, end)), expected);
    }

    #[test]
    fn parts_are_concatenated_in_order(
        parts in prop::collection::vec(prop::collection::vec(1_u32..9, 0..4), 0..6),
    ) {
        let parts: Vec<Vec<Slice>> = parts.iter().map(|lengths| slices(lengths)).collect();
        let size = |part: &Vec<Slice>| part.last().map_or(0, Slice::end);
        let (total, all) = concatenate(parts.iter().map(|part| (size(part), &part[..])));
        prop_assert_eq!(total, parts.iter().map(size).sum::<u64>());
        let bytes_of_parts = parts.iter().flat_map(|part| bytes(part));
        let expected: Vec<_> =
            (0..).zip(bytes_of_parts).map(|(at, (_, block, n))| (at, block, n)).collect();
        prop_assert_eq!(bytes(&all), expected);
    }

    #[test]
    fn pages_hold_all_slices_and_are_found_by_position(
        count in prop_oneof![0..=INODE_SLICES_MAX, 65..=3 * PAGE_SLICES_MAX], length in 1_u32..4,
        range in any::<[prop::sample::Index; 2]>(),
    ) {
        let whole = slices(&vec![length; count]);
        let (content, writes) = build_content(Ino(5), whole.clone());
        let refs = match content {
            Content::Slices(slices) => {
                prop_assert!(count <= INODE_SLICES_MAX && writes.is_empty());
                prop_assert_eq!(slices, whole);
                return Ok(());
            }
            Content::Pages(refs) => refs,
            Content::Inline(_) => panic!("nothing was inline"),
        };
        let page = |write: &Write| match write {
            Write::Put(key, value) => MapPage::decode(key, value).expect("a page").0,
            other => panic!("{other:?}"),
        };
        let pages: Vec<Vec<Slice>> = writes.iter().map(page).collect();
        prop_assert_eq!(pages.concat(), whole.clone());
        let firsts: Vec<PageRef> =
            (0..).zip(&pages).map(|(page, slices)| PageRef::of(page, slices)).collect();
        prop_assert_eq!(&firsts, &refs);

        let end = whole.last().map_or(0, Slice::end);
        let mut range = range.map(|index| index.index(usize::try_from(end).unwrap() + 1) as u64);
        range.sort_unstable();
        let [start, end] = range;
        let chosen = pages[pages_of(&refs, start, end)].concat();
        prop_assert_eq!(cut(&chosen, start, end), cut(&whole, start, end));
    }
}

#[test]
fn equal_parts_form_one_run() {
    let run = |count, length| PartRun { count, length };
    assert_eq!(part_runs([5, 5, 5, 2]), [run(3, 5), run(1, 2)]);
    assert_eq!(part_runs([5, 2, 5]), [run(1, 5), run(1, 2), run(1, 5)]);
    assert_eq!(part_runs([]), []);
}

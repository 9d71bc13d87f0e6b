//! Moving a part of the extents.

use super::DirtyExtents;
use crate::tail::AppendedTail;

fn extents(pieces: &[(u64, &[u8])]) -> DirtyExtents {
    let mut all = DirtyExtents::default();
    pieces.iter().for_each(|(at, bytes)| all.write(*at, bytes));
    all
}

#[test]
fn shift_moves_only_bytes_behind_the_position() {
    for (from, to) in [(3, 10), (3, 3), (5, 50), (20, 9), (0, 7)] {
        let all = extents(&[(0, b"abcde"), (20, b"xyz")]);
        let moved = |at: u64| if at < from { at } else { at - from + to };
        let mut expected: Vec<(u64, u8)> = Vec::new();
        for (at, bytes) in all.iter() {
            expected.extend((at..).zip(bytes).map(|(at, byte)| (moved(at), *byte)));
        }
        expected.sort_unstable();
        let bytes = |pieces: Vec<(u64, Vec<u8>)>| {
            let mut all: Vec<(u64, u8)> =
                pieces.into_iter().flat_map(|(at, bytes)| (at..).zip(bytes)).collect();
            all.sort_unstable();
            all
        };
        let frozen = all.clone().freeze().shifted(from, to);
        let frozen = frozen.iter().map(|(at, bytes)| (*at, bytes.to_vec())).collect();
        assert_eq!(bytes(frozen), expected);
        let mut dirty = all;
        dirty.shift(from, to);
        assert_eq!(bytes(dirty.iter().map(|(at, b)| (at, b.to_vec())).collect()), expected);
    }
}

#[test]
fn tail_is_placed_behind_committed_and_earlier_dirty_bytes() {
    let tail = AppendedTail { start: 10, floor: 0 };
    let alone = extents(&[(10, b"tail")]).freeze();
    assert_eq!([8, 10, 12].map(|size| tail.place(size, &alone)), [8, 10, 12]);
    let both = extents(&[(7, b"ab"), (10, b"tail")]).freeze();
    assert_eq!([8, 10, 12].map(|size| tail.place(size, &both)), [9, 10, 12]);
    let joined = extents(&[(7, b"abctail")]).freeze();
    assert_eq!([8, 10, 12].map(|size| tail.place(size, &joined)), [10, 10, 12]);
    let floor = AppendedTail { floor: 10, ..tail };
    assert_eq!([8, 10, 12].map(|size| floor.place(size, &alone)), [10, 10, 12]);
}

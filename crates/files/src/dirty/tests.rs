use bytes::Bytes;
use proptest::prelude::*;

use super::DirtyExtents;

const SPAN: usize = 200;

#[derive(Clone, Debug)]
enum Act {
    Write(usize, Vec<u8>),
    Cut(usize),
    PutUnder(Vec<(usize, Vec<u8>)>),
}

fn write() -> impl Strategy<Value = (usize, Vec<u8>)> {
    (0..SPAN).prop_flat_map(|at| (Just(at), prop::collection::vec(any::<u8>(), 1..=SPAN - at)))
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => write().prop_map(|(at, bytes)| Act::Write(at, bytes)),
        1 => (0..=SPAN).prop_map(Act::Cut),
        1 => prop::collection::vec(write(), 0..3).prop_map(Act::PutUnder),
    ]
}

fn shown(extents: &DirtyExtents) -> Vec<Option<u8>> {
    let mut all = vec![None; SPAN];
    for (position, bytes) in extents.iter() {
        for (at, byte) in bytes.iter().enumerate() {
            let cell = &mut all[usize::try_from(position).unwrap() + at];
            assert!(cell.is_none(), "extents overlap");
            *cell = Some(*byte);
        }
    }
    all
}

proptest! {
    /// Extents must equal an array of bytes.
    #[test]
    fn dirty_extents_behave_like_an_array_of_bytes(acts in prop::collection::vec(act(), 0..30)) {
        let (mut extents, mut model) = (DirtyExtents::default(), vec![None; SPAN]);
        for act in acts {
            match act {
                Act::Write(at, bytes) => {
                    let end = (at + bytes.len()) as u64;
                    let held = extents.bytes();
                    let growth = extents.growth(at as u64..end);
                    extents.write(at as u64, &bytes);
                    prop_assert_eq!(extents.bytes(), held + growth);
                    bytes.iter().zip(at..).for_each(|(byte, at)| model[at] = Some(*byte));
                }
                Act::Cut(end) => {
                    extents.cut(end as u64);
                    model[end..].fill(None);
                }
                Act::PutUnder(writes) => {
                    let (mut older, mut below) = (DirtyExtents::default(), vec![None; SPAN]);
                    for (at, bytes) in writes {
                        older.write(at as u64, &bytes);
                        bytes.iter().zip(at..).for_each(|(byte, at)| below[at] = Some(*byte));
                    }
                    extents.insert_below(&older.freeze(), SPAN as u64);
                    for (above, below) in model.iter_mut().zip(below) {
                        *above = above.or(below);
                    }
                }
            }
            prop_assert_eq!(&shown(&extents), &model);
            let (frozen, base) = (extents.clone().freeze(), Bytes::from(vec![7; SPAN / 2]));
            for (pieces, filler) in [(frozen.clone(), None), (frozen.over(&base), Some(7))] {
                let mut seen = vec![None; SPAN];
                for (at, bytes) in pieces.pieces(3..SPAN as u64) {
                    let at = usize::try_from(at).unwrap();
                    seen[at..at + bytes.len()].iter_mut().zip(&bytes).for_each(|(s, b)| *s = Some(*b));
                }
                for (at, (seen, wanted)) in seen.iter().zip(&model).enumerate().skip(3) {
                    prop_assert_eq!(*seen, wanted.or(filler.filter(|_| at < SPAN / 2)));
                }
            }
            prop_assert_eq!(extents.bytes(), model.iter().flatten().count() as u64);
            for start in (0..SPAN).step_by(37) {
                let range = start as u64..SPAN as u64;
                let held: u64 = extents.pieces(range).map(|(_, bytes)| bytes.len() as u64).sum();
                prop_assert_eq!(held, model[start..].iter().flatten().count() as u64);
            }
        }
    }
}

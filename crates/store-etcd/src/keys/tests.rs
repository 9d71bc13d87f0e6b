use store::{CounterKey, Key, Space};

use super::{CellKind, INSTANCE_BYTES, Keys};

fn counter(suffix: &[u8]) -> CounterKey {
    CounterKey(Key::new(Space(b'n'), 7, suffix))
}

const SUFFIXES: [&[u8]; 9] =
    [b"", &[0], &[0, 0], &[0, 0xff], &[0, 1], &[1], b"a", b"a\0", b"a\0\x01........"];

#[test]
fn a_cell_can_be_parsed_again() {
    let keys = Keys::new("name");
    for suffix in SUFFIXES {
        let counter = counter(suffix);
        let base = keys.base(&counter);
        assert_eq!(keys.to_cell(&base), Some((counter.clone(), CellKind::Base)), "{suffix:?}");
        for kind in [CellKind::Sum, CellKind::Max] {
            let cell = keys.cell(&counter, kind, [0; INSTANCE_BYTES]);
            assert_eq!(keys.to_cell(&cell), Some((counter.clone(), kind)), "{suffix:?}");
        }
    }
}

#[test]
fn cells_stand_in_the_order_of_their_counters_and_apart() {
    let keys = Keys::new("name");
    let mut counters = SUFFIXES.map(counter);
    counters.sort();
    for pair in counters.windows(2) {
        let (first, second) = (keys.cells(&pair[0]), keys.cells(&pair[1]));
        assert!(first.0 < first.1 && first.1 <= second.0, "{pair:?}");
    }
}

#[test]
fn the_range_of_a_counter_has_all_of_its_cells() {
    let keys = Keys::new("name");
    for suffix in SUFFIXES {
        let counter = counter(suffix);
        let (start, end) = keys.cells(&counter);
        let base = keys.base(&counter);
        assert!(start <= base && base < end);
        for kind in [CellKind::Sum, CellKind::Max] {
            for owner in [[0; INSTANCE_BYTES], [0xff; INSTANCE_BYTES]] {
                let cell = keys.cell(&counter, kind, owner);
                assert!(start <= cell && cell < end);
                let (first, behind) = keys.cells_of_kind(&counter, kind);
                assert!(first <= cell && cell < behind && !(first <= base && base < behind));
                let (first, behind) = keys.owned_cells(&counter);
                assert!(first <= cell && cell < behind && base < first);
            }
        }
    }
}

#[test]
fn keys_of_other_stores_and_kinds_are_not_parsed() {
    let keys = Keys::new("name");
    let key = Key::new(Space(b'd'), 1, b"x");
    assert_eq!(keys.to_record(&keys.record(&key)), Some(key.clone()));
    assert_eq!(keys.to_record(&Keys::new("other").record(&key)), None);
    assert_eq!(keys.to_record(&keys.base(&counter(b""))), None);
    assert_eq!(keys.to_cell(&keys.record(&key)), None);
    assert_eq!(keys.to_cell(&keys.feed()), None);
    let mut cut = keys.cell(&counter(b"a"), CellKind::Sum, [1; INSTANCE_BYTES]);
    cut.truncate(cut.len() - 1);
    assert_eq!(keys.to_cell(&cut), None);
}

#[test]
fn the_last_space_has_an_end() {
    let keys = Keys::new("name");
    let (start, end) = keys.space(Space(0xff));
    let key = keys.record(&Key::new(Space(0xff), u64::MAX, b"\xff"));
    assert!(start <= key && key < end);
}

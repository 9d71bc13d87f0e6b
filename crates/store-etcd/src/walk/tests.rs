use bytes::Bytes;
use store::{CounterKey, Key, Space};

use super::WholeCounters;
use crate::keys::{CellKind, Keys};
use crate::rpc::KeyValue;

fn counter(partition: u64) -> CounterKey {
    CounterKey(Key::new(Space(b'n'), partition, b""))
}

fn page(keys: &Keys, cells: &[(u64, u8)]) -> Vec<KeyValue> {
    let cell = |&(partition, owner): &(u64, u8)| KeyValue {
        key: keys.cell(&counter(partition), CellKind::Sum, [owner; 8]),
        mod_revision: 5,
        value: Bytes::copy_from_slice(&2_i64.to_be_bytes()),
    };
    cells.iter().map(cell).collect()
}

/// Another store may add a cell before those of the page, so the next page begins before them.
#[test]
fn the_last_counter_of_a_full_page_is_left_whole_to_the_next_page() {
    let keys = Keys::new("n");
    let cells = page(&keys, &[(1, 4), (1, 5), (2, 7), (2, 8)]);
    let full = WholeCounters::of(&keys, cells.clone(), 4).expect("cells").expect("a counter");
    let totals = |found: &WholeCounters| -> Vec<(CounterKey, i64)> {
        found.counters.iter().map(|(counter, cells)| (counter.clone(), cells.total())).collect()
    };
    assert_eq!(totals(&full), [(counter(1), 4)]);
    let next = full.next.expect("there is another page");
    assert!(next <= keys.base(&counter(2)));
    assert!(next < keys.cell(&counter(2), CellKind::Sum, [0; 8]));
    assert!(next > keys.cell(&counter(1), CellKind::Max, [255; 8]));

    let last = WholeCounters::of(&keys, cells, 5).expect("cells").expect("counters");
    assert_eq!(totals(&last), [(counter(1), 4), (counter(2), 4)]);
    assert_eq!(last.next, None);
    let one = WholeCounters::of(&keys, page(&keys, &[(2, 7), (2, 8)]), 2).expect("cells");
    assert!(one.is_none(), "the page must be larger");
}

use bytes::Bytes;
use store::{CounterChange, CounterKey, Key, Space};

use super::{Cells, CounterWrites, OwnCells, change_known, number};
use crate::keys::{CellKind, Keys};
use crate::rpc::{KeyValue, Operand, StepKind};

fn counter() -> CounterKey {
    CounterKey(Key::new(Space(b'n'), 1, b""))
}

fn cell(keys: &Keys, kind: CellKind, owner: u8, number: i64) -> KeyValue {
    let key = match kind {
        CellKind::Base => keys.base(&counter()),
        CellKind::Sum | CellKind::Max => keys.cell(&counter(), kind, [owner; 8]),
    };
    let value = Bytes::copy_from_slice(&number.to_be_bytes());
    KeyValue { key, mod_revision: 5, value }
}

fn total(cells: &[(CellKind, u8, i64)]) -> i64 {
    let keys = Keys::new("n");
    let cells = cells.iter().map(|&(kind, owner, number)| cell(&keys, kind, owner, number));
    Cells::parse(&keys, cells.collect()).expect("cells").total()
}

#[test]
fn a_counter_is_the_sum_or_the_maximum_of_its_cells() {
    use CellKind::{Base, Max, Sum};
    assert_eq!(total(&[]), 0);
    assert_eq!(total(&[(Base, 0, 10), (Sum, 1, 3), (Sum, 2, -4)]), 9);
    assert_eq!(total(&[(Base, 0, 10), (Max, 1, 3), (Max, 2, 12)]), 12);
    assert_eq!(total(&[(Base, 0, -10), (Max, 1, -3)]), -3);
    assert_eq!(total(&[(Max, 1, -3)]), 0, "a missing counter counts as 0");
}

/// Returns the number that the first step puts.
fn put(writes: &CounterWrites) -> i64 {
    match writes.steps.first().and_then(|step| step.kind.as_ref()) {
        Some(StepKind::Put(put)) => number(&put.value).expect("a number"),
        other => panic!("a put is the first step, not {other:?}"),
    }
}

fn revision(writes: &CounterWrites) -> Option<i64> {
    writes.compare.first().and_then(|compare| match compare.operand {
        Some(Operand::Mod(revision)) => Some(revision),
        _ => None,
    })
}

#[test]
fn an_addition_builds_on_the_cell_that_this_process_has_written() {
    let (keys, own) = (Keys::new("n"), OwnCells::new([1; 8], 10));
    let add = CounterChange::By { add: 3, floor: None };
    let mut writes = CounterWrites::default();
    assert!(own.change(&keys, &counter(), add, &mut writes));
    assert_eq!((put(&writes), revision(&writes)), (3, Some(0)));
    own.committed(writes, 17);
    let mut writes = CounterWrites::default();
    assert!(own.change(&keys, &counter(), add, &mut writes));
    assert_eq!((put(&writes), revision(&writes)), (6, Some(17)));
}

#[test]
fn a_fold_forgets_the_own_cell() {
    let (keys, own) = (Keys::new("n"), OwnCells::new([1; 8], 10));
    let add = CounterChange::By { add: 3, floor: None };
    let mut writes = CounterWrites::default();
    own.change(&keys, &counter(), add, &mut writes);
    own.committed(writes, 17);
    let cells = Cells::parse(&keys, vec![cell(&keys, CellKind::Sum, 1, 3)]).expect("cells");
    let mut writes = CounterWrites::default();
    change_known(&keys, &counter(), add, (&cells, 17), &mut writes);
    assert_eq!(put(&writes), 6);
    own.committed(writes, 18);
    let mut writes = CounterWrites::default();
    own.change(&keys, &counter(), add, &mut writes);
    assert_eq!((put(&writes), revision(&writes)), (3, Some(0)));
}

#[test]
fn both_an_addition_and_a_maximum_need_the_value() {
    let (keys, own) = (Keys::new("n"), OwnCells::new([1; 8], 10));
    let both = CounterChange::By { add: 3, floor: Some(9) };
    assert!(!own.change(&keys, &counter(), both, &mut CounterWrites::default()));
}

use bytes::Bytes;
use store::{CounterKey, Guard, Key, Plan, Space, Write};

use super::{Counter, OptimisticBatch};

fn key(name: &str) -> Key {
    Key::new(Space(b'd'), 1, name.as_bytes())
}

fn counter(name: &str) -> CounterKey {
    CounterKey(key(name))
}

fn put(name: &str) -> Write {
    Write::Put(key(name), Bytes::from_static(b"x"))
}

fn equals(name: &str, value: &'static str) -> Guard {
    Guard::Equals(key(name), Bytes::from_static(value.as_bytes()))
}

fn plan(guards: impl Into<Vec<Guard>>, writes: impl Into<Vec<Write>>) -> Plan {
    Plan { guards: guards.into(), writes: writes.into() }
}

#[test]
fn guarded_puts_are_updates_and_others_are_inserts() {
    let guards = [equals("a", "1"), Guard::Present(key("b")), Guard::Absent(key("c"))];
    let writes = [put("a"), put("b"), put("c"), put("d"), Write::Delete(key("e"))];
    let plans = [plan(guards, writes), plan([equals("a2", "1")], [put("d2")])];
    let batch = OptimisticBatch::of(&plans).expect("an optimistic batch");
    let names = |names: &[&str]| names.iter().map(|name| key(name)).collect::<Vec<_>>();
    let found = |keys: Vec<&[u8]>| {
        keys.into_iter().map(|key| Key::from_bytes(key.to_vec())).collect::<Vec<_>>()
    };
    assert_eq!(found(batch.equal.keys().copied().collect()), names(&["a", "a2"]));
    assert_eq!(found(batch.held.iter().copied().collect()), names(&["b"]));
    assert_eq!(found(batch.absent.iter().copied().collect()), names(&["c", "d", "d2"]));
    assert_eq!(found(batch.updates.keys().copied().collect()), names(&["a", "b"]));
    assert_eq!(found(batch.news.keys().copied().collect()), names(&["c", "d", "d2"]));
    assert_eq!(found(batch.deletes.iter().copied().collect()), names(&["e"]));
    assert_eq!(batch.locks.len(), 7);
    assert!(!batch.entry.is_empty());
}

#[test]
fn counters_have_the_order_of_conflict_waves() {
    let writes = [
        Write::Add(counter("c"), 2),
        Write::Max(counter("b"), 7),
        Write::Add(counter("a"), 1),
        Write::Max(counter("a"), 9),
        Write::Add(counter("z"), 5),
        Write::Add(counter("z"), -5),
    ];
    let plans = [plan([], writes), plan([], [Write::Add(counter("c"), 3)])];
    let batch = OptimisticBatch::of(&plans).expect("an optimistic batch");
    let [a, b, c] = ["a", "b", "c"].map(key);
    let expected = [
        Counter { key: c.as_bytes(), add: 5, floor: None },
        Counter { key: b.as_bytes(), add: 0, floor: Some(7) },
        Counter { key: a.as_bytes(), add: 1, floor: Some(9) },
    ];
    assert_eq!(batch.counters, expected);
}

#[test]
fn batches_that_need_an_order_are_not_optimistic() {
    let unusual: [&[Plan]; 8] = [
        &[plan([], [put("a")]), plan([equals("a", "x")], [])],
        &[plan([], [put("a")]), plan([], [put("a")])],
        &[plan([], [put("a")]), plan([], [Write::Delete(key("a"))])],
        &[plan([equals("a", "1")], []), plan([equals("a", "2")], [])],
        &[plan([equals("a", "1")], []), plan([Guard::Absent(key("a"))], [])],
        &[plan([Guard::Empty(key("a"), key("b"))], [])],
        &[plan([], [Write::Set(counter("a"), 1)])],
        &[plan([], [Write::Clear(counter("a"))])],
    ];
    for plans in unusual {
        assert!(OptimisticBatch::of(plans).is_none(), "{plans:?}");
    }
    let many = |count: usize| {
        let adds = (0..count).map(|number| Write::Add(counter(&number.to_string()), 1));
        [plan([], adds.collect::<Vec<_>>())]
    };
    assert!(OptimisticBatch::of(&many(256)).is_some());
    assert!(OptimisticBatch::of(&many(257)).is_none());
}

use bytes::Bytes;
use store::{Assumptions, CounterKey, Guard, Key, Plan, Space, Write};

use super::{Arguments, Counter};

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

fn is_called(plans: &[Plan]) -> bool {
    let decision = Assumptions::new(plans).decide().expect("a decision");
    Arguments::of(&decision, plans).is_some()
}

#[test]
fn guarded_puts_are_updates_and_others_are_inserts() {
    let guards = [equals("a", "1"), Guard::Present(key("b")), Guard::Absent(key("c"))];
    let writes = [put("a"), put("b"), put("c"), put("d"), Write::Delete(key("e"))];
    let range = Guard::Empty(key("p"), key("q"));
    let plans = [plan(guards, writes), plan([equals("a2", "1"), range], [put("d2")])];
    let decision = Assumptions::new(&plans).decide().expect("a decision");
    let arguments = Arguments::of(&decision, &plans).expect("arguments");
    let names = |names: &[&str]| names.iter().map(|name| key(name)).collect::<Vec<_>>();
    let found =
        |keys: &[&[u8]]| keys.iter().map(|key| Key::from_bytes(key.to_vec())).collect::<Vec<_>>();
    assert_eq!(found(&arguments.equal.0), names(&["a", "a2"]));
    assert_eq!(found(&arguments.held), names(&["b"]));
    assert_eq!(found(&arguments.absent), names(&["c", "d", "d2"]));
    assert_eq!(found(&arguments.ranges.0), names(&["p"]));
    assert_eq!(found(&arguments.ranges.1), names(&["q"]));
    assert_eq!(found(&arguments.updates.0), names(&["a", "b"]));
    assert_eq!(found(&arguments.news.0), names(&["c", "d", "d2"]));
    assert_eq!(found(&arguments.deletes), names(&["e"]));
    assert_eq!(arguments.locks.len(), 7);
    assert!(!arguments.entry.is_empty());
}

#[test]
fn counters_have_the_order_of_all_processes() {
    let writes = [
        Write::Add(counter("c"), 2),
        Write::Max(counter("b"), 7),
        Write::Add(counter("a"), 1),
        Write::Max(counter("a"), 9),
        Write::Add(counter("z"), 5),
        Write::Add(counter("z"), -5),
        Write::Set(counter("s"), 4),
        Write::Clear(counter("t")),
    ];
    let plans = [plan([], writes), plan([], [Write::Add(counter("c"), 3)])];
    let decision = Assumptions::new(&plans).decide().expect("a decision");
    let arguments = Arguments::of(&decision, &plans).expect("arguments");
    let [a, b, c] = ["a", "b", "c"].map(key);
    let expected = [
        Counter { key: c.as_bytes(), add: 5, floor: None },
        Counter { key: b.as_bytes(), add: 0, floor: Some(7) },
        Counter { key: a.as_bytes(), add: 1, floor: Some(9) },
    ];
    assert_eq!(arguments.counters, expected);
    assert_eq!(arguments.sets, (vec![key("s").as_bytes()], vec![4]));
    assert_eq!(arguments.clears, [key("t").as_bytes()]);
}

#[test]
fn bounds_count_the_additions_of_all_plans() {
    let at_most = |most| Guard::AtMost(counter("a"), most);
    let plans = [
        plan([at_most(10)], [Write::Add(counter("a"), 2)]),
        plan([at_most(20)], [Write::Add(counter("a"), 3)]),
        plan([Guard::AtMost(counter("b"), 7)], []),
    ];
    let decision = Assumptions::new(&plans).decide().expect("a decision");
    let arguments = Arguments::of(&decision, &plans).expect("arguments");
    // The first plan allows 8 before the batch, hence 13 after it.
    let [a, b] = ["a", "b"].map(key);
    assert_eq!(arguments.bounds, (vec![a.as_bytes(), b.as_bytes()], vec![13, 7]));
    assert_eq!(arguments.counters.len(), 2);
    let raised = [plans[0].clone(), plan([], [Write::Max(counter("a"), 3)])];
    assert!(!is_called(&raised));
}

#[test]
fn batches_with_too_many_changes_are_not_called() {
    let many = |count: usize| {
        let adds = (0..count).map(|number| Write::Add(counter(&number.to_string()), 1));
        [plan([], adds.collect::<Vec<_>>())]
    };
    assert!(is_called(&many(256)));
    assert!(!is_called(&many(257)));
}

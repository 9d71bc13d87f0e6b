use store::{CounterKey, Guard, Key, Plan, Space, Value, Write};

use super::MergedBatch;

fn key(number: u64) -> Key {
    Key::new(Space(b'I'), number, b"")
}

fn value(text: &str) -> Value {
    Value::copy_from_slice(text.as_bytes())
}

fn is_merged(plans: &[(Vec<Guard>, Vec<Write>)]) -> bool {
    let plan = |(guards, writes): &(Vec<Guard>, Vec<Write>)| Plan {
        guards: guards.clone(),
        writes: writes.clone(),
    };
    let plans: Vec<Plan> = plans.iter().map(plan).collect();
    MergedBatch::merge(&plans).is_some()
}

#[test]
fn a_guard_on_an_earlier_write_of_the_batch_must_hold() {
    let put = || (vec![], vec![Write::Put(key(1), value("new"))]);
    let then = |guard| is_merged(&[put(), (vec![guard], vec![])]);
    assert!(then(Guard::Equals(key(1), value("new"))));
    assert!(then(Guard::Present(key(1))));
    assert!(!then(Guard::Equals(key(1), value("old"))));
    assert!(!then(Guard::Absent(key(1))));
    let delete = || (vec![], vec![Write::Delete(key(1))]);
    assert!(is_merged(&[delete(), (vec![Guard::Absent(key(1))], vec![])]));
    assert!(!is_merged(&[delete(), (vec![Guard::Present(key(1))], vec![])]));
}

#[test]
fn guards_that_cannot_all_hold_are_not_merged() {
    let both = |one: &Guard, other: &Guard| {
        is_merged(&[(vec![one.clone()], vec![]), (vec![other.clone()], vec![])])
    };
    let (equals, absent, present) =
        (Guard::Equals(key(1), value("a")), Guard::Absent(key(1)), Guard::Present(key(1)));
    assert!(both(&equals, &equals) && both(&equals, &present) && both(&present, &equals));
    assert!(!both(&equals, &absent) && !both(&absent, &present));
    assert!(!both(&equals, &Guard::Equals(key(1), value("b"))));
}

#[test]
fn ranges_are_not_merged() {
    let dentry = |number| Key::new(Space(b'd'), number, b"");
    assert!(!is_merged(&[(vec![Guard::Empty(dentry(1), dentry(2))], vec![])]));
}

#[test]
fn counter_changes_of_one_kind_are_merged() {
    let counter = || CounterKey(key(1));
    let both = |one, other| is_merged(&[(vec![], vec![one]), (vec![], vec![other])]);
    assert!(both(Write::Add(counter(), 1), Write::Add(counter(), -2)));
    assert!(both(Write::Max(counter(), 1), Write::Max(counter(), 2)));
    assert!(both(Write::Add(counter(), 1), Write::Clear(counter())));
    assert!(!both(Write::Add(counter(), 1), Write::Max(counter(), 2)));
    assert!(!both(Write::Clear(counter()), Write::Add(counter(), 1)));
}

use crate::{CounterKey, Guard, Key, Plan, Space, Value, Write};

use super::makes_room;

const SPARED: &[Space] = &[Space(b'o')];

fn key(space: u8, name: &str) -> Key {
    Key::new(Space(space), 1, name.as_bytes())
}

fn value(bytes: usize) -> Value {
    vec![7; bytes].into()
}

fn goes(guards: impl Into<Vec<Guard>>, writes: impl Into<Vec<Write>>) -> bool {
    makes_room(&Plan { guards: guards.into(), writes: writes.into() }, SPARED)
}

#[test]
fn what_only_deletes_goes_and_what_only_puts_does_not() {
    let (at, counter) = (key(b'd', "a"), CounterKey(key(b'n', "")));
    assert!(goes([], [Write::Delete(at.clone()), Write::Add(counter.clone(), -1)]));
    assert!(goes([], []));
    assert!(!goes([Guard::Absent(at.clone())], [Write::Put(at.clone(), value(0))]));
    assert!(!goes([Guard::Present(at.clone())], [Write::Put(at.clone(), value(1))]));
}

#[test]
fn a_record_that_is_replaced_goes_if_it_grows_by_nothing() {
    let at = key(b'd', "a");
    let guard = || [Guard::Equals(at.clone(), value(100))];
    assert!(goes(guard(), [Write::Put(at.clone(), value(100))]));
    assert!(!goes(guard(), [Write::Put(at.clone(), value(101))]));
}

#[test]
fn what_is_deleted_counts_if_it_is_certainly_there() {
    let (old, new) = (key(b'd', "old"), key(b'd', "new"));
    let writes = [Write::Delete(old.clone()), Write::Put(new, value(50))];
    assert!(goes([Guard::Equals(old.clone(), value(50))], writes.clone()));
    assert!(!goes([Guard::Equals(old.clone(), value(49))], writes.clone()));
    assert!(!goes([Guard::Present(old)], writes.clone()));
    assert!(!goes([], writes));
}

#[test]
fn what_is_spared_does_not_count() {
    let (name, orphan) = (key(b'd', "a"), key(b'o', "b"));
    let guard = [Guard::Equals(name.clone(), value(8))];
    assert!(goes(guard, [Write::Delete(name), Write::Put(orphan, value(4_000))]));
}

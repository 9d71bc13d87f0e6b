use crate::{CounterKey, Guard, Key, Plan, Space, Value, Write};

use super::frees_space;

const SPARED: &[Space] = &[Space(b'o')];

fn key(space: u8, name: &str) -> Key {
    Key::new(Space(space), 1, name.as_bytes())
}

fn value(bytes: usize) -> Value {
    vec![7; bytes].into()
}

fn frees(guards: impl Into<Vec<Guard>>, writes: impl Into<Vec<Write>>) -> bool {
    frees_space(&Plan { guards: guards.into(), writes: writes.into() }, SPARED)
}

#[test]
fn deletes_free_space_and_puts_do_not() {
    let (at, counter) = (key(b'd', "a"), CounterKey(key(b'n', "")));
    assert!(frees([], [Write::Delete(at.clone()), Write::Add(counter.clone(), -1)]));
    assert!(frees([], []));
    assert!(!frees([Guard::Absent(at.clone())], [Write::Put(at.clone(), value(0))]));
    assert!(!frees([Guard::Present(at.clone())], [Write::Put(at.clone(), value(1))]));
}

#[test]
fn a_replacement_frees_space_if_it_is_not_larger() {
    let at = key(b'd', "a");
    let guard = || [Guard::Equals(at.clone(), value(100))];
    assert!(frees(guard(), [Write::Put(at.clone(), value(100))]));
    assert!(!frees(guard(), [Write::Put(at.clone(), value(101))]));
}

#[test]
fn deletes_count_only_if_a_guard_shows_that_the_record_exists() {
    let (old, new) = (key(b'd', "old"), key(b'd', "new"));
    let writes = [Write::Delete(old.clone()), Write::Put(new, value(50))];
    assert!(frees([Guard::Equals(old.clone(), value(50))], writes.clone()));
    assert!(!frees([Guard::Equals(old.clone(), value(49))], writes.clone()));
    assert!(!frees([Guard::Present(old)], writes.clone()));
    assert!(!frees([], writes));
}

#[test]
fn puts_into_spared_spaces_do_not_count() {
    let (name, orphan) = (key(b'd', "a"), key(b'o', "b"));
    let guard = [Guard::Equals(name.clone(), value(8))];
    assert!(frees(guard, [Write::Delete(name), Write::Put(orphan, value(4_000))]));
}

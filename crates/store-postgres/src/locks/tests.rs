use store::{Guard, Key, Plan, Space, Value, Write};

use super::{lock_hash, locks};

fn key(name: &str) -> Key {
    Key::new(Space(b'd'), 1, name.as_bytes())
}

/// With another hash, processes of two versions would not exclude each other.
#[test]
fn the_lock_hash_of_a_key_never_changes() {
    let hashes = ["", "a", "b"].map(|name| lock_hash(&key(name)));
    assert_eq!(hashes, [1_613_153_622, 1_718_049_629, 1_718_052_360]);
}

#[test]
fn locks_are_sorted_and_exclusive_for_written_keys() {
    let put = |name: &str| Write::Put(key(name), Value::from_static(b"x"));
    let guards = vec![Guard::Absent(key("a")), Guard::Absent(key("b"))];
    let plans = [
        Plan { guards, writes: vec![] },
        Plan { guards: vec![], writes: vec![put("b"), put("c")] },
    ];
    let found = locks(&plans);
    let mut expected: Vec<(i32, bool)> =
        [("a", false), ("b", true), ("c", true)].map(|(name, w)| (lock_hash(&key(name)), w)).into();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

/// The absent key may be the owner of the empty range.
#[test]
fn an_absence_is_locked_exclusively_in_a_plan_with_an_empty_range() {
    let guards = vec![Guard::Absent(key("a")), Guard::Empty(key("b"), key("c"))];
    assert_eq!(locks(&[Plan { guards, writes: vec![] }]), [(lock_hash(&key("a")), true)]);
}

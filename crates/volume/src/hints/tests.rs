use record::{Dentry, key};

use super::*;

fn dentry(name: &[u8]) -> (Key, Value) {
    let key = key::dentry(Ino(9), name);
    let value = Dentry::file(Ino(10)).encode(&key);
    (key, value)
}

#[test]
fn what_a_plan_wrote_is_remembered_and_what_it_deleted_is_not() {
    let hints = HintMemory::new(1 << 20);
    let (key, value) = dentry(b"a");
    let put = Plan { guards: Vec::new(), writes: vec![Write::Put(key.clone(), value.clone())] };
    hints.apply(&put);
    assert_eq!(hints.record(&key), Some(Some(value)));
    assert_eq!(hints.sibling(Ino(9), b"b"), Some(key.clone()));
    assert_eq!(hints.sibling(Ino(9), b"a"), None, "not the name itself");
    hints.apply(&Plan { guards: Vec::new(), writes: vec![Write::Delete(key.clone())] });
    assert_eq!(hints.record(&key), None);
    assert_eq!(hints.sibling(Ino(9), b"b"), None);
}

#[test]
fn large_values_and_other_spaces_are_not_remembered() {
    let hints = HintMemory::new(1 << 20);
    let inode = key::inode(Ino(7));
    hints.remember(&inode, &Value::from(vec![1; 100]));
    hints.remember(&inode, &Value::from(vec![0; HINT_VALUE_BYTES_MAX + 1]));
    assert_eq!(hints.record(&inode), None, "the smaller one is outdated");
    hints.remember(&key::map_page(Ino(7), 0), &Value::from_static(b"page"));
    assert_eq!(hints.record(&key::map_page(Ino(7), 0)), None);
}

#[test]
fn memory_is_bounded() {
    let hints = HintMemory::new(64 << 10);
    for n in 0..10_000_u32 {
        let (key, value) = dentry(format!("{n}").as_bytes());
        hints.remember(&key, &value);
    }
    assert!(hints.records.weight() <= 64 << 10, "{} bytes", hints.records.weight());
    assert!(hints.records.len() > 50, "and used");
}

/// The beginning of a record is no record: it is not remembered, and does not outdate one.
#[test]
fn what_came_cut_is_not_remembered() {
    let hints = HintMemory::new(1 << 20);
    let (slot, bound) = dentry(b"a");
    let target = key::inode(Ino(10));
    let follow = store::Follow { most: Some(4), ..key::dentry_to_inode() };
    let read = [Read::Record { key: slot.clone(), follow: Some(follow.clone()) }];
    let found = |record: &'static [u8]| {
        let target = follow.found(Some(Value::from_static(record)));
        let entry = Entry { key: slot.clone(), value: bound.clone(), target };
        [Found::Record(Some(entry))]
    };
    hints.learn(&read, &found(b"whole"));
    assert_eq!(hints.record(&target), None);
    assert_eq!(hints.record(&slot), Some(Some(bound.clone())), "what came whole is");
    hints.remember(&target, &Value::from_static(b"the record"));
    hints.learn(&read, &found(b"whole"));
    assert_eq!(hints.record(&target), Some(Some(Value::from_static(b"the record"))));
    hints.learn(&read, &found(b"few"));
    assert_eq!(hints.record(&target), Some(Some(Value::from_static(b"few"))));
}

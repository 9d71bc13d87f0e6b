use std::time::Duration;

use record::{Attributes, Body, Content, Dentry, File, Inode, ObjectHeaders, Tag, Timestamp, key};
use runtime::Moment;
use store::{MemoryStore, MetaStore as _};

use super::*;
use crate::mirror::Mirrored;

fn dentry(name: &[u8]) -> (Key, Value) {
    let key = key::dentry(Ino(9), name);
    let value = Dentry::file(Ino(10)).encode(&key);
    (key, value)
}

/// Hints without a mirror.
fn memory(bytes: u64) -> HintMemory {
    HintMemory::new(bytes, &Mirror::new(0))
}

#[test]
fn what_a_plan_wrote_is_remembered_and_what_it_deleted_is_not() {
    let hints = memory(1 << 20);
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
    let hints = memory(1 << 20);
    let inode = key::inode(Ino(7));
    hints.remember(&inode, &Value::from(vec![1; 100]));
    hints.remember(&inode, &Value::from(vec![0; HINT_VALUE_BYTES_MAX + 1]));
    assert_eq!(hints.record(&inode), None, "the smaller one is outdated");
    hints.remember(&key::map_page(Ino(7), 0), &Value::from_static(b"page"));
    assert_eq!(hints.record(&key::map_page(Ino(7), 0)), None);
}

#[test]
fn memory_is_bounded() {
    let hints = memory(64 << 10);
    for n in 0..10_000_u32 {
        let (key, value) = dentry(format!("{n}").as_bytes());
        hints.remember(&key, &value);
    }
    assert!(hints.records.weight() <= 64 << 10, "{} bytes", hints.records.weight());
    assert!(hints.records.len() > 50, "and used");
}

fn file(ino: u64, content: Content) -> (Key, Value) {
    let file = File {
        size: 2_000,
        data_version: 1,
        links: 1,
        tag: Tag::Md5([0; 16]),
        sums: Vec::new(),
        object: ObjectHeaders::default(),
        parts: Vec::new(),
        content,
    };
    let now = Timestamp(1);
    let attributes = Attributes { mode: 0o644, uid: 0, gid: 0, changed: now, modified: now };
    let key = key::inode(Ino(ino));
    let value = Inode { attributes, body: Body::File(Box::new(file)) }.encode(&key);
    (key, value)
}

fn put((key, value): (Key, Value)) -> Plan {
    Plan { guards: Vec::new(), writes: vec![Write::Put(key, value)] }
}

#[test]
fn inodes_push_out_inodes_alone() {
    let hints = memory(1 << 20);
    let name = dentry(b"a");
    hints.apply(&put(name.clone()));
    let inos = 0..500;
    for ino in inos.clone() {
        hints.apply(&put(file(ino, Content::Inline(vec![7; 2_000].into()))));
    }
    let forgotten = |ino: &u64| hints.record(&key::inode(Ino(*ino))).is_none();
    let forgotten = inos.filter(forgotten).count();
    assert!(forgotten > 200, "there is no room for so many, {forgotten}");
    assert_eq!(hints.record(&name.0), Some(Some(name.1)));
    assert!(hints.inodes.weight() + hints.records.weight() <= 1 << 20);
}

/// The beginning of a record is no record: it is not remembered, and does not outdate one.
#[test]
fn what_came_cut_is_not_remembered() {
    let hints = memory(1 << 20);
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

#[tokio::test]
async fn what_was_pushed_out_is_known_from_the_mirror() {
    let mirror = Mirror::new(1 << 20);
    mirror.rely(Moment::now().after(Duration::from_mins(1)));
    let store = Mirrored::new(Arc::new(MemoryStore::new()), Arc::clone(&mirror));
    let hints = HintMemory::new(1 << 20, &mirror);
    let (key, value) = dentry(b"a");
    let put = Plan { guards: Vec::new(), writes: vec![Write::Put(key.clone(), value.clone())] };
    store.commit(&[put]).await.unwrap();
    assert_eq!(hints.record(&key), Some(Some(value)));
    mirror.leave();
    assert_eq!(hints.record(&key), None);
}

use std::sync::Arc;
use std::time::Duration;

use namespace::Hints;
use record::{
    Attributes, Content, Dentry, File, InlineBytes, Ino, Inode, InodeBody, ObjectHeaders, Tag,
    Timestamp, key,
};
use runtime::Moment;
use store::{Entry, Key, MemoryStore, MetaStore, Plan, Read, ReadResult, Value, Write};

use super::super::{Basis, HINT_VALUE_BYTES_MAX, RecordCache};
use super::behind;

fn dentry(name: &[u8]) -> (Key, Value) {
    let key = key::dentry(Ino(9), name);
    let value = Dentry::file(Ino(10)).encode(&key);
    (key, value)
}

/// A memory of hints alone.
fn memory(bytes: u64) -> Arc<RecordCache> {
    RecordCache::new(bytes, false)
}

#[test]
fn written_records_are_hints_and_deleted_ones_are_not() {
    let hints = memory(1 << 20);
    let (key, value) = dentry(b"a");
    let put = Plan { guards: Vec::new(), writes: vec![Write::Put(key.clone(), value.clone())] };
    hints.note_committed(&put);
    assert_eq!(hints.record(&key), Some(Some(value)));
    assert_eq!(hints.sibling(Ino(9), b"b"), Some(key.clone()));
    assert_eq!(hints.sibling(Ino(9), b"a"), None, "not the name itself");
    hints.note_committed(&Plan { guards: Vec::new(), writes: vec![Write::Delete(key.clone())] });
    assert_eq!(hints.record(&key), None);
    assert_eq!(hints.sibling(Ino(9), b"b"), None);
}

#[test]
fn large_values_and_other_spaces_are_not_cached() {
    let hints = memory(1 << 20);
    let inode = key::inode(Ino(7));
    hints.note_refusal(&inode, Some(&Value::from(vec![1; 100])));
    hints.note_refusal(&inode, Some(&Value::from(vec![0; HINT_VALUE_BYTES_MAX + 1])));
    assert_eq!(hints.record(&inode), None, "the smaller one is outdated");
    hints.note_refusal(&key::map_page(Ino(7), 0), Some(&Value::from_static(b"page")));
    assert_eq!(hints.record(&key::map_page(Ino(7), 0)), None);
}

#[test]
fn memory_is_bounded() {
    let hints = memory(64 << 10);
    for n in 0..10_000_u32 {
        let (key, value) = dentry(format!("{n}").as_bytes());
        hints.note_refusal(&key, Some(&value));
    }
    for ino in 0..10_000 {
        hints.note_refusal(&key::inode(Ino(ino)), Some(&Value::from_static(b"inode")));
        hints.note_refusal(&key::dentry(Ino(ino), b"name"), Some(&Value::from_static(b"bound")));
    }
    let weight = hints.entries.weight();
    assert!((40 << 10..=64 << 10).contains(&weight), "{weight} bytes");
}

fn file(ino: u64, content: Content) -> (Key, Value) {
    let file = File {
        size: 2_000,
        data_version: 1,
        links: 1,
        sparse: false,
        marked_in_dentry: false,
        writer: None,
        tag: Tag::Md5([0; 16]),
        sums: Vec::new(),
        object: ObjectHeaders::default(),
        parts: Vec::new(),
        renamed_by: None,
        pages_made: 0,
        encryption: None,
        content,
    };
    let now = Timestamp(1);
    let attributes = Attributes::new(0o644, 0, 0, now);
    let key = key::inode(Ino(ino));
    let body = InodeBody::File(Box::new(file));
    let value = Inode { attributes, bucket: Ino::ROOT, xattrs: Vec::new(), body }.encode(&key);
    (key, value)
}

fn put((key, value): (Key, Value)) -> Plan {
    Plan { guards: Vec::new(), writes: vec![Write::Put(key, value)] }
}

#[test]
fn inodes_evict_only_inodes() {
    let hints = memory(1 << 20);
    let name = dentry(b"a");
    hints.note_committed(&put(name.clone()));
    let inos = 0..500;
    for ino in inos.clone() {
        hints.note_committed(&put(file(
            ino,
            Content::Inline(InlineBytes::plain(vec![7; 2_000].into())),
        )));
    }
    let forgotten = |ino: &u64| hints.record(&key::inode(Ino(*ino))).is_none();
    let forgotten = inos.filter(forgotten).count();
    assert!(forgotten > 200, "there is no room for so many, {forgotten}");
    assert_eq!(hints.record(&name.0), Some(Some(name.1)));
    assert!(hints.entries.weight() <= 1 << 20);
}

/// The beginning of a record is no record: it is not remembered, and does not outdate one.
#[test]
fn cut_records_are_not_cached() {
    let hints = memory(1 << 20);
    let (slot, bound) = dentry(b"a");
    let target = key::inode(Ino(10));
    let follow = store::Follow { bytes_max: Some(4), ..key::dentry_to_inode() };
    let read = [Read::Record { key: slot.clone(), follow: Some(follow.clone()) }];
    let found = |record: &'static [u8]| {
        let target = follow.to_target(Some(Value::from_static(record)));
        let entry = Entry { key: slot.clone(), value: bound.clone(), target };
        [ReadResult::Record(Some(entry))]
    };
    hints.begin_read().found(&read, &found(b"whole"));
    assert_eq!(hints.record(&target), None);
    assert_eq!(hints.record(&slot), Some(Some(bound.clone())), "complete records are cached");
    hints.note_refusal(&target, Some(&Value::from_static(b"the record")));
    hints.begin_read().found(&read, &found(b"whole"));
    assert_eq!(hints.record(&target), Some(Some(Value::from_static(b"the record"))));
    hints.begin_read().found(&read, &found(b"few"));
    assert_eq!(hints.record(&target), Some(Some(Value::from_static(b"few"))));
}

#[test]
fn a_cache_of_zero_bytes_stores_nothing() {
    let hints = memory(0);
    let (key, value) = dentry(b"a");
    hints.note_refusal(&key, Some(&value));
    assert_eq!(hints.record(&key), None);
    assert_eq!(hints.sibling(Ino(9), b"b"), None);
}

/// Current entries serve planners, too, and stay as hints when peers come.
#[tokio::test]
async fn current_entries_become_hints_when_peers_come() {
    let cache = RecordCache::new(1 << 20, true);
    cache.extend_authority(Moment::now().after(Duration::from_mins(1)), Basis::Alone);
    let store = behind(&cache, Arc::new(MemoryStore::new()));
    let (key, value) = dentry(b"a");
    let (large, absent) = (key::inode(Ino(10)), key::dentry(Ino(9), b"gone"));
    let content = Value::from(vec![0; HINT_VALUE_BYTES_MAX + 1]);
    let writes = vec![
        Write::Put(key.clone(), value.clone()),
        Write::Put(large.clone(), content.clone()),
        Write::Delete(absent.clone()),
    ];
    store.commit(&[Plan { guards: Vec::new(), writes }]).await.unwrap();
    assert_eq!(cache.record(&key), Some(Some(value.clone())));
    assert_eq!(cache.record(&large), Some(Some(content)));
    assert_eq!(cache.record(&absent), Some(None));
    for _ in 0..2 {
        cache.end_authority();
        assert_eq!(cache.record(&key), Some(Some(value.clone())));
        assert_eq!(cache.record(&large), None, "it is too large for a hint");
        assert_eq!(cache.record(&absent), None, "absence is guessed");
        assert_eq!(cache.sibling(Ino(9), b"b"), Some(key.clone()));
        cache.extend_authority(Moment::now().after(Duration::from_mins(1)), Basis::Alone);
    }
    let reads = [Read::Record { key: key.clone(), follow: None }];
    assert_eq!(cache.answer(&reads), None, "it is of an earlier time");
    store.read(&reads).await.unwrap();
    assert!(cache.answer(&reads).is_some(), "it was read anew");
    cache.clear();
    assert_eq!(cache.record(&key), None);
    assert_eq!(cache.sibling(Ino(9), b"b"), None);
}

/// While a batch is in flight planners continue with the entry of before.
#[tokio::test]
async fn records_in_flight_are_hints() {
    let cache = RecordCache::new(1 << 20, true);
    cache.extend_authority(Moment::now().after(Duration::from_mins(1)), Basis::Alone);
    let store = behind(&cache, Arc::new(MemoryStore::new()));
    let (key, value) = dentry(b"a");
    store.commit(&[put((key.clone(), value.clone()))]).await.unwrap();
    let removal = [Plan { guards: Vec::new(), writes: vec![Write::Delete(key.clone())] }];
    let sending = cache.begin_batch(&removal);
    assert_eq!(cache.record(&key), Some(Some(value)));
    assert_eq!(cache.answer(&[Read::Record { key: key.clone(), follow: None }]), None);
    sending.decided(&removal, &[store::Verdict::Committed]);
    assert_eq!(cache.record(&key), Some(None));
}

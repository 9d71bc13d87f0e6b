use bytes::Bytes;
use store::Position;
use store::feed::FEED_BATCHES;

use super::{ENTRIES_MAX, EntryId, Feed, Ring, parse, with_mark};
use crate::rpc::{Event, KeyValue, WatchAnswer};

fn entry(bytes: usize) -> Bytes {
    Bytes::from(vec![1; bytes])
}

fn id(revision: i64) -> EntryId {
    EntryId { revision, mark: 1 }
}

#[test]
fn a_ring_returns_the_entries_after_one() {
    let mut ring = Ring::default();
    ring.begin(id(5));
    for revision in [7, 9, 12] {
        ring.push(id(revision), Bytes::copy_from_slice(&[u8::try_from(revision).expect("small")]));
    }
    let after = |id| ring.after(id).map(|found| found.concat());
    assert_eq!(after(id(4)), None);
    assert_eq!(after(id(5)).as_deref(), Some(&[7, 9, 12][..]));
    assert_eq!(after(id(7)).as_deref(), Some(&[9, 12][..]));
    assert_eq!(after(id(12)).as_deref(), Some(&[][..]));
    let of_other_history = |revision| EntryId { revision, mark: 2 };
    for revision in [5, 7, 12] {
        assert_eq!(after(of_other_history(revision)), None, "{revision}");
    }
    assert_eq!(after(id(8)), None, "there is no such entry");
    assert_eq!(after(id(13)), None, "there is no such entry");
}

#[test]
fn entries_of_the_same_keys_have_different_marks() {
    let kv =
        |entry: &[u8]| KeyValue { mod_revision: 4, value: with_mark(entry), ..Default::default() };
    let ((first, entry), (second, _)) = (parse(&kv(b"keys")), parse(&kv(b"keys")));
    assert_eq!(entry, Bytes::from_static(b"keys"));
    assert_eq!(first.revision, 4);
    assert_ne!(first, second);
    let (_, of_deletion) = parse(&KeyValue { mod_revision: 4, ..Default::default() });
    assert_eq!(of_deletion, Bytes::from_static(&[0, 0]));
}

#[test]
fn a_repeated_entry_is_dropped() {
    let mut ring = Ring::default();
    ring.push(id(3), entry(1));
    ring.push(id(3), entry(1));
    assert_eq!(ring.after(EntryId::default()).map(|found| found.len()), Some(1));
}

#[test]
fn a_ring_keeps_the_promised_number_of_entries() {
    let mut ring = Ring::default();
    for revision in 1..=10_000 {
        ring.push(id(revision), entry(64 << 10));
    }
    assert_eq!(ring.entries.len(), FEED_BATCHES);
    let mut ring = Ring::default();
    for revision in 1..=10_000 {
        ring.push(id(revision), entry(10));
    }
    assert_eq!(ring.entries.len(), ENTRIES_MAX);
    let oldest = 10_000 - i64::try_from(ENTRIES_MAX).expect("small");
    assert_eq!(ring.after(id(oldest)).map(|found| found.len()), Some(ENTRIES_MAX));
    assert_eq!(ring.after(id(oldest - 1)), None);
}

#[test]
fn a_position_of_another_store_is_not_parsed() {
    let (mine, other) = (Feed::new([1; 8]), Feed::new([2; 8]));
    assert_eq!(mine.entry_of(&mine.position(id(77))), Some(id(77)));
    assert_eq!(mine.entry_of(&other.position(id(77))), None);
    assert_eq!(mine.entry_of(&Position(Bytes::new())), None);
    assert_eq!(mine.entry_of(&Position(Bytes::from_static(&[1; 25]))), None);
}

#[test]
fn a_watch_of_an_earlier_beginning_adds_nothing() {
    let feed = Feed::new([1; 8]);
    let event = |revision| {
        let kv =
            KeyValue { mod_revision: revision, value: with_mark(b"keys"), ..Default::default() };
        let events = vec![Event { kind: 0, kv: Some(kv) }];
        WatchAnswer { events, ..Default::default() }
    };
    feed.begin(id(5));
    let beginnings = feed.ring().beginnings;
    assert!(feed.take(beginnings, event(6)));
    let delivered = feed.ring().last;
    feed.begin_after(id(5), id(2));
    assert_eq!(feed.ring().last, delivered, "the watch has delivered another entry since");
    feed.begin_after(delivered, id(3));
    assert!(!feed.take(beginnings, event(7)));
    assert_eq!(feed.ring().last, id(3));
    assert_eq!(*feed.delivered.borrow(), 3);
}

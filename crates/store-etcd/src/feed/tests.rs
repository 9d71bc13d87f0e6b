use bytes::Bytes;
use store::Position;
use store::feed::FEED_BATCHES;

use super::{ENTRIES_MAX, Feed, Ring};

fn entry(bytes: usize) -> Bytes {
    Bytes::from(vec![1; bytes])
}

#[test]
fn a_ring_returns_the_entries_after_a_revision() {
    let mut ring = Ring::default();
    ring.begin(5);
    for revision in [7, 9, 12] {
        ring.push(revision, Bytes::copy_from_slice(&[u8::try_from(revision).expect("small")]));
    }
    let after = |revision| ring.after(revision).map(|found| found.concat());
    assert_eq!(after(4), None);
    assert_eq!(after(5).as_deref(), Some(&[7, 9, 12][..]));
    assert_eq!(after(8).as_deref(), Some(&[9, 12][..]));
    assert_eq!(after(12).as_deref(), Some(&[][..]));
}

#[test]
fn a_repeated_entry_is_dropped() {
    let mut ring = Ring::default();
    ring.push(3, entry(1));
    ring.push(3, entry(1));
    assert_eq!(ring.after(0).map(|found| found.len()), Some(1));
}

#[test]
fn a_ring_keeps_the_promised_number_of_entries() {
    let mut ring = Ring::default();
    for revision in 1..=10_000 {
        ring.push(revision, entry(64 << 10));
    }
    assert_eq!(ring.entries.len(), FEED_BATCHES);
    let mut ring = Ring::default();
    for revision in 1..=10_000 {
        ring.push(revision, entry(10));
    }
    assert_eq!(ring.entries.len(), ENTRIES_MAX);
    let oldest = 10_000 - i64::try_from(ENTRIES_MAX).expect("small");
    assert_eq!(ring.after(oldest).map(|found| found.len()), Some(ENTRIES_MAX));
    assert_eq!(ring.after(oldest - 1), None);
}

#[test]
fn a_position_of_another_store_is_not_parsed() {
    let (mine, other) = (Feed::new([1; 8]), Feed::new([2; 8]));
    assert_eq!(mine.revision(&mine.position(77)), Some(77));
    assert_eq!(mine.revision(&other.position(77)), None);
    assert_eq!(mine.revision(&Position(Bytes::new())), None);
    assert_eq!(mine.revision(&Position(Bytes::from_static(&[1; 17]))), None);
}

use std::sync::Arc;

use bytes::Bytes;
use keyring::{FixedRing, RingError, RingErrorKind, RingKey, RingKeys};
use record::{
    Attributes, Content, DecodeError, Dentry, File, InlineBytes, Ino, Inode, InodeBody, InodeHead,
    RingNumber, Tag, Timestamp, key,
};
use store::{
    Guard, Key, MemoryStore, MetaStore, Plan, Read, ReadResult, StoreErrorKind, Target, Value,
    Verdict, Write,
};

use super::Sealing;

const MARKER: &[u8] = b"the marker of this test";
const INO: Ino = Ino(5_000);

fn ring() -> Arc<FixedRing> {
    Arc::new(FixedRing::new([(RingNumber(1), [1; 32]), (RingNumber(2), [2; 32])]))
}

fn layer(keys: Arc<dyn RingKeys>) -> (Arc<MemoryStore>, Sealing) {
    let inner = Arc::new(MemoryStore::new());
    (Arc::clone(&inner), Sealing::new(inner, keys))
}

fn inode(ring: u32, bytes: &[u8]) -> Inode {
    let bytes = Bytes::copy_from_slice(bytes);
    let size = bytes.len() as u64;
    let content = Content::Inline(InlineBytes::under(bytes, Some(RingNumber(ring))));
    let attributes = Attributes::new(0o644, 1, 2, Timestamp(3));
    let body = InodeBody::File(Box::new(File::new(size, Tag::Md5([4; 16]), content)));
    Inode { attributes, bucket: Ino::ROOT, xattrs: Vec::new(), body }
}

fn record(ring: u32, bytes: &[u8]) -> (Key, Value) {
    let at = key::inode(INO);
    let value = inode(ring, bytes).encode(&at);
    (at, value)
}

async fn put(store: &dyn MetaStore, (at, value): &(Key, Value), guards: Vec<Guard>) -> Verdict {
    let writes = vec![Write::Put(at.clone(), value.clone())];
    store.commit(&[Plan { guards, writes }]).await.unwrap().remove(0)
}

async fn get(store: &dyn MetaStore, at: &Key) -> Option<Value> {
    let reads = [Read::Record { key: at.clone(), follow: None }];
    match store.read(&reads).await.unwrap().remove(0) {
        ReadResult::Record(entry) => entry.map(|entry| entry.value),
        other => panic!("{other:?}"),
    }
}

fn has_marker(value: &[u8]) -> bool {
    value.windows(MARKER.len()).any(|window| window == MARKER)
}

#[tokio::test]
async fn the_store_has_no_content_and_readers_have_it() {
    let (inner, layer) = layer(ring());
    let written = record(1, MARKER);
    assert_eq!(
        put(&layer, &written, vec![Guard::Absent(written.0.clone())]).await,
        Verdict::Committed
    );
    let stored = get(&*inner, &written.0).await.unwrap();
    assert!(has_marker(&written.1) && !has_marker(&stored));
    assert_eq!(get(&layer, &written.0).await, Some(written.1.clone()));
    let page = layer.walk(written.0.space(), None, 10).await.unwrap();
    assert_eq!(page.records, std::slice::from_ref(&written));
    let mut snapshot = layer.snapshot().await.unwrap();
    assert_eq!(snapshot.records(10).await.unwrap(), [(written.0.clone(), stored.clone())]);
    // A listing needs no key.
    let head = InodeHead::decode(&written.0, &stored).unwrap();
    assert_eq!(head, inode(1, MARKER).head());
    assert_eq!(Inode::decode(&written.0, &stored), Err(DecodeError::Sealed(RingNumber(1))));
}

/// The bytes of a sealed record are a format: earlier volumes have them.
#[tokio::test]
async fn the_sealed_form_has_the_bytes_of_the_golden_file() {
    let (inner, layer) = layer(ring());
    let written = record(1, MARKER);
    put(&layer, &written, vec![]).await;
    let stored = get(&*inner, &written.0).await.unwrap();
    let golden = include_str!("golden/sealed_inode.hex");
    assert_eq!(hex::encode(&stored), golden.trim());
}

#[tokio::test]
async fn a_guard_compares_the_whole_record() {
    let (_, layer) = layer(ring());
    let (one, two, under_two) = (record(1, b"one"), record(1, b"two"), record(2, b"one"));
    assert_eq!(put(&layer, &one, vec![]).await, Verdict::Committed);
    for other in [&two, &under_two] {
        let guard = Guard::Equals(other.0.clone(), other.1.clone());
        let refused = put(&layer, &two, vec![guard]).await;
        assert_eq!(refused, Verdict::Refused { guard: 0, found: Some(one.1.clone()) });
    }
    let guard = Guard::Equals(one.0.clone(), one.1.clone());
    assert_eq!(put(&layer, &two, vec![guard]).await, Verdict::Committed);
    assert_eq!(get(&layer, &two.0).await, Some(two.1));
    // The same record again has the same bytes, so its guards hold again.
    assert_eq!(put(&layer, &one, vec![]).await, Verdict::Committed);
    let guard = Guard::Equals(one.0.clone(), one.1.clone());
    assert_eq!(put(&layer, &one, vec![guard]).await, Verdict::Committed);
}

#[tokio::test]
async fn a_target_is_readable_too() {
    let (inner, layer) = layer(ring());
    let written = record(2, MARKER);
    put(&layer, &written, vec![]).await;
    let slot = key::dentry(Ino::ROOT, b"file");
    put(&layer, &(slot.clone(), Dentry::file(INO).encode(&slot)), vec![]).await;
    let follow = Some(key::dentry_to_inode());
    let reads = [Read::Record { key: slot.clone(), follow: follow.clone() }];
    let target = |found: Vec<ReadResult>| match &found[0] {
        ReadResult::Record(Some(entry)) => entry.target.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(target(layer.read(&reads).await.unwrap()), Target::Whole(written.1.clone()));
    assert_ne!(target(inner.read(&reads).await.unwrap()), Target::Whole(written.1.clone()));
    let (start, end) = key::partition(slot.space(), Ino::ROOT.0);
    let range = [Read::Range { start, end, limit: 10, follow }];
    match &layer.read(&range).await.unwrap()[0] {
        ReadResult::Range(entries) => assert_eq!(entries[0].target, Target::Whole(written.1)),
        other => panic!("{other:?}"),
    }
}

/// Sealed plans are longer than the batch that the caller has measured.
#[tokio::test]
async fn a_full_batch_fits() {
    let (inner, layer) = layer(ring());
    let bytes = vec![7; 256 << 10];
    let plan = |number: u64| {
        let at = key::inode(Ino(number));
        let value = inode(1, &bytes).encode(&at);
        Plan { guards: vec![Guard::Absent(at.clone())], writes: vec![Write::Put(at, value)] }
    };
    let most = inner.limits().batch_bytes;
    let mut plans = Vec::new();
    while plans.iter().map(Plan::bytes).sum::<usize>() + plan(1).bytes() <= most {
        plans.push(plan(5_000 + plans.len() as u64));
    }
    // The last one fills the batch.
    let left = most - plans.iter().map(Plan::bytes).sum::<usize>();
    let at = Key::new(record::key::space::EPOCH, 9, b"");
    let filler = Value::from(vec![0; left - at.as_bytes().len()]);
    plans.push(Plan { guards: Vec::new(), writes: vec![Write::Put(at, filler)] });
    assert_eq!(plans.iter().map(Plan::bytes).sum::<usize>(), most);
    let verdicts = layer.commit(&plans).await.unwrap();
    assert_eq!(verdicts, vec![Verdict::Committed; plans.len()]);
}

/// A ring whose keys do not answer.
#[derive(Debug)]
struct Silent;

#[async_trait::async_trait]
impl RingKeys for Silent {
    async fn key(&self, number: RingNumber) -> Result<Arc<RingKey>, RingError> {
        let cause = "no answer".to_owned();
        Err(RingError { number, kind: RingErrorKind::Unavailable, cause })
    }
}

#[tokio::test]
async fn a_missing_key_fails_the_records_that_need_it_alone() {
    let inner = Arc::new(MemoryStore::new());
    let all = Sealing::new(Arc::clone(&inner) as Arc<dyn MetaStore>, ring());
    let written = record(2, MARKER);
    put(&all, &written, vec![]).await;
    let without = Arc::new(FixedRing::new([(RingNumber(1), [1; 32])]));
    let some = Sealing::new(Arc::clone(&inner) as Arc<dyn MetaStore>, without);
    let sealed = get(&some, &written.0).await.unwrap();
    assert_eq!(Inode::decode(&written.0, &sealed), Err(DecodeError::Sealed(RingNumber(2))));
    // Another plan of the batch is committed.
    let other = key::epoch();
    let plan = |key: &Key, value: Value| Plan {
        guards: Vec::new(),
        writes: vec![Write::Put(key.clone(), value)],
    };
    let plans = [
        plan(&written.0, written.1.clone()),
        plan(&other, Value::from_static(b"x")),
        plan(&written.0, record(1, b"other").1),
    ];
    let verdicts = some.commit(&plans).await.unwrap();
    let failed = Verdict::Failed(StoreErrorKind::Corrupt);
    assert_eq!(verdicts, [failed, Verdict::Committed, Verdict::Committed]);
    let silent = Sealing::new(inner, Arc::new(Silent));
    let error = silent.commit(&plans[..1]).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
}

#[tokio::test]
async fn a_changed_record_does_not_open() {
    let (inner, layer) = layer(ring());
    let written = record(1, MARKER);
    put(&layer, &written, vec![]).await;
    let stored = get(&*inner, &written.0).await.unwrap();
    for place in 0..stored.len() {
        let mut changed = stored.to_vec();
        changed[place] ^= 1;
        // A flipped bit that comes with a matching checksum is an attack.
        let changed = with_checksums(&written.0, changed);
        if changed == stored {
            // The bit was one of a checksum.
            continue;
        }
        put(&*inner, &(written.0.clone(), changed), vec![]).await;
        let found = get(&layer, &written.0).await.unwrap();
        let opened = Inode::decode(&written.0, &found);
        assert!(opened.is_err(), "byte {place}: {opened:?}");
    }
    // The record of another inode is not this one's.
    let other = key::inode(Ino(INO.0 + 1));
    let moved = with_checksums(&other, stored.to_vec());
    put(&*inner, &(other.clone(), moved), vec![]).await;
    let found = get(&layer, &other).await.unwrap();
    assert!(Inode::decode(&other, &found).is_err());
}

/// Returns the bytes with right checksums of the head and of the record.
fn with_checksums(key: &Key, mut bytes: Vec<u8>) -> Value {
    let crc = |bytes: &[u8]| crc32c::crc32c_append(crc32c::crc32c(key.as_bytes()), bytes);
    // The head has fewer than 128 bytes, so its length is the byte behind the format.
    let head_end = 2 + usize::from(bytes[1]);
    if head_end + 4 <= bytes.len() {
        let head = (!crc(&bytes[..head_end])).to_be_bytes();
        bytes[head_end..head_end + 4].copy_from_slice(&head);
    }
    let end = bytes.len() - 4;
    let all = crc(&bytes[..end]).to_be_bytes();
    bytes[end..].copy_from_slice(&all);
    bytes.into()
}

async fn fresh() -> (Arc<dyn MetaStore>, ()) {
    let (_, layer) = layer(ring());
    (Arc::new(layer), ())
}

mod conformance {
    store::conformance!(futures::executor::block_on, super::fresh);
}

/// A ring whose key 1 is closed: content under it can be read, and nothing is written under it.
#[derive(Debug)]
struct Closed(Arc<FixedRing>);

#[async_trait::async_trait]
impl RingKeys for Closed {
    async fn key(&self, number: RingNumber) -> Result<Arc<RingKey>, RingError> {
        self.0.key(number).await
    }

    async fn key_to_write(&self, number: RingNumber) -> Result<Arc<RingKey>, RingError> {
        match number {
            RingNumber(1) => {
                let cause = "it is closed".to_owned();
                Err(RingError { number, kind: RingErrorKind::Unavailable, cause })
            }
            other => self.key(other).await,
        }
    }
}

#[tokio::test]
async fn a_record_under_a_closed_key_is_replaced_and_not_written() {
    let inner = Arc::new(MemoryStore::new());
    let open = Sealing::new(Arc::clone(&inner) as Arc<dyn MetaStore>, ring());
    let (old, new) = (record(1, MARKER), record(2, MARKER));
    put(&open, &old, vec![]).await;
    let closed = Sealing::new(inner, Arc::new(Closed(ring())));
    let guard = Guard::Equals(old.0.clone(), old.1.clone());
    let writes = vec![Write::Put(old.0.clone(), old.1.clone())];
    let refused = closed.commit(&[Plan { guards: vec![guard.clone()], writes }]).await;
    assert_eq!(refused.unwrap_err().kind(), StoreErrorKind::Unavailable);
    assert_eq!(put(&closed, &new, vec![guard]).await, Verdict::Committed);
    assert_eq!(get(&closed, &new.0).await, Some(new.1));
}

#[tokio::test]
async fn a_guard_on_a_record_under_a_removed_key_does_not_hold() {
    let inner = Arc::new(MemoryStore::new());
    let without = Arc::new(FixedRing::new([(RingNumber(2), [2; 32])]));
    let layer = Sealing::new(inner, without);
    let (old, new) = (record(1, MARKER), record(2, MARKER));
    put(&layer, &new, vec![]).await;
    // A process remembers the record from before the removal.
    let guard = Guard::Equals(old.0.clone(), old.1.clone());
    let refused = put(&layer, &record(2, b"other"), vec![guard]).await;
    assert_eq!(refused, Verdict::Refused { guard: 0, found: Some(new.1) });
}

//! The head that a listing reads shows if an inode has extended attributes.

use std::sync::Arc;

use faulty::Faulty;
use record::{
    Attributes, Dentry, Directory, Ino, Inode, InodeBody, Kind, Timestamp, Xattr, XattrPlace, key,
};
use store::{MetaStore, Plan, Read, Write};

use super::super::{Basis, RecordCache};
use super::behind;
use super::currency::for_long;
use crate::cached_store::CachedStore;

const LISTED: Ino = Ino(2);

fn bench() -> (Arc<Faulty>, Arc<RecordCache>, CachedStore) {
    let (store, cache) = (Faulty::new(), RecordCache::new(1 << 20, true));
    cache.extend_authority(for_long(), Basis::Alone);
    cache.track_xattrs();
    let cached = behind(&cache, store.clone());
    (store, cache, cached)
}

/// An inode that is longer than its head.
fn inode(ino: Ino, with_xattrs: bool) -> Write {
    let name = b"user.a".to_vec();
    let xattr = Xattr { name, value: XattrPlace::Inline(b"value".to_vec()) };
    let inode = Inode {
        attributes: Attributes::new(0o644, 0, 0, Timestamp(5)),
        bucket: LISTED,
        xattrs: with_xattrs.then_some(xattr).into_iter().collect(),
        body: InodeBody::Directory(Directory { parent: LISTED, name: vec![b'n'; 300] }),
    };
    let key = key::inode(ino);
    let record = inode.encode(&key);
    Write::Put(key, record)
}

/// Names of some inodes, every third of which has attributes.
fn names(inodes: std::ops::Range<u64>) -> Plan {
    let name = |ino: u64| {
        let slot = key::dentry(LISTED, format!("{ino:04}").as_bytes());
        let dentry = Dentry::of(Ino(ino), Kind::File).encode(&slot);
        [Write::Put(slot, dentry), inode(Ino(ino), ino.is_multiple_of(3))]
    };
    Plan { guards: Vec::new(), writes: inodes.flat_map(name).collect() }
}

/// The reads of one page of a listing.
fn page() -> [Read; 1] {
    let (start, end) = (key::dentry(LISTED, b"0"), key::dentry(LISTED, b"9"));
    [Read::Range { start, end, limit: 1_000, follow: Some(key::dentry_to_head()) }]
}

fn change(ino: u64) -> [Plan; 1] {
    [Plan { guards: Vec::new(), writes: vec![inode(Ino(ino), true)] }]
}

#[tokio::test]
async fn a_listing_shows_which_inodes_have_no_xattrs() {
    let (store, cache, cached) = bench();
    store.commit_now(&[names(10..30)]).await;
    assert!(!cache.has_no_xattrs(Ino(10)), "no listing has read it");
    cached.read(&page()).await.unwrap();
    for ino in 10..30 {
        assert_eq!(cache.has_no_xattrs(Ino(ino)), ino % 3 != 0, "{ino}");
    }
    assert!(!cache.has_no_xattrs(Ino(31)));
}

#[tokio::test]
async fn a_changed_inode_may_have_xattrs_from_its_sending_on() {
    let (store, cache, cached) = bench();
    store.commit_now(&[names(10..30)]).await;
    cached.read(&page()).await.unwrap();
    let sending = cache.begin_batch(&change(10));
    assert!(!cache.has_no_xattrs(Ino(10)), "it may have some since then");
    assert!(cache.has_no_xattrs(Ino(11)));
    // A page that was sent before the change is no evidence.
    let reading = cache.begin_read();
    let found = store.read(&page()).await.unwrap();
    let verdicts = store.commit(&change(10)).await.unwrap();
    sending.decided(&change(10), &verdicts);
    reading.found(&page(), &found);
    assert!(!cache.has_no_xattrs(Ino(10)));
    cached.read(&page()).await.unwrap();
    assert!(!cache.has_no_xattrs(Ino(10)));
}

#[tokio::test]
async fn xattrs_are_unknown_with_peers() {
    let (store, cache, cached) = bench();
    store.commit_now(&[names(10..30)]).await;
    cached.read(&page()).await.unwrap();
    cache.forget(&key::inode(Ino(10)));
    assert!(!cache.has_no_xattrs(Ino(10)));
    cache.end_authority();
    assert!(!cache.has_no_xattrs(Ino(11)));
    store.commit_now(&change(11)).await;
    cache.extend_authority(for_long(), Basis::Alone);
    assert!(!cache.has_no_xattrs(Ino(11)), "another session existed in between");
    drop(cache.begin_batch(&change(13)));
    cached.read(&page()).await.unwrap();
    assert!(!cache.has_no_xattrs(Ino(13)), "the outcome of its change is unknown");
    assert!(cache.has_no_xattrs(Ino(14)));
    cache.clear();
    assert!(!cache.has_no_xattrs(Ino(14)));
}

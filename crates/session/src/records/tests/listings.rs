//! Directories that were listed as a whole: absent names and pages need no read.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use faulty::Faulty;
use record::{Dentry, Ino, Kind, key};
use store::{Entry, Guard, Key, MetaStore, Plan, Read, ReadResult, Write};

use super::super::pages::after;
use super::super::{Basis, Pages, RecordCache};
use super::behind;
use super::complete_directories::known;
use super::currency::for_long;
use crate::cached_store::CachedStore;

pub(super) const LISTED: Ino = Ino(5);

pub(super) struct Bench {
    pub(super) store: Arc<Faulty>,
    pub(super) cache: Arc<RecordCache>,
    pub(super) cached: CachedStore,
}

/// A directory with these names that another session has created.
pub(super) async fn bench(bytes: u64, names: impl Iterator<Item = u64>) -> Bench {
    let (store, cache) = (Faulty::new(), RecordCache::new(bytes, true));
    cache.extend_authority(for_long(), Basis::Leases);
    let cached = behind(&cache, store.clone());
    let plan = Plan { guards: Vec::new(), writes: names.flat_map(binds).collect() };
    store.commit_now(&[plan]).await;
    Bench { store, cache, cached }
}

pub(super) fn slot(name: u64) -> Key {
    key::dentry(LISTED, format!("{name:04}").as_bytes())
}

pub(super) fn inode(name: u64) -> Key {
    key::inode(Ino(1_000 + name))
}

fn binds(name: u64) -> [Write; 2] {
    let slot = slot(name);
    let dentry = Dentry::of(Ino(1_000 + name), Kind::File).encode(&slot);
    let record = Bytes::copy_from_slice(&name.to_be_bytes());
    [Write::Put(slot, dentry), Write::Put(inode(name), record)]
}

pub(super) fn adds(name: u64) -> [Plan; 1] {
    [Plan { guards: vec![Guard::Absent(slot(name))], writes: binds(name).into() }]
}

pub(super) fn removes(name: u64) -> [Plan; 1] {
    [Plan {
        guards: Vec::new(),
        writes: vec![Write::Delete(slot(name)), Write::Delete(inode(name))],
    }]
}

fn page(start: Key, limit: u32) -> [Read; 1] {
    let end = key::dentries(LISTED).1;
    [Read::Range { start, end, limit, follow: Some(key::dentry_to_inode()) }]
}

fn first_page(limit: u32) -> [Read; 1] {
    page(key::dentries(LISTED).0, limit)
}

fn names(found: &[ReadResult]) -> Vec<Key> {
    let [ReadResult::Range(entries)] = found else { panic!("{found:?} is no page") };
    assert!(entries.iter().all(|entry| entry.target.whole().is_some()), "the inodes are there");
    entries.iter().map(|entry: &Entry| entry.key.clone()).collect()
}

impl Bench {
    /// Reads a page as a mount does.
    async fn read(&self, page: &[Read; 1]) -> Vec<Key> {
        let reading = self.cache.begin_read();
        let found = self.cached.read(page).await.unwrap();
        reading.found_pages(page, &found, Pages::Nodes);
        names(&found)
    }

    /// Returns a page as far as the cache knows it without a read.
    fn remembered(&self, page: &[Read; 1]) -> Option<Vec<Key>> {
        self.cache.answer(page).map(|found| names(&found))
    }

    pub(super) fn reads(&self) -> u64 {
        self.store.reads.load(Ordering::SeqCst)
    }
}

pub(super) fn slots(names: impl IntoIterator<Item = u64>) -> Vec<Key> {
    names.into_iter().map(slot).collect()
}

#[tokio::test]
async fn a_listed_directory_answers_its_pages_names_and_inodes() {
    let bench = bench(4 << 20, 0..10).await;
    assert_eq!(bench.remembered(&first_page(100)), None, "it was not listed yet");
    bench.read(&first_page(100)).await;
    let reads = bench.reads();
    assert_eq!(bench.read(&first_page(100)).await, slots(0..10));
    assert_eq!(bench.read(&first_page(4)).await, slots(0..4));
    assert_eq!(bench.read(&page(slot(4), 3)).await, slots(4..7));
    assert_eq!(bench.read(&page(slot(9), 1)).await, slots(9..10));
    assert_eq!(known(&bench.cache, LISTED, "0004"), Some(true));
    assert_eq!(known(&bench.cache, LISTED, "0077"), Some(false));
    let inodes = [0, 9].map(|name| Read::Record { key: inode(name), follow: None });
    bench.cached.read(&inodes).await.unwrap();
    assert_eq!(bench.reads(), reads, "all of it came from memory");
}

/// Background work does not ask to keep its pages.
#[tokio::test]
async fn a_page_that_is_not_kept_teaches_few_names() {
    let bench = bench(4 << 20, 0..10).await;
    bench.cached.read(&first_page(100)).await.unwrap();
    assert_eq!(known(&bench.cache, LISTED, "0002"), None);
    assert_eq!(known(&bench.cache, LISTED, "0077"), None);
    assert_eq!(bench.remembered(&first_page(100)), None);
}

#[tokio::test]
async fn pages_without_a_gap_make_a_directory_complete() {
    let bench = bench(4 << 20, 0..10).await;
    bench.read(&first_page(4)).await;
    bench.read(&page(after(&slot(5)), 2)).await;
    bench.read(&page(after(&slot(7)), 4)).await;
    assert_eq!(known(&bench.cache, LISTED, "0077"), None, "a page in the middle is missing");
    bench.read(&page(after(&slot(3)), 4)).await;
    assert_eq!(known(&bench.cache, LISTED, "0077"), None, "the last page is not read after it");
    bench.read(&page(after(&slot(7)), 4)).await;
    assert_eq!(known(&bench.cache, LISTED, "0077"), Some(false));
    assert_eq!(bench.remembered(&first_page(100)), Some(slots(0..10)));
}

#[tokio::test]
async fn a_new_generation_ends_a_listing() {
    let bench = bench(4 << 20, 0..10).await;
    bench.read(&first_page(4)).await;
    bench.cache.end_authority();
    bench.cache.extend_authority(for_long(), Basis::Leases);
    bench.read(&page(after(&slot(3)), 100)).await;
    assert_eq!(
        known(&bench.cache, LISTED, "0077"),
        None,
        "its first page is of another generation"
    );
    bench.read(&first_page(100)).await;
    assert_eq!(known(&bench.cache, LISTED, "0077"), Some(false));
    bench.cache.end_authority();
    bench.cache.extend_authority(for_long(), Basis::Leases);
    assert_eq!(known(&bench.cache, LISTED, "0077"), None);
    assert_eq!(bench.remembered(&first_page(100)), None);
}

#[tokio::test]
async fn pages_follow_the_batches_of_this_session() {
    let bench = bench(4 << 20, 0..4).await;
    bench.read(&first_page(100)).await;
    let reads = bench.reads();
    bench.cached.commit(&adds(7)).await.unwrap();
    bench.cached.commit(&removes(2)).await.unwrap();
    assert_eq!(bench.read(&first_page(100)).await, slots([0, 1, 3, 7]));
    assert_eq!(bench.reads(), reads);
    // The name is registered when the batch is sent, and its outcome stays unknown.
    drop(bench.cache.begin_batch(&adds(8)));
    assert_eq!(bench.remembered(&first_page(100)), None);
    assert_eq!(bench.remembered(&first_page(4)), Some(slots([0, 1, 3, 7])));
}

#[tokio::test]
async fn pages_follow_the_notices_of_peers() {
    let bench = bench(4 << 20, 0..4).await;
    bench.read(&first_page(100)).await;
    let added = [slot(7), inode(7)];
    bench.cache.peer_batch_sent(&added);
    assert_eq!(bench.remembered(&first_page(100)), None, "the new name may be there");
    assert_eq!(bench.remembered(&first_page(4)), Some(slots(0..4)));
    let removed = [slot(2), inode(2)];
    bench.cache.peer_batch_sent(&removed);
    assert_eq!(bench.remembered(&first_page(4)), None, "the old name may be gone");
    assert_eq!(bench.remembered(&first_page(2)), Some(slots([0, 1])));
    bench.store.commit_now(&[adds(7), removes(2)].concat()).await;
    bench.cache.peer_batch_ended(&added);
    bench.cache.peer_batch_ended(&removed);
    assert_eq!(bench.remembered(&first_page(100)), None, "the names were not read again");
    assert_eq!(bench.read(&first_page(100)).await, slots([0, 1, 3, 7]));
    assert_eq!(bench.remembered(&first_page(100)), Some(slots([0, 1, 3, 7])));
    assert_eq!(known(&bench.cache, LISTED, "0002"), Some(false));
}

/// The order of two batches that race is not known, so a name that one of them removes may exist.
#[tokio::test]
async fn a_name_whose_removal_raced_is_not_absent() {
    let bench = bench(4 << 20, 0..4).await;
    bench.read(&first_page(100)).await;
    let removal = removes(2);
    let removing = bench.cache.begin_batch(&removal);
    let adding = bench.cache.begin_batch(&adds(2));
    removing.decided(&removal, &[store::Verdict::Committed]);
    assert_eq!(known(&bench.cache, LISTED, "0002"), None);
    assert_eq!(bench.remembered(&first_page(100)), None);
    adding.not_committed();
    assert_eq!(known(&bench.cache, LISTED, "0002"), None, "it was not read again");
}

/// A page may lack the names of batches that were in flight while it was read.
#[tokio::test]
async fn names_that_raced_with_a_page_are_not_absent() {
    let bench = bench(4 << 20, 0..4).await;
    let reads = first_page(100);
    let reading = bench.cache.begin_read();
    let found = bench.cached.read(&reads).await.unwrap();
    bench.cache.peer_batch_sent(&[slot(7)]);
    let unknown = bench.cache.begin_batch(&adds(8));
    drop(unknown);
    bench.cached.commit(&adds(9)).await.unwrap();
    reading.found_pages(&reads, &found, Pages::Nodes);
    for name in ["0007", "0008"] {
        assert_eq!(known(&bench.cache, LISTED, name), None, "{name} may be there");
    }
    assert_eq!(known(&bench.cache, LISTED, "0009"), Some(true));
    assert_eq!(known(&bench.cache, LISTED, "0077"), Some(false));
    assert_eq!(bench.remembered(&reads), None);
    assert_eq!(bench.remembered(&first_page(4)), Some(slots(0..4)));
}

#[tokio::test]
async fn a_created_directory_answers_its_pages() {
    let bench = bench(4 << 20, 0..0).await;
    let place = key::dentry(Ino(1), b"listed/");
    let dentry = Dentry::of(LISTED, Kind::Directory).encode(&place);
    let guards = vec![Guard::Absent(key::inode(LISTED))];
    let made = Write::Put(key::inode(LISTED), Bytes::from_static(b"a directory"));
    let makes = Plan { guards, writes: vec![Write::Put(place, dentry), made] };
    bench.cached.commit(&[makes]).await.unwrap();
    assert_eq!(bench.remembered(&first_page(100)), Some(Vec::new()));
    bench.cached.commit(&adds(1)).await.unwrap();
    bench.cached.commit(&adds(0)).await.unwrap();
    assert_eq!(bench.remembered(&first_page(100)), Some(slots(0..2)));
    assert_eq!(bench.reads(), 0);
}

#[tokio::test]
async fn a_large_listing_is_not_kept_and_evicts_no_other() {
    let bench = bench(256 << 10, 0..400).await;
    let made = super::complete_directories::makes(Ino(7), &[]);
    bench.cached.commit(&[made]).await.unwrap();
    let mut start = key::dentries(LISTED).0;
    for _ in 0..4 {
        let read = bench.read(&page(start, 100)).await;
        start = after(read.last().unwrap());
    }
    bench.read(&page(start, 100)).await;
    assert_eq!(known(&bench.cache, LISTED, "0777"), None);
    assert_eq!(known(&bench.cache, Ino(7), "a"), Some(false));
    assert!(bench.cache.complete_directories.weight() < 2 << 10);
}

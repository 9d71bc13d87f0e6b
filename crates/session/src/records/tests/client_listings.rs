//! Listings of S3 clients: pages with the heads of inodes, apart from the records that writers
//! need.

use bytes::Bytes;
use record::key;
use store::{Key, MetaStore, Plan, Read, ReadResult, Target, Write};

use super::super::{Basis, Pages, RecordCache};
use super::complete_directories::known;
use super::currency::for_long;
use super::listings::{Bench, LISTED, adds, bench, inode, removes, slot, slots};

fn page_of(directory: record::Ino, start: Option<&Key>, limit: u32) -> [Read; 1] {
    let (first, end) = key::dentries(directory);
    let start = start.cloned().unwrap_or(first);
    [Read::Range { start, end, limit, follow: Some(key::dentry_to_head()) }]
}

fn page(start: Option<&Key>, limit: u32) -> [Read; 1] {
    page_of(LISTED, start, limit)
}

fn names(found: &[ReadResult]) -> Vec<Key> {
    let [ReadResult::Range(entries)] = found else { panic!("{found:?} is no page") };
    assert!(entries.iter().all(|entry| entry.target != Target::Absent), "the heads are there");
    entries.iter().map(|entry| entry.key.clone()).collect()
}

impl Bench {
    /// Reads a page as an S3 client does.
    async fn list(&self, page: &[Read; 1]) -> Vec<Key> {
        let reading = self.cache.begin_read();
        let found = self.cached.read(page).await.unwrap();
        reading.found_pages(page, &found, Pages::Heads);
        names(&found)
    }

    /// Returns a page as far as the cache knows it without a read.
    fn listed(&self, page: &[Read; 1]) -> Option<Vec<Key>> {
        self.cache.answer(page).map(|found| names(&found))
    }
}

/// Writes an inode that names are bound to.
fn changes(name: u64, record: &'static [u8]) -> [Plan; 1] {
    let writes = vec![Write::Put(inode(name), Bytes::from_static(record))];
    [Plan { guards: Vec::new(), writes }]
}

/// Returns the head that a page shows for a name.
fn head(cache: &RecordCache, name: u64) -> Option<Vec<u8>> {
    let found = cache.answer(&page(Some(&slot(name)), 1))?;
    let [ReadResult::Range(entries)] = &found[..] else { panic!("{found:?} is no page") };
    entries[0].target.first_bytes().map(<[u8]>::to_vec)
}

#[tokio::test]
async fn a_second_listing_needs_no_read() {
    let bench = bench(4 << 20, 0..10).await;
    assert_eq!(bench.listed(&page(None, 100)), None, "it was not listed yet");
    bench.list(&page(None, 100)).await;
    let reads = bench.reads();
    assert_eq!(bench.list(&page(None, 100)).await, slots(0..10));
    assert_eq!(bench.list(&page(None, 4)).await, slots(0..4));
    assert_eq!(bench.list(&page(Some(&slot(4)), 3)).await, slots(4..7));
    assert_eq!(bench.list(&page(Some(&slot(4)), 100)).await, slots(4..10));
    assert_eq!(bench.list(&page_of(LISTED, Some(&slot(77)), 9)).await, slots(0..0));
    assert_eq!(bench.reads(), reads, "all of it came from memory");
    assert_eq!(known(&bench.cache, LISTED, "0077"), Some(false));
    let whole = [Read::Record { key: inode(2), follow: None }];
    assert_eq!(bench.cache.answer(&whole), None, "a head is no record");
    let mut nodes = page(None, 100);
    let [Read::Range { follow, .. }] = &mut nodes else { panic!("it is a range") };
    *follow = Some(key::dentry_to_inode());
    assert_eq!(bench.cache.answer(&nodes), None, "a head is no record");
}

#[tokio::test]
async fn first_pages_are_answered_while_the_last_are_unknown() {
    let bench = bench(4 << 20, 0..10).await;
    bench.list(&page(None, 4)).await;
    assert_eq!(bench.listed(&page(None, 4)), Some(slots(0..4)));
    assert_eq!(bench.listed(&page(None, 5)), None);
    assert_eq!(bench.listed(&page(Some(&slot(2)), 3)), None);
    assert_eq!(known(&bench.cache, LISTED, "0002x"), Some(false));
    assert_eq!(known(&bench.cache, LISTED, "0077"), None);
    bench.list(&page(Some(&slot(5)), 100)).await;
    assert_eq!(bench.listed(&page(Some(&slot(5)), 2)), None, "the page before is missing");
    bench.list(&page(Some(&slot(3)), 3)).await;
    bench.list(&page(Some(&slot(5)), 100)).await;
    assert_eq!(bench.listed(&page(None, 100)), Some(slots(0..10)));
}

#[tokio::test]
async fn listings_follow_the_batches_of_this_session() {
    let bench = bench(4 << 20, 0..4).await;
    bench.list(&page(None, 100)).await;
    let reads = bench.reads();
    bench.cached.commit(&adds(7)).await.unwrap();
    bench.cached.commit(&removes(2)).await.unwrap();
    bench.cached.commit(&changes(1, b"changed")).await.unwrap();
    assert_eq!(bench.list(&page(None, 100)).await, slots([0, 1, 3, 7]));
    assert_eq!(head(&bench.cache, 1).as_deref(), Some(&b"changed"[..]));
    assert_eq!(known(&bench.cache, LISTED, "0002"), Some(false));
    assert_eq!(bench.reads(), reads);
    // The name is registered when the batch is sent, and its outcome stays unknown.
    drop(bench.cache.begin_batch(&adds(8)));
    assert_eq!(bench.listed(&page(None, 100)), None);
    assert_eq!(bench.listed(&page(None, 4)), Some(slots([0, 1, 3, 7])));
}

#[tokio::test]
async fn listings_follow_the_notices_of_peers() {
    let bench = bench(4 << 20, 0..4).await;
    bench.list(&page(None, 100)).await;
    let added = [slot(7), inode(7)];
    bench.cache.peer_batch_sent(&added);
    assert_eq!(bench.listed(&page(None, 100)), None, "the new name may be there");
    assert_eq!(bench.listed(&page(None, 4)), Some(slots(0..4)));
    let changed = [inode(1)];
    bench.cache.peer_batch_sent(&changed);
    assert_eq!(bench.listed(&page(None, 4)), None, "the inode may have changed");
    assert_eq!(bench.listed(&page(None, 1)), Some(slots(0..1)));
    let removed = [slot(2), inode(2)];
    bench.cache.peer_batch_sent(&removed);
    assert_eq!(bench.listed(&page(Some(&slot(2)), 1)), None, "the old name may be gone");
    let plans = [adds(7), removes(2), changes(1, b"changed")].concat();
    bench.store.commit_now(&plans).await;
    for keys in [&added[..], &changed[..], &removed[..]] {
        bench.cache.peer_batch_ended(keys);
    }
    assert_eq!(bench.listed(&page(None, 100)), None, "the names were not read again");
    let reads = bench.reads();
    assert_eq!(bench.list(&page(None, 100)).await, slots([0, 1, 3, 7]));
    assert_eq!(bench.list(&page(None, 100)).await, slots([0, 1, 3, 7]));
    assert_eq!(bench.reads(), reads + 1);
    assert_eq!(head(&bench.cache, 1).as_deref(), Some(&b"changed"[..]));
}

/// A page may lack the names, and have the old heads, of batches that raced with its read.
#[tokio::test]
async fn records_that_raced_with_a_listing_are_unknown() {
    let bench = bench(4 << 20, 0..4).await;
    let reads = page(None, 100);
    let reading = bench.cache.begin_read();
    let found = bench.cached.read(&reads).await.unwrap();
    bench.cache.peer_batch_sent(&[slot(7)]);
    bench.cache.peer_batch_sent(&[inode(1)]);
    bench.cache.peer_batch_ended(&[inode(1)]);
    bench.cached.commit(&adds(9)).await.unwrap();
    reading.found_pages(&reads, &found, Pages::Heads);
    assert_eq!(known(&bench.cache, LISTED, "0007"), None, "it may be there");
    assert_eq!(known(&bench.cache, LISTED, "0009"), Some(true));
    assert_eq!(known(&bench.cache, LISTED, "0077"), Some(false));
    assert_eq!(bench.listed(&page(Some(&slot(1)), 1)), None, "the inode may have changed");
    assert_eq!(bench.listed(&page(Some(&slot(2)), 2)), Some(slots(2..4)));
    assert_eq!(bench.listed(&reads), None);
}

#[tokio::test]
async fn a_new_generation_ends_a_client_listing() {
    let bench = bench(4 << 20, 0..10).await;
    bench.list(&page(None, 4)).await;
    bench.cache.end_authority();
    bench.list(&page(None, 100)).await;
    bench.cache.extend_authority(for_long(), Basis::Leases);
    assert_eq!(bench.listed(&page(None, 4)), None);
    bench.list(&page(Some(&slot(4)), 100)).await;
    assert_eq!(bench.listed(&page(Some(&slot(4)), 4)), None, "its first page is of another one");
    bench.list(&page(None, 100)).await;
    assert_eq!(bench.listed(&page(None, 100)), Some(slots(0..10)));
    bench.cache.forget(&slot(3));
    assert!(bench.listed(&page(None, 100)).is_some(), "the notice came before the feed's report");
    bench.cache.extend_authority(for_long(), Basis::Alone);
    bench.cache.forget(&slot(3));
    assert_eq!(bench.listed(&page(None, 100)), None, "the change came without notice");
}

/// A page of a listing that is read again replaces the names of its part.
#[tokio::test]
async fn listings_that_are_read_again_take_no_more_memory() {
    let bench = bench(4 << 20, 0..100).await;
    bench.list(&page(None, 1_000)).await;
    let weight = bench.cache.listings.weight();
    assert_eq!(weight.1, 100);
    for name in 0..100 {
        bench.cache.peer_batch_sent(&[slot(name), inode(name)]);
        bench.cache.peer_batch_ended(&[slot(name), inode(name)]);
    }
    assert_eq!(bench.cache.listings.weight().1, 0, "no head is left");
    bench.list(&page(None, 1_000)).await;
    assert_eq!(bench.cache.listings.weight(), weight);
}

/// The first names of a large directory are kept, and no other listing is evicted for it.
#[tokio::test]
async fn a_large_listing_takes_a_share_of_the_memory() {
    let bench = bench(1 << 20, 0..2_000).await;
    let small = record::Ino(77);
    bench.list(&page_of(small, None, 10)).await;
    let mut last: Option<Key> = None;
    for _ in 0..20 {
        let start = last.as_ref().map(super::super::pages::after);
        last = bench.list(&page(start.as_ref(), 40)).await.last().cloned();
        assert!(bench.cache.listings.weight().0 <= (128 << 10) / 4 + 1_000);
    }
    assert_eq!(bench.listed(&page_of(small, None, 10)), Some(Vec::new()));
    assert_eq!(bench.listed(&page(None, 40)), Some(slots(0..40)));
    assert_eq!(bench.listed(&page(None, 1_000)), None);
}

/// A scan of many directories evicts neither the records of writers nor a listing that is used.
#[tokio::test]
async fn a_scan_of_directories_evicts_only_its_own_pages() {
    let bench = bench(256 << 10, 0..10).await;
    let made = super::complete_directories::makes(record::Ino(7), &["a"]);
    bench.cached.commit(&[made]).await.unwrap();
    for name in 0..10 {
        let record = [Read::Record { key: slot(name), follow: Some(key::dentry_to_inode()) }];
        bench.cached.read(&record).await.unwrap();
    }
    let writers = bench.cache.entries.weight();
    bench.list(&page(None, 100)).await;
    for directory in 100..1_000 {
        bench.list(&page_of(record::Ino(directory), None, 100)).await;
        assert!(bench.listed(&page(None, 100)).is_some(), "evicted by {directory}");
        assert!(bench.cache.listings.weight().0 <= 32 << 10);
    }
    assert_eq!(bench.listed(&page_of(record::Ino(100), None, 100)), None, "it was evicted");
    assert_eq!(bench.cache.entries.weight(), writers);
    assert_eq!(known(&bench.cache, record::Ino(7), "b"), Some(false));
    let pages = 100..1_000;
    let kept = pages
        .filter(|directory| bench.listed(&page_of(record::Ino(*directory), None, 100)).is_some());
    assert!(kept.count() > 10, "the last ones are kept");
}

#[test]
fn pages_of_listings_count_among_the_reads_that_gain_from_leases() {
    let cache = RecordCache::new(1 << 20, true);
    cache.set_has_peers(true);
    cache.count_listing(&page(None, 100));
    cache.count_listing(&[Read::Record { key: inode(1), follow: None }]);
    assert_eq!(cache.take_demand(), 1);
}

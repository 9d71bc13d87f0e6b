//! Reads through a cache in memory.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use block::{BlockErrorKind, BlockReader, BlockRef, SUB_BLOCK_BYTES, Sealer, sealed};
use bytes::Bytes;
use cache::{Cache, CacheOptions, PAGE_OVERHEAD_BYTES, SCAN_MEMORY_BYTES};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::odd::{Fault, Odd, block, part};

const MIB: u32 = 1 << 20;
const PAGE: u32 = SUB_BLOCK_BYTES;

async fn cache(store: Odd, memory_bytes: u32) -> Arc<Cache<Odd>> {
    let options = CacheOptions { memory_bytes: memory_bytes.into(), disk: None };
    Arc::new(Cache::open(store, options).await.unwrap())
}

/// The size of a request for these pages of a block, in bytes.
fn cost(length: u32, pages: Range<u32>) -> u64 {
    let span = sealed::span(length, sealed::content_of(length, pages)).bytes;
    span.end - span.start
}

async fn read(cache: &Cache<Odd>, block: BlockRef, range: Range<u32>) -> Bytes {
    let pieces = cache.read(block, range).await.unwrap();
    assert!(pieces.iter().all(|piece| !piece.is_empty() && piece.len() <= PAGE as usize));
    pieces.concat().into()
}

#[tokio::test]
async fn any_range_returns_exactly_its_bytes_cold_and_warm() {
    let length = 10 * PAGE + 77;
    let mut random = SmallRng::seed_from_u64(4);
    let whole = cache(Odd::default(), 64 * MIB).await;
    let (reference, content) = block(whole.inner(), 1, length).await;
    let edges = [0..length, 0..1, length - 1..length, PAGE..2 * PAGE, PAGE - 1..PAGE + 1];
    let random = (0..100).map(|_| {
        let start = random.random_range(0..length);
        start..random.random_range(start + 1..=length)
    });
    for range in edges.into_iter().chain(random) {
        let fresh = cache(Odd::default(), 64 * MIB).await;
        block(fresh.inner(), 1, length).await;
        let due = part(&content, range.clone());
        assert_eq!(fresh.in_memory(reference, range.clone()), None);
        assert!(read(&fresh, reference, range.clone()).await == due, "{range:?}, cold");
        assert!(read(&fresh, reference, range.clone()).await == due, "{range:?}, warm");
        let known = fresh.in_memory(reference, range.clone()).unwrap();
        assert!(known.concat() == due, "{range:?}, in memory");
        assert_eq!(fresh.inner().asked().0, 1);
        assert!(read(&whole, reference, range.clone()).await == due, "{range:?}, in part");
    }
    assert_eq!(whole.inner().asked(), (1, cost(length, 0..11)));
    assert_eq!(whole.read(reference, 5..5).await.unwrap(), Vec::<Bytes>::new());
    let outside = whole.read(reference, 0..length + 1).await.unwrap_err();
    assert_eq!(outside.kind(), BlockErrorKind::Corrupt);
}

#[tokio::test]
async fn cold_read_requests_adjacent_missing_pages_together() {
    let length = 16 * PAGE;
    let cache = cache(Odd::default(), 64 * MIB).await;
    let (reference, content) = block(cache.inner(), 1, length).await;
    let ask = async |range: Range<u32>| {
        assert!(read(&cache, reference, range.clone()).await == part(&content, range));
        cache.inner().asked()
    };
    assert_eq!(ask(PAGE + 5..PAGE + 9).await, (1, cost(length, 1..2)));
    assert_eq!(ask(PAGE..2 * PAGE).await, (0, 0));
    assert_eq!(ask(0..3 * PAGE).await, (1, cost(length, 0..3)), "one known page between two");
    assert_eq!(ask(5 * PAGE..7 * PAGE).await, (1, cost(length, 5..7)));
    let two = cost(length, 3..5) + cost(length, 7..9);
    assert_eq!(ask(3 * PAGE..9 * PAGE).await, (2, two), "two known pages between");
    assert_eq!(ask(8 * PAGE..10 * PAGE).await, (1, cost(length, 9..10)));
    let seen = cache.counters();
    assert_eq!((seen.admitted, cache.memory_pages()), (10, 10));
    assert_eq!(seen.fetched_bytes, cost(length, 0..3) + cost(length, 1..2) + cost(length, 3..10));
}

#[tokio::test]
async fn written_pages_are_cached_and_deleted_ones_are_not() {
    let length = 3 * PAGE + 500;
    let cache = cache(Odd::default(), 64 * MIB).await;
    let (reference, content) = block(cache.inner(), 1, length).await;
    let mut sealer = Sealer::new(reference.id, length);
    content.chunks(30_000).for_each(|piece| sealer.push_copy(piece));
    let written = sealer.finish();
    for sub_block in written.sub_blocks().skip(1) {
        cache.remember(reference.id, &sub_block);
    }
    assert_eq!(cache.in_memory(reference, 0..length), None, "the first page was not remembered");
    let known = cache.in_memory(reference, PAGE..length).unwrap();
    assert!(known.concat() == content[PAGE as usize..]);
    cache.forget(reference.id, PAGE + 1..length);
    assert!(cache.in_memory(reference, PAGE..PAGE + 1).is_some(), "a page goes as a whole");
    assert!(cache.in_memory(reference, 2 * PAGE..2 * PAGE + 1).is_none());
    assert!(cache.in_memory(reference, length - 1..length).is_some());
    let seen = cache.counters();
    assert_eq!((seen.remembered, seen.forgotten, cache.memory_pages()), (3, 1, 2));
    assert_eq!((seen.misses, seen.admitted), (0, 0), "nothing was fetched");
    assert!(read(&cache, reference, 0..length).await == content);
}

#[tokio::test(start_paused = true)]
async fn concurrent_readers_share_one_request() {
    let length = 16 * PAGE;
    let cache = cache(Odd::slow(Duration::from_millis(20)), 64 * MIB).await;
    let (reference, content) = block(cache.inner(), 1, length).await;
    let readers = (0..64).map(|_| {
        let cache = Arc::clone(&cache);
        tokio::spawn(async move { read(&cache, reference, 0..length).await })
    });
    for reader in futures::future::join_all(readers).await {
        assert!(reader.unwrap() == content);
    }
    assert_eq!(cache.inner().asked(), (1, cost(length, 0..16)));
    let seen = cache.counters();
    assert_eq!((seen.misses, seen.admitted), (16, 16));
    assert_eq!(seen.joined + seen.memory_hits, 63 * 16);
    assert!(seen.joined > 0, "some waited");
}

#[tokio::test(start_paused = true)]
async fn readers_with_crossing_ranges_do_not_deadlock() {
    let length = 64 * PAGE;
    let cache = cache(Odd::slow(Duration::from_millis(20)), 64 * MIB).await;
    let (reference, content) = block(cache.inner(), 1, length).await;
    let mut random = SmallRng::seed_from_u64(6);
    let readers: Vec<_> = (0..200)
        .map(|_| {
            let start = random.random_range(0..length);
            let range = start..random.random_range(start + 1..=length);
            let (cache, due) = (Arc::clone(&cache), part(&content, range.clone()));
            let wait = Duration::from_millis(random.random_range(0..60));
            tokio::spawn(async move {
                tokio::time::sleep(wait).await;
                assert!(read(&cache, reference, range).await == due);
            })
        })
        .collect();
    for reader in readers {
        reader.await.unwrap();
    }
    assert_eq!(cache.counters().admitted, 64, "no page was fetched for two");
}

#[tokio::test(start_paused = true)]
async fn waiter_reads_by_itself_when_the_lead_is_dropped() {
    let store = Odd::slow(Duration::from_millis(20)).fails(0, Fault::Hang);
    let cache = cache(store, 64 * MIB).await;
    let (reference, content) = block(cache.inner(), 1, 4 * PAGE).await;
    let spawn = || {
        let cache = Arc::clone(&cache);
        tokio::spawn(async move { read(&cache, reference, 0..4 * PAGE).await })
    };
    let first = spawn();
    tokio::time::sleep(Duration::from_millis(30)).await;
    let waiting: Vec<_> = (0..8).map(|_| spawn()).collect();
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(cache.inner().fired.load(Ordering::SeqCst), 1);
    first.abort();
    for reader in waiting {
        assert!(reader.await.unwrap() == content);
    }
    assert_eq!(cache.inner().asked().0, 2, "one of them read for all");
}

#[tokio::test(start_paused = true)]
async fn waiter_reads_by_itself_when_the_lead_fails() {
    let store = Odd::slow(Duration::from_millis(20)).fails(0, Fault::Unavailable);
    let cache = cache(store, 64 * MIB).await;
    let (reference, content) = block(cache.inner(), 1, 4 * PAGE).await;
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let cache = Arc::clone(&cache);
            tokio::spawn(async move { cache.read(reference, 0..4 * PAGE).await })
        })
        .collect();
    let mut failed = 0;
    for reader in readers {
        match reader.await.unwrap() {
            Ok(pieces) => assert!(pieces.concat() == content),
            Err(error) => {
                assert_eq!(error.kind(), BlockErrorKind::Unavailable);
                failed += 1;
            }
        }
    }
    assert_eq!((failed, cache.inner().fired.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test]
async fn damaged_response_is_requested_once_more_and_never_cached() {
    let cache = cache(Odd::default().fails(0, Fault::Flip), 64 * MIB).await;
    let (reference, content) = block(cache.inner(), 1, 4 * PAGE).await;
    assert!(read(&cache, reference, 0..4 * PAGE).await == content);
    assert_eq!((cache.inner().asked().0, cache.counters().second_reads), (2, 1));

    let (reference, content) = block(cache.inner(), 2, 4 * PAGE).await;
    *cache.inner().always.lock().unwrap() = Some(Fault::Flip);
    for _ in 0..2 {
        let error = cache.read(reference, PAGE..3 * PAGE).await.unwrap_err();
        assert_eq!(error.kind(), BlockErrorKind::Corrupt);
        assert_eq!(cache.in_memory(reference, PAGE..2 * PAGE), None);
    }
    assert_eq!(cache.inner().fired.load(Ordering::SeqCst), 5);
    *cache.inner().always.lock().unwrap() = None;
    assert!(read(&cache, reference, 0..4 * PAGE).await == content);
}

#[tokio::test]
async fn damage_in_the_store_does_not_affect_cached_pages() {
    let cache = cache(Odd::default(), 64 * MIB).await;
    let (reference, content) = block(cache.inner(), 1, 8 * PAGE).await;
    assert!(read(&cache, reference, 0..4 * PAGE).await == part(&content, 0..4 * PAGE));
    *cache.inner().always.lock().unwrap() = Some(Fault::Flip);
    assert!(read(&cache, reference, 0..4 * PAGE).await == part(&content, 0..4 * PAGE));
    let error = cache.read(reference, 0..8 * PAGE).await.unwrap_err();
    assert_eq!(
        error.kind(),
        BlockErrorKind::Corrupt,
        "pages that are not in memory are not invented"
    );
    assert_eq!(cache.inner().fired.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn memory_stays_within_its_capacity_and_keeps_no_responses() {
    const CAPACITY: u32 = 16 * MIB;
    const SHARDS: u64 = 2;
    let cache = cache(Odd::default(), CAPACITY).await;
    for number in 0..40 {
        let (reference, content) = block(cache.inner(), number, 4 * MIB).await;
        for start in (0..4 * MIB).step_by(MIB as usize) {
            let range = start..start + MIB;
            assert!(read(&cache, reference, range.clone()).await == part(&content, range));
        }
        let page = u64::from(PAGE) + PAGE_OVERHEAD_BYTES as u64;
        let seen = cache.counters();
        assert!(cache.memory_bytes() <= u64::from(CAPACITY) + SHARDS * page, "{seen:?}");
        assert_eq!(cache.memory_bytes(), cache.memory_pages() * page, "each page is counted");
        assert_eq!(seen.admitted, seen.evicted + cache.memory_pages(), "and each that left");
    }
    let seen = cache.counters();
    assert_eq!(seen.admitted, 40 * 64, "ten times as much as there is room for");
    assert!(cache.memory_bytes() > u64::from(CAPACITY) / 2, "the room is used");
    assert_eq!(cache.inner().held.load(Ordering::SeqCst), 0, "no answer is kept for its pages");
}

/// Fills half of a cache by reading 128 pages three times, then scans ten times the cache in
/// pieces. Returns the number of hot pages that are still cached, and the cache.
async fn scanned(piece: u32) -> (u64, Arc<Cache<Odd>>) {
    let cache = cache(Odd::default(), 16 * MIB).await;
    let mut hot = Vec::new();
    for number in 0..8 {
        hot.push(block(cache.inner(), number, MIB).await);
    }
    for _ in 0..3 {
        for (reference, content) in &hot {
            assert!(read(&cache, *reference, 0..MIB).await == *content);
        }
    }
    assert_eq!(cache.inner().asked().0, 8, "with free room all is taken at the first touch");
    for number in 100..140 {
        let (reference, content) = block(cache.inner(), number, 4 * MIB).await;
        for start in (0..4 * MIB).step_by(piece as usize) {
            let range = start..start + piece;
            assert!(read(&cache, reference, range.clone()).await == part(&content, range));
        }
    }
    let before = cache.counters().memory_hits;
    for (reference, content) in &hot {
        assert!(read(&cache, *reference, 0..MIB).await == *content);
    }
    (cache.counters().memory_hits - before, cache)
}

#[tokio::test]
async fn scan_does_not_evict_hot_pages() {
    let (hits, cache) = scanned(MIB).await;
    assert!(cache.counters().evicted > 2_000, "the scan went through the cache");
    assert!(hits * 100 >= 90 * 128, "{hits} of 128 pages are still there");
}

#[tokio::test]
async fn scan_in_large_pieces_bypasses_a_full_cache_unless_repeated() {
    let (hits, cache) = scanned(4 * MIB).await;
    assert!(hits * 100 >= 90 * 128, "{hits} of 128 pages are still there");
    let before = cache.counters();
    assert!(before.admitted < 400, "of 2,560 pages scanned few were taken: {before:?}");
    assert_eq!(cache.inner().held.load(Ordering::SeqCst), 0, "no answer is kept");
    let (reference, content) = block(cache.inner(), 139, 4 * MIB).await;
    assert!(read(&cache, reference, 0..4 * MIB).await == content);
    assert!(
        cache.counters().admitted > before.admitted + 48,
        "most are taken when they come again"
    );
}

#[tokio::test]
async fn scan_fills_a_large_memory_only_when_repeated() {
    let cache = cache(Odd::default(), 160 * MIB).await;
    let mut blocks = Vec::new();
    for number in 0..24 {
        blocks.push(block(cache.inner(), number, 4 * MIB).await);
    }
    let mut missed = Vec::new();
    for _ in 0..3 {
        let before = cache.counters().misses;
        for (reference, content) in &blocks {
            assert!(read(&cache, *reference, 0..4 * MIB).await == *content);
        }
        missed.push(cache.counters().misses - before);
        if missed.len() == 1 {
            let (first, most) = (cache.memory_bytes(), SCAN_MEMORY_BYTES as u64);
            assert!(first <= most && first > most / 4 * 3, "{first} bytes at the first touch");
        }
    }
    // Recent pages are nearly always remembered.
    let [1_536, again, 0..32] = missed[..] else {
        panic!("the third time nearly all of it is in memory: {missed:?}");
    };
    assert!((1_280..=1_344).contains(&again), "the rest comes twice: {again} pages");
}

//! Reads whose bytes are passed on as they arrive.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use block::{Observed, sealed};
use bytes::Bytes;
use cache::{Cache, CacheOptions};
use content::ContentError;
use content::{
    ARRIVAL_MEMORY_BYTES, ByteBudget, ContentStream, OPEN_AHEAD_BYTES, Reading, RecordSlices,
    Traffic,
};
use futures::{StreamExt, TryStreamExt};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use record::{Content, Slice};
use tokio::time::Instant;

use crate::bench::{Bench, DEADLINES, MIB, body};
use crate::faulty::{Fault, Faulty};

const BLOCK: u32 = 4 << 20;
const FRAME: usize = 100_000;

fn bench(faulty: Faulty) -> Bench {
    Bench::new(faulty, BLOCK, 64 * MIB)
}

fn slices(content: &Content) -> &[Slice] {
    match content {
        Content::Slices(slices) => slices,
        other => panic!("slices were due, not {other:?}"),
    }
}

fn part(body: &Bytes, range: Range<u64>) -> Bytes {
    body.slice(usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap())
}

#[tokio::test]
async fn whole_blocks_cost_one_request_each() {
    let bench = bench(Faulty::streaming(FRAME));
    let body = body(1, 16 * MIB);
    let content = bench.publish(&body).await;
    assert!(bench.read(&content, 0..16 * MIB).await.unwrap() == body);
    let whole = |slice: &Slice| (slice.block, 0..sealed::sealed_bytes(BLOCK));
    let due: Vec<_> = slices(&content).iter().map(whole).collect();
    assert_eq!(*bench.faulty.asked.lock().unwrap(), due);
    assert_eq!(bench.reading.traffic.gets.get(), 4);
    assert_eq!(bench.reading.traffic.got_bytes.get(), 16 * MIB);
    bench.settle().await;
}

#[tokio::test]
async fn any_range_gives_exactly_its_bytes_in_order() {
    for frame_bytes in [10_000, 65_540, 300_000] {
        let bench = bench(Faulty::streaming(frame_bytes));
        let mut random = SmallRng::seed_from_u64(5);
        let size = 13 * MIB + 77;
        let body = body(size, size);
        let content = bench.publish(&body).await;
        let edges = [0..size, 1..size, 0..size - 1, 4 * MIB - 1..8 * MIB + 1];
        let random = (0..20).map(|_| {
            let start = random.random_range(0..size);
            start..random.random_range(start..=size)
        });
        for range in edges.into_iter().chain(random) {
            let found = bench.read(&content, range.clone()).await.unwrap();
            assert!(found == part(&body, range.clone()), "{range:?} differs");
        }
        bench.settle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn stopped_reader_slows_the_store_and_holds_little_memory() {
    let bench = bench(Faulty::streaming(FRAME));
    let content = bench.publish(&body(1, 64 * MIB)).await;
    let mut streams: Vec<_> = (0..64).map(|_| bench.open(&content, 0..64 * MIB)).collect();
    for stream in &mut streams {
        stream.next().await.unwrap().unwrap();
    }
    tokio::time::sleep(Duration::from_mins(1)).await;
    let arrived = bench.faulty.arrived.load(Ordering::SeqCst);
    assert!(arrived <= 64 * FRAME as u64, "{arrived} bytes came for one frame each");
    assert_eq!(bench.faulty.gets.load(Ordering::SeqCst), 64, "nothing was asked for ahead");
    assert_eq!(bench.reading.budget.in_use(), 64 * ARRIVAL_MEMORY_BYTES);
    drop(streams);
    bench.settle().await;
}

#[tokio::test(start_paused = true)]
async fn next_block_is_requested_ahead_of_the_reader() {
    let bench = bench(Faulty::streaming(FRAME));
    let content = bench.publish(&body(1, 12 * MIB)).await;
    let mut stream = bench.open(&content, 0..12 * MIB);
    let mut left = BLOCK;
    let mut asked_at = None;
    while left > 0 {
        left -= u32::try_from(stream.next().await.unwrap().unwrap().len()).unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        if bench.faulty.gets.load(Ordering::SeqCst) == 2 {
            asked_at.get_or_insert(left);
        }
    }
    let asked_at = asked_at.expect("it was asked for");
    assert!(asked_at <= OPEN_AHEAD_BYTES && asked_at + (128 << 10) > OPEN_AHEAD_BYTES);
    let arrived = bench.faulty.arrived.load(Ordering::SeqCst);
    assert_eq!(arrived, sealed::sealed_bytes(BLOCK), "and nothing of it was taken");
    drop(stream);
    bench.settle().await;
}

#[tokio::test(start_paused = true)]
async fn failed_request_is_repeated_once() {
    for fault in [Fault::Flip, Fault::Short, Fault::Missing, Fault::After] {
        for number in [0, 2] {
            let bench = bench(Faulty::streaming(FRAME).get_fails(number, fault));
            let body = body(1, 13 * MIB);
            let content = bench.publish(&body).await;
            assert!(bench.read(&content, 0..13 * MIB).await.unwrap() == body, "{fault:?}");
            let second = u64::from(fault != Fault::After);
            assert_eq!((bench.faulty.fired(), bench.direct.second_reads()), (1, second));
            bench.settle().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_damaged_block_is_an_error_after_sound_bytes_and_never_data() {
    for fault in [Fault::Flip, Fault::Short, Fault::Missing, Fault::After] {
        let faulty = Faulty::streaming(FRAME);
        let bench = bench((1..99).fold(faulty, |faulty, n| faulty.get_fails(n, fault)));
        let body = body(1, 13 * MIB);
        let content = bench.publish(&body).await;
        for range in [0..13 * MIB, 100..13 * MIB - 100] {
            bench.faulty.gets.store(0, Ordering::SeqCst);
            let mut stream = bench.open(&content, range.clone());
            let mut found = Vec::new();
            let error = loop {
                match stream.next().await.expect("an error, not a short body") {
                    Ok(frame) => found.extend_from_slice(&frame),
                    Err(error) => break error,
                }
            };
            match fault {
                Fault::After => assert!(matches!(error, ContentError::Unavailable(_)), "{error}"),
                _ => assert!(matches!(error, ContentError::Corrupt(_)), "{fault:?}: {error}"),
            }
            let end = range.start + found.len() as u64;
            assert!((4 * MIB..8 * MIB).contains(&end), "the first block was sound: {end}");
            assert!(found == part(&body, range.start..end));
            assert!(stream.next().await.is_none(), "nothing follows an error");
        }
        bench.settle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn block_that_differs_from_its_record_is_an_error() {
    let bench = bench(Faulty::streaming(FRAME));
    let content = bench.publish(&body(1, 4 * MIB)).await;
    let mut slices = slices(&content).to_vec();
    slices[0].block_crc32c ^= 1;
    let mut stream = bench.open(&Content::Slices(slices), 0..4 * MIB);
    let mut bytes = 0;
    let error = loop {
        match stream.next().await.expect("an error, not the end") {
            Ok(frame) => bytes += frame.len(),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ContentError::Corrupt(_)), "{error}");
    assert!(bytes < BLOCK as usize, "the end of the block did not leave");
}

#[tokio::test(start_paused = true)]
async fn a_source_that_hangs_is_an_error_within_the_deadline() {
    let bench = bench(Faulty::streaming(FRAME).get_fails(0, Fault::Hang));
    let content = bench.publish(&body(1, 4 * MIB)).await;
    let begun = Instant::now();
    let found = bench.read(&content, 0..4 * MIB).await;
    assert!(matches!(found, Err(ContentError::Unavailable(_))), "{found:?}");
    assert_eq!((begun.elapsed(), bench.faulty.fired()), (DEADLINES.block, 1));
    bench.settle().await;
}

#[tokio::test(start_paused = true)]
async fn readers_stay_within_their_budget_and_wait_in_turn() {
    let faulty = Faulty::streaming(FRAME).slow(Duration::ZERO, Duration::from_millis(20));
    let bench = Bench::new(faulty, BLOCK, 16 * MIB);
    let body = body(1, 9 * MIB);
    let content = bench.publish(&body).await;
    let tight = Bench {
        reading: Arc::new(Reading {
            reader: bench.direct.clone(),
            budget: ByteBudget::new(4 * ARRIVAL_MEMORY_BYTES),
            tasks: bench.tasks.clone(),
            deadlines: DEADLINES,
            traffic: Arc::default(),
        }),
        ..bench
    };
    let reads = (0..30).map(|_| tight.read_through(&content, &body));
    assert_eq!(futures::future::join_all(reads).await, vec![true; 30]);
    assert_eq!(tight.reading.budget.peak(), tight.reading.budget.total());
    tight.settle().await;
}

#[tokio::test(start_paused = true)]
async fn paused_readers_keep_their_permit() {
    let bench = Bench::new(Faulty::streaming(FRAME), BLOCK, 64 * MIB);
    let body = body(1, 12 * MIB);
    let content = bench.publish(&body).await;
    let tight = Bench {
        reading: Arc::new(Reading {
            reader: bench.direct.clone(),
            budget: ByteBudget::new(2 * ARRIVAL_MEMORY_BYTES),
            tasks: bench.tasks.clone(),
            deadlines: DEADLINES,
            traffic: Arc::default(),
        }),
        ..bench
    };
    let slow = async || {
        let mut rest = body.clone();
        let mut stream = tight.open(&content, 0..12 * MIB);
        while let Some(frame) = stream.try_next().await.unwrap() {
            assert!(rest.split_to(frame.len()) == frame);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        rest.is_empty()
    };
    let mut refused = 0;
    let others = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        loop {
            let found = tight.open(&content, 0..12 * MIB).next().await;
            let refusal = matches!(found, Some(Err(ContentError::Overloaded)));
            assert!(refusal, "a newcomer took the place of one who was admitted");
            refused += 1;
        }
    };
    tokio::select! {
        ended = async { tokio::join!(slow(), slow()) } => assert_eq!(ended, (true, true)),
        () = others => {}
    }
    assert!(refused > 20, "{refused} others waited in vain");
    tight.settle().await;
}

/// A byte path whose reads go through a cache over blocks that arrive in pieces.
struct Cached {
    bench: Bench,
    blocks: Arc<Observed<Arc<Faulty>>>,
    cache: Arc<Cache<Arc<Observed<Arc<Faulty>>>>>,
    reading: Arc<Reading>,
}

impl Cached {
    async fn new(memory_bytes: u64) -> Cached {
        let bench = bench(Faulty::streaming(FRAME));
        let blocks = Arc::new(Observed::new(bench.faulty.clone()));
        let options = CacheOptions { memory_bytes, disk: None };
        let cache = Arc::new(Cache::open(blocks.clone(), options).await.unwrap());
        let reading = Arc::new(Reading {
            reader: cache.clone(),
            budget: ByteBudget::new(64 * MIB),
            tasks: bench.tasks.clone(),
            deadlines: DEADLINES,
            traffic: Arc::new(Traffic::default()),
        });
        Cached { bench, blocks, cache, reading }
    }

    fn open(&self, content: &Content, range: Range<u64>) -> ContentStream {
        let source = Arc::new(RecordSlices { slices: slices(content).to_vec(), sparse: false });
        ContentStream::new(&self.reading, source, range, Box::new(()))
    }

    /// Reads a range. Returns the requests and bytes that it took.
    async fn cost(&self, content: &Content, body: &Bytes, range: Range<u64>) -> (u64, u64) {
        let before = self.blocks.meters().get.read();
        let frames: Vec<Bytes> = self.open(content, range.clone()).try_collect().await.unwrap();
        assert!(frames.concat() == part(body, range.clone()), "{range:?} differs");
        let after = self.blocks.meters().get.read();
        (after.requests - before.requests, after.bytes - before.bytes)
    }
}

#[tokio::test]
async fn arrived_bytes_are_cached_and_cached_bytes_are_not_requested() {
    let cached = Cached::new(64 << 20).await;
    let size = 16 * MIB;
    let body = body(1, size);
    let content = cached.bench.publish(&body).await;
    assert_eq!(cached.cost(&content, &body, 0..4 * MIB).await, (1, sealed::sealed_bytes(BLOCK)));
    let seen = cached.cache.counters();
    assert_eq!((seen.misses, seen.admitted, seen.fetched_bytes), (64, 64, 64 * (65_536 + 4)));
    assert_eq!(cached.cost(&content, &body, 0..4 * MIB).await, (0, 0));
    let (start, end) = (5 * MIB + 1_234, 15 * MIB + 60_000);
    assert_eq!(cached.cost(&content, &body, start..start + 100_000).await, (1, 2 * 65_540));
    assert_eq!(cached.cost(&content, &body, end..end + 100_000).await, (1, 3 * 65_540));
    let (requests, bytes) = cached.cost(&content, &body, 0..size).await;
    assert!(bytes <= 12 * MIB + 12 * MIB / 1_000 - 5 * 65_536, "nothing is read twice: {bytes}");
    assert!(requests <= 8, "{requests} requests for three blocks, two of them known in part");
    assert_eq!(cached.cost(&content, &body, 0..size).await, (0, 0));
    cached.bench.settle().await;
}

#[tokio::test]
async fn scan_does_not_evict_a_full_cache() {
    let cached = Cached::new(8 << 20).await;
    let hot = body(1, MIB);
    let hot_content = cached.bench.publish(&hot).await;
    for _ in 0..3 {
        cached.cost(&hot_content, &hot, 0..MIB).await;
    }
    let scan = body(2, 64 * MIB);
    let content = cached.bench.publish(&scan).await;
    let (requests, _) = cached.cost(&content, &scan, 0..64 * MIB).await;
    assert_eq!(requests, 16);
    let seen = cached.cache.counters();
    assert!(seen.admitted < 200, "of 1,024 pages scanned few were taken: {seen:?}");
    let (_, bytes) = cached.cost(&hot_content, &hot, 0..MIB).await;
    assert!(bytes <= MIB / 10, "hot pages are still cached: {bytes}");
}

#[tokio::test]
async fn many_readers_of_one_body_at_a_time_fetch_it_at_most_twice() {
    let cached = Cached::new(64 << 20).await;
    let size = 16 * MIB;
    let body = body(1, size);
    let content = cached.bench.publish(&body).await;
    let read = async || {
        let mut rest = body.clone();
        let mut stream = cached.open(&content, 0..size);
        while let Some(frame) = stream.try_next().await.unwrap() {
            assert!(rest.split_to(frame.len()) == frame);
            tokio::task::yield_now().await;
        }
        assert!(rest.is_empty());
    };
    futures::future::join_all((0..32).map(|_| read())).await;
    let bytes = cached.blocks.meters().get.bytes.get();
    assert!(bytes <= 2 * size + size / 100, "{bytes} bytes for 32 readers");
    assert!(cached.cache.counters().joined > 0, "some waited for others");
}

#[tokio::test]
async fn partly_cached_block_is_still_compared_with_its_record() {
    let cached = Cached::new(64 << 20).await;
    let body = body(1, 4 * MIB);
    let content = cached.bench.publish(&body).await;
    cached.cost(&content, &body, 10..20).await;
    let mut slices = slices(&content).to_vec();
    slices[0].block_crc32c ^= 1;
    let source = Arc::new(RecordSlices { slices, sparse: false });
    let mut stream = ContentStream::new(&cached.reading, source, 0..4 * MIB, Box::new(()));
    let mut bytes = 0;
    let error = loop {
        match stream.next().await.expect("an error, not the end") {
            Ok(frame) => bytes += frame.len(),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ContentError::Corrupt(_)), "{error}");
    assert_eq!(
        cached.blocks.meters().get.requests.get(),
        4,
        "a page, a run, the rest, its end again"
    );
    assert!(bytes < BLOCK as usize, "the end of the block did not leave");
}

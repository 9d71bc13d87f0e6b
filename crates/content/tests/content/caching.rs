//! Reads through a cache: their cost in requests and bytes with a cold and a warm cache.

use std::ops::Range;
use std::sync::Arc;

use block::Observed;
use bytes::Bytes;
use cache::{Cache, CacheOptions};
use content::{ByteBudget, ContentStream, Reading, RecordSlices, Traffic};
use futures::future::join_all;
use futures::{StreamExt, TryStreamExt};
use record::Content;

use crate::bench::{Bench, DEADLINES, MIB, body};
use crate::faulty::Faulty;

const BLOCK: u32 = 4 << 20;

/// A byte path whose reads go through a cache, with counters of their cost.
struct Cached {
    bench: Bench,
    blocks: Arc<Observed<Arc<Faulty>>>,
    reading: Arc<Reading>,
}

impl Cached {
    async fn new() -> Cached {
        let bench = Bench::new(Faulty::default(), BLOCK, 64 * MIB);
        let blocks = Arc::new(Observed::new(bench.faulty.clone()));
        let options = CacheOptions { memory_bytes: 64 << 20, disk: None };
        let cache = Cache::open(blocks.clone(), options).await.unwrap();
        let reading = Arc::new(Reading {
            reader: Arc::new(cache),
            budget: ByteBudget::new(64 * MIB),
            tasks: bench.tasks.clone(),
            deadlines: DEADLINES,
            traffic: Arc::new(Traffic::default()),
        });
        Cached { bench, blocks, reading }
    }

    fn open(&self, content: &Content, range: Range<u64>) -> ContentStream {
        let Content::Slices(slices) = content else { panic!("slices were due") };
        let source = Arc::new(RecordSlices { slices: slices.clone(), sparse: false });
        ContentStream::new(&self.reading, source, range, Box::new(()))
    }

    /// Reads a range. Returns the requests and bytes that it took.
    async fn cost(&self, content: &Content, body: &Bytes, range: Range<u64>) -> (u64, u64) {
        let before = self.blocks.meters().get.read();
        let frames: Vec<Bytes> = self.open(content, range.clone()).try_collect().await.unwrap();
        let at = |place: u64| usize::try_from(place).unwrap();
        assert!(frames.concat() == body[at(range.start)..at(range.end)], "{range:?} differs");
        let after = self.blocks.meters().get.read();
        (after.requests - before.requests, after.bytes - before.bytes)
    }
}

#[tokio::test]
async fn a_range_costs_its_sub_blocks_when_cold_and_nothing_when_warm() {
    let cached = Cached::new().await;
    let size = 16 * MIB + 5_000;
    let body = body(1, size);
    let content = cached.bench.publish(&body).await;
    let start = 5 * MIB + 1_234;
    let (requests, bytes) = cached.cost(&content, &body, start..start + 100_000).await;
    assert_eq!((requests, bytes), (1, 2 * (65_536 + 4)));
    assert!(bytes <= 2 * 100_000, "a cold range of 100 KB costs at most twice its bytes");
    assert_eq!(cached.cost(&content, &body, start..start + 100_000).await, (0, 0));

    let (requests, bytes) = cached.cost(&content, &body, size - 14_336..size).await;
    assert!(requests <= 2 && bytes <= 14_336 * 6, "a footer cost {bytes} in {requests} requests");
    assert_eq!(cached.cost(&content, &body, size - 14_336..size).await, (0, 0));

    let (_, bytes) = cached.cost(&content, &body, 0..size).await;
    assert!(bytes <= size + size / 1_000, "nothing is read twice: {bytes}");
    assert_eq!(cached.cost(&content, &body, 0..size).await, (0, 0));
}

#[tokio::test]
async fn reads_from_memory_take_no_task_and_no_permit() {
    let cached = Cached::new().await;
    let body = body(1, 8 * MIB);
    let content = cached.bench.publish(&body).await;
    cached.cost(&content, &body, 0..8 * MIB).await;
    while cached.bench.tasks.running() > 0 {
        tokio::task::yield_now().await;
    }
    let mut stream = cached.open(&content, 0..8 * MIB);
    let mut frames = Vec::new();
    while let Some(frame) = stream.next().await {
        frames.push(frame.unwrap());
        assert_eq!((cached.bench.tasks.running(), cached.reading.budget.in_use()), (0, 0));
    }
    assert!(frames.concat() == body);
    assert!(cached.reading.budget.peak() > 0, "cold reads took permits");
}

#[tokio::test]
async fn small_bodies_are_cached_when_they_are_written() {
    let mut cached = Cached::new().await;
    let (faulty, direct) = (cached.bench.faulty.clone(), cached.bench.direct.clone());
    let reader = Arc::clone(&cached.reading.reader);
    cached.bench = Bench::reading(faulty, direct, reader, BLOCK, 64 * MIB);
    let bodies: Vec<Bytes> = (0..10).map(|seed| body(seed, 150_000 + seed)).collect();
    let alone = cached.bench.publish(&bodies[0]).await;
    let together = join_all(bodies[1..].iter().map(|body| cached.bench.publish(body))).await;
    let large = body(10, 5 * MIB);
    let cut = cached.bench.publish(&large).await;
    cached.bench.settle_puts().await;

    assert!(cached.bench.staging.traffic.packs.get() >= 1, "some of them share a block");
    for (content, body) in [alone].iter().chain(&together).zip(&bodies) {
        assert_eq!(cached.cost(content, body, 0..body.len() as u64).await, (0, 0));
    }
    let (requests, _) = cached.cost(&cut, &large, 0..5 * MIB).await;
    assert!(requests > 0, "bodies that were cut into blocks are not cached");
    cached.bench.settle().await;
}

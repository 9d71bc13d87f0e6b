//! Reads of content.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use block::{SUB_BLOCK_BYTES, sealed};
use bytes::Bytes;
use content::ContentError;
use content::{ContentStream, READ_AHEAD_BYTES_MAX, RUN_BYTES_MIN, RecordSlices, SliceSource};
use futures::{StreamExt, TryStreamExt};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use record::{Content, InlineBytes, Slice};
use tokio::time::Instant;

use crate::bench::{Bench, DEADLINES, MIB, body};
use crate::faulty::{Fault, Faulty};

const BLOCK: u32 = 1 << 20;

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
async fn any_range_gives_exactly_its_bytes_in_order() {
    let bench = Bench::new(Faulty::default(), BLOCK, 64 * MIB);
    let mut random = SmallRng::seed_from_u64(5);
    for size in [10, 4_096, 5 * MIB + 77] {
        let body = body(size, size);
        let content = bench.publish(&body).await;
        let edges = [0..0, 0..1, size - 1..size, 0..size, size..size];
        let random = (0..60).map(|_| {
            let start = random.random_range(0..size);
            start..random.random_range(start..=size)
        });
        for range in edges.into_iter().chain(random) {
            let found = bench.read(&content, range.clone()).await.unwrap();
            assert!(found == part(&body, range.clone()), "{range:?} of {size} bytes differs");
        }
    }
    bench.settle().await;
}

#[tokio::test]
async fn frames_are_sub_blocks_without_a_copy() {
    let bench = Bench::new(Faulty::default(), BLOCK, 64 * MIB);
    let content = bench.publish(&body(1, 3 * MIB)).await;
    let frames: Vec<Bytes> = bench.open(&content, 0..3 * MIB).try_collect().await.unwrap();
    assert!(frames.iter().all(|frame| frame.len() == SUB_BLOCK_BYTES as usize));
    // The checksum between two sub-blocks shows that they are views of one buffer.
    let step = frames[1].as_ptr() as usize - frames[0].as_ptr() as usize;
    assert_eq!(step, SUB_BLOCK_BYTES as usize + 4);
}

#[tokio::test]
async fn a_small_range_asks_for_its_sub_blocks_only() {
    let bench = Bench::new(Faulty::default(), BLOCK, 64 * MIB);
    let content = bench.publish(&body(1, 3 * MIB)).await;
    bench.read(&content, MIB + 70_000..MIB + 70_010).await.unwrap();
    let block = slices(&content)[1];
    let span = sealed::span(BLOCK, 70_000..70_010).bytes;
    assert_eq!(*bench.faulty.asked.lock().unwrap(), [(block.block, span)]);
}

#[tokio::test(start_paused = true)]
async fn a_large_block_is_read_in_runs_that_grow_and_no_byte_twice() {
    const LARGE: u32 = 16 << 20;
    let bench = Bench::new(Faulty::default(), LARGE, 64 * MIB);
    let body = body(1, 16 * MIB);
    let content = bench.publish(&body).await;
    let mut stream = bench.open(&content, 0..16 * MIB);
    let first = stream.next().await.unwrap().unwrap();
    assert!(body.starts_with(&first));
    let asked = || bench.faulty.asked.lock().unwrap().clone();
    let span = |range: Range<u32>| sealed::span(LARGE, range).bytes;
    assert_eq!(asked()[0].1, span(0..RUN_BYTES_MIN), "the first bytes wait for no more");
    let rest: Vec<Bytes> = stream.try_collect().await.unwrap();
    assert!(rest.concat() == body[first.len()..]);
    let mib = |range: Range<u32>| span(range.start << 20..range.end << 20);
    let runs: Vec<Range<u64>> = asked().into_iter().map(|(_, span)| span).collect();
    assert_eq!(runs, [mib(0..1), mib(1..3), mib(3..7), mib(7..11), mib(11..16)]);
    let bytes: u64 = runs.iter().map(|run| run.end - run.start).sum();
    assert_eq!(bytes, sealed::sealed_bytes(LARGE) - u64::from(sealed::HEADER_BYTES));
    drop((first, rest));
    bench.settle().await;
}

#[tokio::test(start_paused = true)]
async fn block_that_differs_from_its_record_is_an_error() {
    for block_bytes in [BLOCK, 4 << 20] {
        let bench = Bench::new(Faulty::default(), block_bytes, 64 * MIB);
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
        assert!(bytes < block_bytes as usize, "the end of the block did not leave");
    }
}

#[tokio::test(start_paused = true)]
async fn read_ahead_grows_with_what_is_read() {
    let bench = Bench::new(Faulty::default(), BLOCK, 64 * MIB);
    let content = bench.publish(&body(1, 20 * MIB)).await;
    let mut stream = bench.open(&content, 0..20 * MIB);
    let frames_per_block = BLOCK / SUB_BLOCK_BYTES;
    let mut asked = Vec::new();
    for _ in 0..5 {
        for _ in 0..frames_per_block {
            stream.next().await.unwrap().unwrap();
            // Lets the reads that were started reach the store.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        asked.push(bench.faulty.gets.load(Ordering::SeqCst));
    }
    assert_eq!(asked, [3, 6, 11, 16, 17], "blocks asked for after the 1st, 2nd, 3rd …");
    assert_eq!(asked[4] - 5, u64::from(READ_AHEAD_BYTES_MAX / BLOCK));
    drop(stream);
    bench.settle().await;
}

#[tokio::test(start_paused = true)]
async fn blocks_are_read_at_the_same_time() {
    let faulty = Faulty::default().slow(Duration::ZERO, Duration::from_secs(1));
    let bench = Bench::new(faulty, BLOCK, 64 * MIB);
    let body = body(1, 13 * MIB);
    let content = bench.publish(&body).await;
    let begun = Instant::now();
    assert!(bench.read(&content, 0..13 * MIB).await.unwrap() == body);
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?} for 13 blocks", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn read_that_fails_once_is_retried() {
    for fault in [Fault::Flip, Fault::Short, Fault::Missing] {
        let bench = Bench::new(Faulty::default().get_fails(2, fault), BLOCK, 64 * MIB);
        let body = body(1, 5 * MIB);
        let content = bench.publish(&body).await;
        assert!(bench.read(&content, 0..5 * MIB).await.unwrap() == body, "{fault:?}");
        assert_eq!((bench.faulty.fired(), bench.direct.second_reads()), (1, 1));
        bench.settle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn read_that_timed_out_is_not_retried() {
    let bench = Bench::new(Faulty::default().get_fails(0, Fault::Before), BLOCK, 64 * MIB);
    let content = bench.publish(&body(1, MIB)).await;
    let found = bench.read(&content, 0..MIB).await;
    assert!(matches!(found, Err(ContentError::Unavailable(_))), "{found:?}");
    assert_eq!((bench.faulty.fired(), bench.faulty.gets.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_damaged_block_is_an_error_after_the_bytes_before_it_and_never_data() {
    for fault in [Fault::Flip, Fault::Short, Fault::Missing] {
        let faulty = (2..99).fold(Faulty::default(), |faulty, n| faulty.get_fails(n, fault));
        let bench = Bench::new(faulty, BLOCK, 64 * MIB);
        let body = body(1, 5 * MIB);
        let content = bench.publish(&body).await;
        for range in [0..5 * MIB, 100..5 * MIB - 100] {
            bench.faulty.gets.store(0, Ordering::SeqCst);
            let mut stream = bench.open(&content, range.clone());
            let mut found = Vec::new();
            let error = loop {
                match stream.next().await.expect("an error, not a short body") {
                    Ok(frame) => found.extend_from_slice(&frame),
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, ContentError::Corrupt(_)), "{fault:?}: {error}");
            assert!(found == part(&body, range.start..2 * MIB), "two blocks were sound");
            assert!(stream.next().await.is_none(), "nothing follows an error");
        }
        bench.settle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn block_replaced_by_another_is_an_error() {
    let bench = Bench::new(Faulty::default(), BLOCK, 64 * MIB);
    let content = bench.publish(&body(1, 2 * MIB)).await;
    let [first, second] = slices(&content) else { panic!("two blocks were due") };
    let swapped = Slice { block: second.block, ..*first };
    let found = bench.read(&Content::Slices(vec![swapped]), 0..MIB).await;
    assert!(matches!(found, Err(ContentError::Corrupt(_))), "{found:?}");
}

#[tokio::test]
async fn range_that_no_block_covers_is_an_error() {
    let bench = Bench::new(Faulty::default(), BLOCK, 64 * MIB);
    let content = bench.publish(&body(1, 3 * MIB)).await;
    let mut gap = slices(&content).to_vec();
    gap.remove(1);
    for (content, range) in [
        (Content::Slices(gap), 0..3 * MIB),
        (content, 0..3 * MIB + 1),
        (Content::Slices(Vec::new()), 0..1),
        (Content::Inline(InlineBytes::plain(body(1, 9))), 3..10),
    ] {
        let found = bench.read(&content, range).await;
        assert!(matches!(found, Err(ContentError::Corrupt(_))), "{found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hanging_read_is_an_error_within_the_deadline() {
    let bench = Bench::new(Faulty::default().get_fails(0, Fault::Hang), BLOCK, 64 * MIB);
    let content = bench.publish(&body(1, 2 * MIB)).await;
    let begun = Instant::now();
    let found = bench.read(&content, 0..2 * MIB).await;
    assert!(matches!(found, Err(ContentError::Unavailable(_))), "{found:?}");
    assert_eq!((begun.elapsed(), bench.faulty.fired()), (DEADLINES.block, 1));
    bench.settle().await;
}

#[tokio::test(start_paused = true)]
async fn readers_stay_within_their_budget_and_wait_in_turn() {
    let faulty = Faulty::default().slow(Duration::ZERO, Duration::from_millis(20));
    let bench = Bench::new(faulty, BLOCK, 4 * MIB);
    let body = body(1, 6 * MIB);
    let content = bench.publish(&body).await;
    let reads = (0..30).map(|_| bench.read_through(&content, &body));
    assert_eq!(futures::future::join_all(reads).await, vec![true; 30]);
    let budget = &bench.reading.budget;
    assert!(budget.peak() <= budget.total());
    assert!(budget.peak() > budget.total() / 2, "the budget was what bounded them");
    bench.settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_reader_who_holds_its_frames_holds_their_memory() {
    let bench = Bench::new(Faulty::default(), BLOCK, 2 * MIB);
    let content = bench.publish(&body(1, 3 * MIB)).await;
    let mut slow = bench.open(&content, 0..MIB);
    let frame = slow.next().await.unwrap().unwrap();
    drop(slow);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(bench.reading.budget.in_use() >= MIB);
    let begun = Instant::now();
    let refused = bench.open(&content, MIB..3 * MIB).try_collect::<Vec<_>>().await;
    assert!(matches!(refused, Err(ContentError::Overloaded)), "{refused:?}");
    assert!(begun.elapsed() <= DEADLINES.block);
    drop(frame);
    bench.settle().await;
}

#[tokio::test(start_paused = true)]
async fn the_guard_lives_as_long_as_the_stream() {
    let bench = Bench::new(Faulty::default(), BLOCK, 64 * MIB);
    let content = bench.publish(&body(1, 2 * MIB)).await;
    let epoch = Arc::new(());
    let guard: Box<dyn Any + Send> = Box::new(Arc::clone(&epoch));
    let source = Arc::new(RecordSlices { slices: slices(&content).to_vec(), sparse: false });
    let mut stream = ContentStream::new(&bench.reading, source, 0..2 * MIB, guard);
    while let Some(frame) = stream.next().await {
        frame.unwrap();
        assert_eq!(Arc::strong_count(&epoch), 2);
    }
    drop(stream);
    assert_eq!(Arc::strong_count(&epoch), 1);
}

/// Slices in pages. Records the pages that were requested.
#[derive(Debug)]
struct Pages {
    slices: Vec<Slice>,
    asked: std::sync::Mutex<Vec<Range<u64>>>,
}

#[async_trait]
impl SliceSource for Pages {
    async fn slices(&self, range: Range<u64>) -> Result<Vec<Slice>, ContentError> {
        self.asked.lock().unwrap().push(range.clone());
        if range.start >= 500 * MIB {
            return Err(ContentError::Unavailable("the last page cannot be read".to_owned()));
        }
        RecordSlices { slices: self.slices.clone(), sparse: false }.slices(range).await
    }

    fn is_sparse(&self) -> bool {
        false
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_map_is_loaded_page_by_page() {
    let bench = Bench::new(Faulty::default(), 4 << 20, 64 * MIB);
    // 600 MiB that repeat the same 4 MiB: a content map may reference a block several times.
    let body = body(1, 4 * MIB);
    let content = bench.publish(&body).await;
    let slices = (0..150).map(|n| Slice { position: n * 4 * MIB, ..slices(&content)[0] }).collect();
    let pages = Arc::new(Pages { slices, asked: std::sync::Mutex::default() });
    let start = 255 * MIB;
    let mut stream =
        ContentStream::new(&bench.reading, pages.clone(), start..600 * MIB, Box::new(()));
    let mut position = start;
    let error = loop {
        match stream.next().await.expect("an error is due") {
            Ok(frame) => {
                let at = usize::try_from(position % (4 * MIB)).unwrap();
                assert!(frame == body[at..at + frame.len()], "at {position}");
                position += frame.len() as u64;
                assert!(pages.asked.lock().unwrap().len() <= 2);
            }
            Err(error) => break error,
        }
    };
    assert!(position > start + 240 * MIB, "only what was still read ahead is lost");
    assert!(matches!(error, ContentError::Unavailable(_)), "{error}");
}

/// Slices of one block each at the given positions, and zeros between them.
async fn sparse(bench: &Bench, at: &[u64], length: u64) -> (Vec<Slice>, Bytes) {
    let body = body(3, length);
    let content = bench.publish(&body).await;
    let slice = slices(&content)[0];
    (at.iter().map(|position| Slice { position: *position, ..slice }).collect(), body)
}

#[tokio::test(start_paused = true)]
async fn holes_of_a_sparse_file_are_zeros() {
    let bench = Bench::new(Faulty::default(), BLOCK, 64 * MIB);
    let length = 100_000;
    let (size, at) = (3 * MIB, [70_000, 200_000, 300_000, 2 * MIB]);
    let (slices, body) = sparse(&bench, &at, length).await;
    let mut whole = vec![0; usize::try_from(size).unwrap()];
    for position in at {
        let position = usize::try_from(position).unwrap();
        whole[position..position + body.len()].copy_from_slice(&body);
    }
    let whole = Bytes::from(whole);
    let mut random = SmallRng::seed_from_u64(7);
    let edges = [0..0, 0..1, 0..70_000, 0..70_001, 69_999..size, 170_000..200_000, size - 1..size];
    let random = (0..60).map(|_| {
        let start = random.random_range(0..size);
        start..random.random_range(start..=size)
    });
    for range in edges.into_iter().chain(std::iter::once(0..size)).chain(random) {
        let source = Arc::new(RecordSlices { slices: slices.clone(), sparse: true });
        let stream = ContentStream::new(&bench.reading, source, range.clone(), Box::new(()));
        let frames: Vec<Bytes> = stream.try_collect().await.unwrap();
        let longest = frames.iter().map(Bytes::len).max().unwrap_or(0);
        assert!(
            longest <= SUB_BLOCK_BYTES as usize && frames.iter().all(|frame| !frame.is_empty())
        );
        assert!(frames.concat() == part(&whole, range.clone()), "{range:?} differs");
    }
    bench.settle().await;
}

#[tokio::test(start_paused = true)]
async fn hole_takes_no_reads_and_no_memory() {
    let bench = Bench::new(Faulty::default(), BLOCK, 64 * MIB);
    let slices = Vec::new();
    let source = Arc::new(RecordSlices { slices, sparse: true });
    // Longer than one resolved window, and larger than the budget.
    let mut stream = ContentStream::new(&bench.reading, source, 5..1_025 * MIB, Box::new(()));
    let (mut bytes, mut first) = (0, None);
    while let Some(frame) = stream.next().await {
        let frame = frame.unwrap();
        assert_eq!(*first.get_or_insert(frame.as_ptr()), frame.as_ptr(), "one piece of memory");
        assert!(frame[0] == 0 && frame[frame.len() - 1] == 0);
        bytes += frame.len() as u64;
    }
    assert_eq!(bytes, 1_025 * MIB - 5);
    assert_eq!(bench.reading.traffic.gets.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn blocks_behind_a_hole_are_read_ahead() {
    let bench = Bench::new(Faulty::default(), BLOCK, 64 * MIB);
    let at: Vec<u64> = (0..40).map(|n| n * 65_536 * 2).collect();
    let (slices, _) = sparse(&bench, &at, 65_536).await;
    let source = Arc::new(RecordSlices { slices, sparse: true });
    let mut stream = ContentStream::new(&bench.reading, source, 0..80 * 65_536, Box::new(()));
    stream.next().await.unwrap().unwrap();
    assert!(bench.reading.traffic.gets.get() >= 1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let ahead = bench.reading.traffic.gets.get();
    assert!(ahead >= 10, "{ahead} blocks were asked for while the reader has one");
}

#[tokio::test(start_paused = true)]
async fn hole_in_a_file_that_is_not_sparse_is_corrupt() {
    let bench = Bench::new(Faulty::default(), BLOCK, 64 * MIB);
    let (slices, _) = sparse(&bench, &[0, 100_001], 100_000).await;
    let source = Arc::new(RecordSlices { slices, sparse: false });
    let stream = ContentStream::new(&bench.reading, source, 0..200_000, Box::new(()));
    let error = stream.try_collect::<Vec<Bytes>>().await.unwrap_err();
    assert!(matches!(error, ContentError::Corrupt(_)), "{error}");
}

//! Writes of content.

use std::time::Duration;

use bytes::Bytes;
use content::ContentError;
use content::{ContentWriter, PERMIT_STEP_BYTES, UPLOAD_BLOCKS_IN_FLIGHT};
use futures::future::join_all;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use record::{Content, InlineBytes};
use tokio::time::Instant;

use crate::bench::{Bench, DEADLINES, INLINE_BYTES_MAX, MIB, body};
use crate::faulty::{Fault, Faulty};

const BLOCK: u32 = 1 << 20;
const INLINE: u64 = INLINE_BYTES_MAX as u64;

fn lengths(content: &Content) -> Vec<u32> {
    match content {
        Content::Slices(slices) => slices.iter().map(|slice| slice.length).collect(),
        other => panic!("slices were due, not {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_body_reads_back_as_it_was_sent() {
    let bench = Bench::new(Faulty::default(), 4 << 20, 64 * MIB);
    let mut random = SmallRng::seed_from_u64(11);
    let edges = [0, 1, INLINE, INLINE + 1, 65_536, 4 * MIB, 4 * MIB + 1, 8 * MIB, 20 * MIB];
    let sizes: Vec<u64> =
        edges.into_iter().chain((0..12).map(|_| random.random_range(0..20 * MIB))).collect();
    for (seed, size) in (0..).zip(sizes) {
        let body = body(seed, size);
        let hint = [None, Some(size), Some(random.random_range(0..20 * MIB))];
        let mut writer = ContentWriter::new(&bench.writers, hint[random.random_range(0..3)]);
        let mut rest = body.clone();
        while !rest.is_empty() {
            let frame = random.random_range(0..=rest.len().min(300_000));
            writer.write(rest.split_to(frame)).await.unwrap();
        }
        let mut staged = writer.finish().await.unwrap();
        staged.disarm();
        assert_eq!(staged.size(), size);
        let found = bench.read(staged.content(), 0..size).await.unwrap();
        assert!(found == body, "{size} bytes came back changed");
    }
    assert!(
        bench.faulty.putting_peak.load(std::sync::atomic::Ordering::SeqCst) > 1,
        "blocks upload at the same time"
    );
    bench.settle().await;
}

#[tokio::test]
async fn small_bodies_take_no_block() {
    let bench = Bench::sound();
    for (size, hint) in [(0, None), (INLINE, Some(INLINE)), (0, Some(9_999)), (9, Some(3))] {
        let staged = bench.write(&body(1, size), hint, 1_000).await.unwrap();
        assert_eq!(staged.content(), &Content::Inline(InlineBytes::plain(body(1, size))));
    }
    bench.settle().await;
    assert_eq!(bench.staging.traffic.puts.get(), 0);
}

#[tokio::test]
async fn bodies_are_cut_at_the_block_size() {
    let bench = Bench::new(Faulty::default(), BLOCK, 64 * MIB);
    for hint in [None, Some(5 * MIB / 2), Some(0), Some(9 * MIB)] {
        let staged = bench.write(&body(1, 5 * MIB / 2), hint, 70_001).await.unwrap();
        assert_eq!(lengths(staged.content()), [BLOCK, BLOCK, BLOCK / 2]);
    }
    bench.settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_body_holds_no_more_memory_than_it_needs() {
    let bench = Bench::sound();
    let _staged = bench.write(&body(1, MIB), Some(MIB), 60_000).await.unwrap();
    assert_eq!(bench.staging.budget.peak(), MIB);
    assert_eq!(bench.staging.budget.in_use(), 0, "a block's memory is free when it is put");
}

#[tokio::test(start_paused = true)]
async fn a_slow_client_holds_little_memory() {
    let bench = Bench::sound();
    let mut writer = ContentWriter::new(&bench.writers, Some(100 * MIB));
    writer.write(body(1, 10)).await.unwrap();
    assert_eq!(bench.staging.budget.in_use(), u64::from(PERMIT_STEP_BYTES));
    writer.write(body(1, u64::from(PERMIT_STEP_BYTES))).await.unwrap();
    assert_eq!(bench.staging.budget.in_use(), 2 * u64::from(PERMIT_STEP_BYTES));
    drop(writer);
    bench.settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_store_bounds_the_blocks_in_flight() {
    let faulty = Faulty::default().slow(Duration::from_secs(1), Duration::ZERO);
    let bench = Bench::new(faulty, BLOCK, 256 * MIB);
    let begun = Instant::now();
    let staged = bench.write(&body(1, 32 * MIB), None, 500_000).await.unwrap();
    assert_eq!(staged.size(), 32 * MIB);
    let peak = bench.faulty.putting_peak.load(std::sync::atomic::Ordering::SeqCst);
    assert!((2..=UPLOAD_BLOCKS_IN_FLIGHT).contains(&peak), "{peak} puts at the same time");
    assert!(bench.staging.budget.peak() <= UPLOAD_BLOCKS_IN_FLIGHT as u64 * u64::from(BLOCK));
    assert!(begun.elapsed() >= Duration::from_secs(4), "the store pushes back");
}

#[tokio::test(start_paused = true)]
async fn fifty_writers_stay_within_a_budget_that_holds_few_of_their_blocks() {
    let faulty = Faulty::default().slow(Duration::from_millis(50), Duration::ZERO);
    let bench = Bench::new(faulty, 4 << 20, 16 * MIB);
    let bodies: Vec<Bytes> = (0..50).map(|seed| body(seed, 3 * MIB + seed * 10_000)).collect();
    let writes = bodies.iter().enumerate().map(|(number, body)| {
        let hint = (number % 2 == 0).then_some(body.len() as u64);
        bench.write(body, hint, 50_000)
    });
    for (staged, body) in join_all(writes).await.into_iter().zip(&bodies) {
        let staged = staged.expect("an admitted body is finished");
        let found = bench.read(staged.content(), 0..staged.size()).await.unwrap();
        assert!(found == body);
    }
    let budget = &bench.staging.budget;
    assert!(budget.peak() <= budget.total(), "{} bytes of {}", budget.peak(), budget.total());
    assert!(budget.peak() > budget.total() / 2, "the budget was what bounded them");
    bench.settle().await;
    assert_eq!(bench.faulty.present().await, [], "no block stays without a publication");
}

#[tokio::test(start_paused = true)]
async fn without_memory_a_new_body_is_refused_within_the_deadline() {
    let bench = Bench::new(Faulty::default(), BLOCK, MIB);
    let held = bench.staging.budget.acquire(MIB, DEADLINES.budget).await.unwrap();
    let begun = Instant::now();
    let mut writer = ContentWriter::new(&bench.writers, None);
    let refused = writer.write(body(1, 10_000)).await;
    assert!(matches!(refused, Err(ContentError::Overloaded)), "{refused:?}");
    assert_eq!(begun.elapsed(), DEADLINES.budget);
    assert!(writer.write(body(1, 10_000)).await.is_err(), "a body with a gap is no body");
    assert!(writer.finish().await.is_err());
    drop(held);
    bench.settle().await;
}

#[tokio::test(start_paused = true)]
async fn call_dropped_halfway_fails_the_body() {
    let bench = Bench::new(Faulty::default(), BLOCK, MIB);
    let mut writer = ContentWriter::new(&bench.writers, None);
    writer.write(body(1, 2 * MIB)).await.unwrap();
    bench.settle_puts().await;
    let held = bench.staging.budget.acquire(MIB, DEADLINES.budget).await.unwrap();
    let waiting = tokio::time::timeout(Duration::from_secs(1), writer.write(body(2, 10)));
    assert!(waiting.await.is_err(), "there is no memory for it");
    drop(held);
    assert!(writer.write(body(3, 10)).await.is_err(), "a body with a gap is no body");
    assert!(writer.finish().await.is_err());
    bench.settle().await;
    assert_eq!(bench.faulty.present().await, []);
}

#[tokio::test(start_paused = true)]
async fn a_put_that_panics_is_an_error() {
    let bench = Bench::new(Faulty::default().put_fails(1, Fault::Panic), BLOCK, 64 * MIB);
    let failed = bench.write(&body(1, 3 * MIB), None, 100_000).await;
    assert!(matches!(failed, Err(ContentError::Unavailable(_))), "{failed:?}");
    assert_eq!((bench.faulty.fired(), bench.tasks.panics()), (1, 1));
    assert_eq!(bench.tasks.close_and_wait(DEADLINES.block).await, 0);
    assert_eq!(bench.faulty.present().await, []);
    assert_eq!(bench.staging.budget.in_use(), 0);
}

#[tokio::test(start_paused = true)]
async fn short_memory_makes_short_blocks() {
    let bench = Bench::new(Faulty::default(), BLOCK, MIB);
    let held = bench.staging.budget.acquire(MIB / 2, DEADLINES.budget).await.unwrap();
    let body = body(1, 2 * MIB);
    let staged = bench.write(&body, None, 50_000).await.unwrap();
    assert_eq!(lengths(staged.content()), [BLOCK / 2; 4]);
    drop(held);
    assert!(bench.read_through(staged.content(), &body).await);
}

#[tokio::test(start_paused = true)]
async fn dropping_a_writer_or_its_content_deletes_its_blocks() {
    for finished in [true, false] {
        let bench = Bench::new(Faulty::default(), BLOCK, 64 * MIB);
        let mut writer = ContentWriter::new(&bench.writers, None);
        for _ in 0..5 {
            writer.write(body(1, MIB)).await.unwrap();
        }
        if finished {
            let staged = writer.finish().await.unwrap();
            assert_eq!(bench.faulty.present().await.len(), 5);
            drop(staged);
        } else {
            drop(writer);
        }
        bench.settle().await;
        assert_eq!(bench.faulty.present().await, []);
        assert_eq!(bench.staging.traffic.abandoned.get(), 5);
    }
}

#[tokio::test(start_paused = true)]
async fn blocks_are_not_deleted_while_their_put_runs() {
    let faulty = Faulty::default().slow(Duration::from_secs(3), Duration::ZERO);
    let bench = Bench::new(faulty, BLOCK, 64 * MIB);
    let mut writer = ContentWriter::new(&bench.writers, None);
    writer.write(body(1, 3 * MIB)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(bench.faulty.putting.load(std::sync::atomic::Ordering::SeqCst), 3);
    drop(writer);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(bench.faulty.deleted.lock().unwrap().is_empty(), "the puts are still under way");
    bench.settle().await;
    assert_eq!(bench.faulty.present().await, []);
    assert_eq!(bench.faulty.deleted.lock().unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn blocks_are_kept_while_a_plan_may_reference_them() {
    let bench = Bench::new(Faulty::default(), BLOCK, 64 * MIB);
    let mut unknown = bench.write(&body(1, 2 * MIB), None, 90_000).await.unwrap();
    unknown.disarm();
    let mut aborted = bench.write(&body(2, 2 * MIB), None, 90_000).await.unwrap();
    aborted.disarm();
    aborted.rearm();
    let (_, mut blocks) = bench.write(&body(3, 2 * MIB), None, 90_000).await.unwrap().into_parts();
    blocks.disarm();
    let (_, mut kept) = unknown.into_parts();
    let mut expected = [kept.ids(), blocks.ids()].concat();
    expected.sort();
    kept.disarm();
    drop((kept, aborted, blocks));
    bench.settle().await;
    assert_eq!(bench.faulty.present().await, expected);
}

#[tokio::test(start_paused = true)]
async fn any_failed_put_fails_the_body_and_leaves_nothing() {
    for fault in [Fault::Before, Fault::After] {
        for number in 0..6 {
            let faulty = Faulty::default().put_fails(number, fault);
            let bench = Bench::new(faulty, BLOCK, 64 * MIB);
            let failed = bench.write(&body(1, 6 * MIB), None, 100_000).await;
            assert!(matches!(failed, Err(ContentError::Unavailable(_))), "{failed:?}");
            assert_eq!(bench.faulty.fired(), 1, "the fault happened");
            bench.settle().await;
            assert_eq!(bench.faulty.present().await, [], "{fault:?} at put {number}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_failed_put_stops_the_upload() {
    let faulty = Faulty::default().put_fails(0, Fault::Before);
    let bench = Bench::new(faulty, BLOCK, 64 * MIB);
    let failed = bench.write(&body(1, 60 * MIB), None, 100_000).await;
    assert!(failed.is_err());
    let puts = bench.faulty.puts.load(std::sync::atomic::Ordering::SeqCst);
    assert!(puts <= 2 * UPLOAD_BLOCKS_IN_FLIGHT as u64, "{puts} puts for a body that was lost");
    bench.settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_hanging_store_is_an_error_within_the_deadline() {
    let faulty = Faulty::default().put_fails(1, Fault::Hang);
    let bench = Bench::new(faulty, BLOCK, 64 * MIB);
    let begun = Instant::now();
    let failed = bench.write(&body(1, 4 * MIB), None, 100_000).await;
    assert!(matches!(failed, Err(ContentError::Unavailable(_))), "{failed:?}");
    assert_eq!(begun.elapsed(), DEADLINES.block);
    assert_eq!(bench.faulty.fired(), 1);
    bench.settle().await;
    assert_eq!(bench.faulty.present().await, []);
}

#[tokio::test(start_paused = true)]
async fn block_id_taken_by_other_bytes_is_replaced_by_a_new_id() {
    let faulty = Faulty::default().put_fails(1, Fault::Conflict);
    let bench = Bench::new(faulty, BLOCK, 64 * MIB);
    let body = body(1, 3 * MIB);
    let staged = bench.write(&body, None, 100_000).await.unwrap();
    assert_eq!(bench.staging.traffic.conflicts.get(), 1);
    assert!(bench.read(staged.content(), 0..3 * MIB).await.unwrap() == body);
    drop(staged);
    bench.settle().await;
    let kept = bench.faulty.present().await;
    assert_eq!(kept.iter().map(|id| id.counter()).collect::<Vec<_>>(), [1], "it is not ours");
}

#[tokio::test(start_paused = true)]
async fn failed_deletion_is_retried_and_then_left_to_the_sweeper() {
    let faulty = Faulty::default().delete_fails(0, Fault::Before).delete_fails(1, Fault::Hang);
    let bench = Bench::new(faulty, BLOCK, 64 * MIB);
    drop(bench.write(&body(1, MIB), None, 100_000).await.unwrap());
    bench.settle().await;
    assert_eq!(bench.faulty.fired(), 2);
    assert_eq!(bench.faulty.present().await, []);

    let faulty = (0..3).fold(Faulty::default(), |faulty, n| faulty.delete_fails(n, Fault::Before));
    let bench = Bench::new(faulty, BLOCK, 64 * MIB);
    drop(bench.write(&body(1, MIB), None, 100_000).await.unwrap());
    bench.settle().await;
    assert_eq!(bench.faulty.present().await.len(), 1);
    assert_eq!(bench.staging.traffic.left_behind.get(), 1);
}

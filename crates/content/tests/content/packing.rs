//! Small bodies that share blocks.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use content::ContentError;
use content::{Packing, StagedContent};
use futures::future::join_all;
use record::{Content, Slice};
use tokio::time::Instant;

use crate::bench::{Bench, INLINE_BYTES_MAX, MIB, body};
use crate::faulty::{Fault, Faulty};

const SIZE: u64 = 20_000;

/// A store with slow puts, so that the bodies that arrive meanwhile gather.
fn slow() -> Faulty {
    Faulty::default().slow(Duration::from_millis(50), Duration::ZERO)
}

fn slice(staged: &StagedContent) -> Slice {
    match staged.content() {
        Content::Slices(slices) => slices[0],
        other => panic!("one slice was due, not {other:?}"),
    }
}

async fn all(bench: &Bench, bodies: &[Bytes]) -> Vec<Result<StagedContent, ContentError>> {
    let write = |body| bench.write(body, Some(Bytes::len(body) as u64), 9_000);
    join_all(bodies.iter().map(write)).await
}

fn bodies(count: u64) -> Vec<Bytes> {
    (0..count).map(|seed| body(seed, SIZE + seed)).collect()
}

#[tokio::test(start_paused = true)]
async fn concurrent_bodies_share_blocks_and_read_back() {
    let bench = Bench::new(slow(), 4 << 20, 64 * MIB);
    let bodies = bodies(100);
    let staged = all(&bench, &bodies).await;
    for (staged, body) in staged.into_iter().zip(&bodies) {
        let mut staged = staged.unwrap();
        staged.disarm();
        assert!(bench.read(staged.content(), 0..staged.size()).await.unwrap() == body);
        let from_the_middle = bench.read(staged.content(), 7_000..7_100).await.unwrap();
        assert_eq!(from_the_middle, body.slice(7_000..7_100));
    }
    let puts = bench.faulty.puts.load(Ordering::SeqCst);
    assert!(puts <= 4, "{puts} puts for {} bodies", bodies.len());
    assert!(bench.staging.traffic.packs.get() >= 1);
    bench.settle().await;
}

#[tokio::test(start_paused = true)]
async fn lone_body_is_put_at_once_in_its_own_block() {
    let bench = Bench::new(slow(), 4 << 20, 64 * MIB);
    for seed in 0..3 {
        let begun = Instant::now();
        let staged = bench.write(&body(seed, SIZE), None, 9_000).await.unwrap();
        assert_eq!(begun.elapsed(), Duration::from_millis(50), "a put's time and no more");
        let slice = slice(&staged);
        assert!(!slice.block.is_pack());
        assert_eq!((slice.offset, slice.length), (0, slice.block_length));
    }
    assert_eq!(bench.staging.traffic.packs.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn body_waits_at_most_one_window_for_others() {
    let bench = Bench::new(slow(), 4 << 20, 64 * MIB);
    for staged in all(&bench, &bodies(10)).await {
        drop(staged.unwrap());
    }
    let begun = Instant::now();
    drop(bench.write(&body(1, SIZE), None, 9_000).await.unwrap());
    let put_and_window = Duration::from_millis(50 + 1 + 1) + Packing::default().window;
    assert!(begun.elapsed() <= put_and_window, "{:?}", begun.elapsed());
    let begun = Instant::now();
    drop(bench.write(&body(2, SIZE), None, 9_000).await.unwrap());
    assert_eq!(begun.elapsed(), Duration::from_millis(50), "now it is known to be alone");
}

/// Writes bodies one after the other, as a client that pauses for `away` between them.
async fn client(bench: &Bench, number: u64, away: Duration) {
    // The clients start at different times, so that their first bodies are not one pack.
    tokio::time::sleep(Duration::from_millis(3 * number)).await;
    for turn in 0..40 {
        drop(bench.write(&body(100 * number + turn, SIZE), None, 9_000).await.unwrap());
        tokio::time::sleep(away).await;
    }
}

/// Returns the number of puts that eight clients make and the time they take. The backend takes 10
/// ms for each put, which is short enough that bodies wait for it.
async fn eight_clients(away: Duration) -> (u64, Duration) {
    let faulty = Faulty::default().slow(Duration::from_millis(10), Duration::ZERO);
    let bench = Bench::new(faulty, 4 << 20, 64 * MIB);
    let begun = Instant::now();
    join_all((0..8).map(|number| client(&bench, number, away))).await;
    (bench.faulty.puts.load(Ordering::SeqCst), begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn fast_clients_share_packs_and_slow_ones_are_not_awaited() {
    let (soon, _) = eight_clients(Duration::from_millis(1)).await;
    assert!(soon <= 50, "{soon} puts, where 40 are enough and groups in turn make 80");
    // Clients that pause for longer are awaited only now and then.
    let (_, took) = eight_clients(Duration::from_millis(8)).await;
    assert!(took < Duration::from_millis(880), "{took:?}, where 800 ms are puts");
}

#[tokio::test(start_paused = true)]
async fn pack_is_kept_while_a_plan_may_reference_one_of_its_bodies() {
    for named in [0, 1, 5] {
        let bench = Bench::new(slow(), 4 << 20, 64 * MIB);
        let mut staged: Vec<StagedContent> =
            all(&bench, &bodies(12)).await.into_iter().map(Result::unwrap).collect();
        let pack = slice(&staged[11]).block;
        assert!(pack.is_pack());
        staged.retain(|staged| slice(staged).block == pack);
        staged.iter_mut().take(named).for_each(StagedContent::disarm);
        // A plan that was sent and is known not to have been committed.
        if let Some(last) = staged.last_mut() {
            last.disarm();
            last.rearm();
        }
        drop(staged);
        bench.settle().await;
        let present = bench.faulty.present().await;
        assert_eq!(present.contains(&pack), named > 0, "{named} of its bodies were named");
    }
}

#[tokio::test(start_paused = true)]
async fn pack_pins_its_epoch_until_its_last_body_has_settled() {
    let bench = Bench::new(slow(), 4 << 20, 64 * MIB);
    let mut staged: Vec<StagedContent> =
        all(&bench, &bodies(12)).await.into_iter().map(Result::unwrap).collect();
    staged.iter_mut().for_each(StagedContent::disarm);
    let last = staged.pop().unwrap();
    assert!(slice(&last).block.is_pack());
    drop(staged);
    assert_eq!(bench.pins.count(), 1, "the last of them may still be published");
    drop(last);
    assert_eq!(bench.pins.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn failed_pack_fails_only_its_own_bodies() {
    for fault in [Fault::Before, Fault::After, Fault::Hang, Fault::Panic] {
        let faulty = slow().put_fails(1, fault);
        let bench = Bench::new(faulty, 4 << 20, 64 * MIB);
        let staged = all(&bench, &bodies(30)).await;
        assert_eq!(bench.faulty.fired(), 1, "the fault happened");
        let failed = staged.iter().filter(|staged| staged.is_err()).count();
        assert!((1..30).contains(&failed), "{failed} of 30 failed by {fault:?}");
        drop(staged);
        let again = bench.write(&body(1, SIZE), None, 9_000).await;
        assert!(again.is_ok(), "the next one is served: {again:?}");
        drop(again);
        assert_eq!(bench.tasks.close_and_wait(Duration::from_secs(1_000)).await, 0);
        assert_eq!(bench.staging.budget.in_use(), 0);
        assert_eq!(bench.faulty.present().await, [], "{fault:?} left something behind");
    }
}

#[tokio::test(start_paused = true)]
async fn disconnected_client_does_not_affect_its_pack() {
    let bench = Bench::new(slow(), 4 << 20, 64 * MIB);
    let bodies = bodies(9);
    let (gone, stay) = bodies.split_at(3);
    let leaving = async {
        let patience = Duration::from_millis(60);
        assert!(tokio::time::timeout(patience, all(&bench, &gone[1..])).await.is_err());
    };
    let first = bench.write(&gone[0], None, 9_000);
    let (first, (), staged) = futures::join!(first, leaving, all(&bench, stay));
    drop(first);
    for (staged, body) in staged.into_iter().zip(stay) {
        let mut staged = staged.unwrap();
        staged.disarm();
        assert!(bench.read(staged.content(), 0..staged.size()).await.unwrap() == body);
    }
    bench.settle().await;
}

#[tokio::test(start_paused = true)]
async fn full_pack_is_sent_at_once() {
    let faulty = Faulty::default().slow(Duration::from_secs(5), Duration::ZERO);
    let bench = Bench::new(faulty, 4 << 20, 64 * MIB);
    let bodies: Vec<Bytes> = (0..40).map(|seed| body(seed, MIB)).collect();
    let begun = Instant::now();
    let staged = all(&bench, &bodies).await;
    assert!(staged.iter().all(Result::is_ok));
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
    let longest = staged.iter().flatten().map(|it| slice(it).block_length).max();
    assert_eq!(longest, Some(Packing::default().pack_bytes));
}

#[tokio::test(start_paused = true)]
async fn bodies_do_not_wait_long_for_a_slow_backend() {
    let faulty = Faulty::default().slow(Duration::from_secs(1), Duration::ZERO);
    let bench = Bench::new(faulty, 4 << 20, 64 * MIB);
    let begun = Instant::now();
    let (first, second) = (body(1, SIZE), body(2, SIZE));
    let late = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        bench.write(&second, None, 9_000).await
    };
    let (first, second) = futures::join!(bench.write(&first, None, 9_000), late);
    let took = begun.elapsed();
    assert!(first.is_ok() && second.is_ok());
    let waited = took.saturating_sub(Duration::from_millis(1_100));
    // A body waits a little longer than the window, depending on its length.
    let window = Packing::default().window;
    assert!(waited >= 10 * window, "it did wait for the first: {waited:?}");
    assert!(waited <= 13 * window, "{waited:?} beside its own put");
}

#[tokio::test(start_paused = true)]
async fn short_memory_cuts_a_whole_body_into_blocks() {
    let bench = Bench::new(Faulty::default(), 4 << 20, MIB);
    let held = bench.staging.budget.acquire(MIB / 2, Duration::from_secs(1)).await.unwrap();
    let body = body(1, MIB);
    let staged = bench.write(&body, Some(MIB), 50_000).await.unwrap();
    drop(held);
    assert!(matches!(staged.content(), Content::Slices(slices) if slices.len() > 1));
    assert!(bench.read_through(staged.content(), &body).await);
}

#[tokio::test(start_paused = true)]
async fn short_frames_are_kept_in_order() {
    let bench = Bench::sound();
    let body = body(5, 300_000);
    for frames in [1_000, 16_383, 16_384, 70_000, u64::from(INLINE_BYTES_MAX)] {
        let frames = usize::try_from(frames).unwrap();
        let staged = bench.write(&body, None, frames).await.unwrap();
        assert!(bench.read_through(staged.content(), &body).await, "frames of {frames}");
    }
}

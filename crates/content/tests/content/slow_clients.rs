//! Uploads whose clients are slow, while others need memory.

use std::time::Duration;

use bytes::Bytes;
use content::{
    ContentWriter, Md5Wanted, MemoryHolder, PERMIT_STEP_BYTES, SHARE_PARTS, SHORT_BLOCK_BYTES_MIN,
    Share,
};
use futures::future::join_all;
use record::Content;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use crate::bench::{Bench, DEADLINES, MIB, body, frames};
use crate::faulty::Faulty;

const BLOCK: u32 = 16 << 20;

/// Sends a body as the gateway does: while it waits for the client, it releases memory if others
/// need it. `pause` is the client's pause between two frames after its first `quick` bytes. `sent`
/// is notified once these were sent.
async fn upload(
    bench: &Bench,
    mut writer: ContentWriter,
    body: &Bytes,
    (quick, pause, sent): (usize, Duration, &Semaphore),
) -> (Content, Option<[u8; 16]>) {
    writer.request_md5(Md5Wanted::AtFinish);
    let (first, rest) = (body.slice(..quick), body.slice(quick..));
    for frame in frames(&first, 100_000) {
        writer.write(frame).await.unwrap();
    }
    sent.add_permits(1);
    for frame in frames(&rest, 2 << 10) {
        let until = Instant::now() + pause;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(until) => break,
                () = writer.memory_wanted() => {}
            }
            writer.release_memory().await.unwrap();
        }
        writer.write(frame).await.unwrap();
    }
    let mut staged = writer.finish().await.unwrap();
    staged.disarm();
    let found = bench.read(staged.content(), 0..staged.size()).await.unwrap();
    assert!(found == body, "it comes back as it was sent");
    (staged.content().clone(), staged.md5())
}

fn md5(body: &Bytes) -> [u8; 16] {
    use md5::Digest;
    md5::Md5::digest(body).into()
}

/// The pause of a slow client between two frames.
const PAUSE: Duration = Duration::from_millis(250);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_uploads_release_memory_to_others() {
    // The budget holds twelve blocks and almost one more.
    let bench = Bench::new(Faulty::default(), 4 << 20, 50 * MIB);
    let sent = Semaphore::new(0);
    let held: Vec<Bytes> = (0..12).map(|seed| body(seed, (3 << 20) + (24 << 10))).collect();
    let slow = held.iter().map(|body| {
        let writer = ContentWriter::in_blocks(&bench.writers, Some(16 * MIB));
        upload(&bench, writer, body, (3 << 20, PAUSE, &sent))
    });
    let other = body(99, 4 * MIB);
    let quick = async {
        let _all = sent.acquire_many(12).await.unwrap();
        assert!(bench.staging.budget.is_tight(), "the slow uploads hold the memory");
        let began = Instant::now();
        let writer = ContentWriter::new(&bench.writers, Some(4 * MIB));
        upload(&bench, writer, &other, (4 << 20, Duration::ZERO, &Semaphore::new(0))).await;
        began.elapsed()
    };
    let (_slow, waited) = tokio::join!(join_all(slow), quick);
    assert!(waited < Duration::from_secs(5), "{waited:?}");
    bench.settle().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn body_cut_for_a_slow_client_has_its_md5() {
    for (seed, size, in_blocks) in [(1, 6 << 20, true), (2, 900 << 10, false), (3, 6 << 20, false)]
    {
        let bench = Bench::new(Faulty::default(), BLOCK, 8 * MIB);
        let sent = Semaphore::new(0);
        let slow = body(seed, size + (20 << 10));
        let hint = Some(slow.len() as u64);
        let writer = if in_blocks {
            ContentWriter::in_blocks(&bench.writers, hint)
        } else {
            ContentWriter::new(&bench.writers, hint)
        };
        let quick = usize::try_from(size).unwrap();
        let uploading = upload(&bench, writer, &slow, (quick, PAUSE, &sent));
        let other = async {
            let _sent = sent.acquire().await.unwrap();
            drop(bench.staging.budget.acquire(8 * MIB, DEADLINES.budget).await.unwrap());
        };
        let ((content, found), ()) = tokio::join!(uploading, other);
        let Content::Slices(slices) = content else { panic!("it was cut: {content:?}") };
        assert!(slices.len() > 1, "it was cut");
        assert_eq!(found, Some(md5(&slow)));
    }
}

#[tokio::test(start_paused = true)]
async fn upload_that_holds_little_keeps_its_memory() {
    let bench = Bench::new(Faulty::default(), BLOCK, MIB);
    let mut writer = ContentWriter::in_blocks(&bench.writers, Some(64 * MIB));
    writer.write(body(1, 10_000)).await.unwrap();
    assert_eq!(bench.staging.budget.in_use(), u64::from(PERMIT_STEP_BYTES));
    let slow = async {
        writer.memory_wanted().await;
        writer.release_memory().await.unwrap();
    };
    let other = bench.staging.budget.acquire(900 << 10, DEADLINES.budget);
    let ((), other) = tokio::join!(slow, other);
    drop(other.unwrap());
    assert_eq!(bench.staging.budget.in_use(), u64::from(SHORT_BLOCK_BYTES_MIN));
    drop(writer);
    bench.settle().await;
    assert_eq!(bench.staging.traffic.puts.get(), 0, "no block is that short");
}

#[tokio::test(start_paused = true)]
async fn uploads_beyond_a_share_wait_behind_others() {
    let faulty = Faulty::default().slow(Duration::from_millis(10), Duration::ZERO);
    let bench = Bench::new(faulty, BLOCK, 4 * MIB);
    let holder = |key| MemoryHolder::new([Share { key, parts: SHARE_PARTS / 4 }]);
    let budget = &bench.staging.budget;
    let mut held = budget.acquire_for(&holder(1), 4 * MIB, DEADLINES.budget).await.unwrap();
    let uploading = async |key| {
        let mut writer = ContentWriter::in_blocks(&bench.writers, Some(200 << 10));
        writer.set_memory_holder(holder(key));
        writer.write(body(key, 200 << 10)).await.unwrap();
        Instant::now()
    };
    let release = async {
        sleep(Duration::from_millis(100)).await;
        held.shrink_to(4 * MIB - (200 << 10));
    };
    let (first, second, ()) = tokio::join!(uploading(1), uploading(2), release);
    assert!(second < first, "the one below its share is first");
    drop(held);
    bench.settle().await;
}

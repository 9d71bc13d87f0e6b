//! Operations that check an object before they commit, beside writers of its key that never pause.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use volume::{CopyChanges, FsError, ObjectChange, TURN_DURATION, VolumeError, WriteCondition};

use super::{bytes, owner, put, volume};

/// The number of writers, each with one PUT at a time.
const WRITERS: usize = 8;

/// The number of operations of each kind beside the writers.
const ROUNDS: usize = 20;

/// The most failed tries of an operation. Each writer may have one plan in flight when the turn
/// begins, and these plans are committed in one or two batches.
const FAILURES_MAX: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_and_changes_end_beside_writers_that_never_pause() {
    let volume = Arc::new(volume().await);
    put(&volume, "log", &bytes(10, 0)).await.unwrap();
    let (stopped, puts) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (volume, stopped, puts) =
                (Arc::clone(&volume), Arc::clone(&stopped), Arc::clone(&puts));
            #[expect(clippy::disallowed_methods, reason = "the test joins it")]
            tokio::spawn(async move {
                while !stopped.load(Ordering::Relaxed) {
                    let content = bytes(10, u8::try_from(writer).unwrap());
                    put(&volume, "log", &content).await.unwrap();
                    puts.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let mut failed = 0;
    for round in 0..ROUNDS {
        let mut failures = 0;
        let mut tries = if round % 2 == 0 { volume.tries_of_copy() } else { volume.tries() };
        loop {
            let object = volume.stat("bkt", b"log").await.unwrap();
            let (unchanged, none, owner) = (CopyChanges::default(), WriteCondition::None, owner());
            let tags = vec![("round".to_owned(), round.to_string())];
            let ended = if round % 2 == 0 {
                let copy = volume.copy(&object, "bkt", b"log", unchanged, none, &owner);
                tries.run(copy).await.map(|_| ())
            } else {
                let change = ObjectChange::Tags(&tags);
                let changed = volume.change_object("bkt", b"log", None, Some(&object), change);
                tries.run(changed).await.map(|_| ())
            };
            match ended {
                Ok(()) => break,
                Err(VolumeError::Fs(FsError::SourceChanged | FsError::OtherObject)) => {
                    failures += 1;
                    assert!(tries.again(Some(&object)).await, "the time is over");
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!(failures <= FAILURES_MAX, "{failures} tries failed");
        failed += failures;
    }
    stopped.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    assert!(failed > 0, "no writer was in the way");
    let puts = puts.load(Ordering::Relaxed);
    assert!(puts > ROUNDS as u64, "the writers waited: {puts} PUTs");
}

#[tokio::test]
async fn turns_of_two_keys_do_not_wait_for_each_other() {
    let volume = volume().await;
    put(&volume, "log", &bytes(10, 0)).await.unwrap();
    put(&volume, "beside", &bytes(10, 0)).await.unwrap();
    let (log, beside) =
        (volume.stat("bkt", b"log").await.unwrap(), volume.stat("bkt", b"beside").await.unwrap());
    let (mut first, mut second, mut third) =
        (volume.tries(), volume.tries(), volume.tries_of_copy());
    assert!(first.again(Some(&log)).await);
    let began = Instant::now();
    assert!(second.again(Some(&beside)).await);
    assert!(began.elapsed() < TURN_DURATION / 2, "{:?}", began.elapsed());
    assert!(third.again(Some(&log)).await);
    assert!(began.elapsed() > TURN_DURATION / 2, "a copy waits for a change");
}

#[tokio::test]
async fn writers_wait_for_a_turn_that_hangs_for_a_limited_time() {
    let volume = volume().await;
    put(&volume, "log", &bytes(10, 0)).await.unwrap();
    let object = volume.stat("bkt", b"log").await.unwrap();
    let mut tries = volume.tries();
    assert!(tries.again(Some(&object)).await);
    let began = Instant::now();
    put(&volume, "beside", &bytes(10, 1)).await.unwrap();
    assert!(began.elapsed() < TURN_DURATION / 2, "another key does not wait");
    put(&volume, "log", &bytes(10, 1)).await.unwrap();
    let waited = began.elapsed();
    assert!(waited + Duration::from_millis(50) > TURN_DURATION, "no wait: {waited:?}");
    assert!(waited < 2 * TURN_DURATION, "{waited:?}");
    put(&volume, "log", &bytes(10, 2)).await.unwrap();
    assert!(began.elapsed() < waited + TURN_DURATION / 2, "the turn is over");
}

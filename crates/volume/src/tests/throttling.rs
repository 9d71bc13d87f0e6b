//! Background work beside requests that are served.

use std::sync::Arc;
use std::time::Duration;

use block::MemoryBlocks;
use faulty::Faulty;
use session::{PAUSE_FACTOR, Priority};
use tokio::time::Instant;

use super::reaping::delete;
use super::{count_blocks, lookup, make_bucket, open, publish};

/// Files of a pass: a few steps of it.
const FILES: usize = 320;

/// Duration of each metadata read.
const READ: Duration = Duration::from_millis(20);

/// Deletes some files and reaps them at a priority, with or without a client that looks a name up
/// again and again. Returns the duration.
async fn reap(priority: Priority, served: bool) -> Duration {
    let (store, blocks) = (Faulty::new(), Arc::new(MemoryBlocks::new()));
    let volume = open(store.clone(), blocks.clone()).await;
    make_bucket(&volume).await;
    publish(&volume, b"stays", 100).await.unwrap();
    for file in 0..FILES {
        let name = file.to_string().into_bytes();
        publish(&volume, &name, 100).await.unwrap();
        delete(&volume, &name).await;
    }
    store.reading.lock().unwrap().takes = READ;
    let asking: Option<tokio::task::JoinHandle<()>> = served.then(|| {
        let volume = volume.clone();
        volume.session.tasks().clone().spawn("ask", async move {
            loop {
                lookup(&volume, b"stays").await.unwrap();
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        })
    });
    let began = Instant::now();
    let reaped = volume.upkeep.reap_once(priority).await.unwrap().unwrap();
    let took = began.elapsed();
    assert_eq!((reaped.orphans, reaped.blocks), (FILES as u64, FILES as u64));
    assert_eq!(count_blocks(&blocks).await, 1);
    if let Some(asking) = asking {
        assert!(!asking.is_finished(), "it was served all the time");
        asking.abort();
    }
    took
}

#[tokio::test(start_paused = true)]
async fn the_reaper_pauses_while_requests_are_served() {
    let alone = reap(Priority::Background, false).await;
    assert!(alone >= READ * 10, "it read: {alone:?}");
    let beside = reap(Priority::Background, true).await;
    // The look at the sessions and the collection are no steps.
    assert!(beside > alone * PAUSE_FACTOR / 2, "{beside:?} beside requests, and {alone:?} without");
    assert!(beside < alone * (PAUSE_FACTOR + 2), "{beside:?}, and {alone:?}");
}

#[tokio::test(start_paused = true)]
async fn a_reaper_with_a_waiting_caller_does_not_pause() {
    let alone = reap(Priority::Urgent, false).await;
    let beside = reap(Priority::Urgent, true).await;
    assert!(beside < alone * 2, "{beside:?} beside requests, and {alone:?} without");
}

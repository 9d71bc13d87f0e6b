//! Reads that wait leave together, and see all that was acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use block::MemoryBlocks;
use faulty::{Faulty, Reading};

use super::{lookup, make_bucket, open, publish};

/// How long a read takes here.
const TRIP: Duration = Duration::from_millis(1);

fn reads_take(store: &Faulty, takes: Duration) {
    *store.reading.lock().unwrap() = Reading { takes, ..Reading::default() };
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn coalesced_lookups_see_all_acknowledged_commits() {
    const READERS: u64 = 16;
    const WRITES: u64 = 60;
    let store = Faulty::new();
    let volume = open(store.clone(), Arc::new(MemoryBlocks::new())).await;
    make_bucket(&volume).await;
    publish(&volume, b"d/o", 1).await.unwrap();
    reads_take(&store, TRIP);
    let before = volume.counters().session.reads;
    let acknowledged = Arc::new(AtomicU64::new(1));
    let readers = (0..READERS).map(|_| {
        let (volume, acknowledged) = (Arc::clone(&volume), Arc::clone(&acknowledged));
        volume.clone().session.tasks().spawn("reader", async move {
            let (mut lookups, mut seen) = (0_u64, 0);
            while seen < WRITES {
                let least = acknowledged.load(Ordering::SeqCst).max(seen);
                let found = lookup(&volume, b"d/o").await.unwrap();
                seen = super::size(&found.inode);
                assert!(seen >= least, "{seen} after {least} was acknowledged or seen");
                lookups += 1;
            }
            lookups
        })
    });
    let readers = readers.collect::<Vec<_>>();
    for size in 2..=WRITES {
        publish(&volume, b"d/o", usize::try_from(size).unwrap()).await.unwrap();
        acknowledged.store(size, Ordering::SeqCst);
    }
    let mut lookups = 0;
    for reader in readers {
        lookups += reader.await.unwrap();
    }
    let trips = volume.counters().session.reads - before;
    assert!(trips < lookups / 2, "{lookups} lookups took {trips} trips");
    volume.close().await;
}

//! The only session of a volume knows without asking, and stops doing so before anybody else
//! changes anything.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use faulty::{Fault, Faulty};
use record::key;
use session::{AUTHORITY_DURATION, JOIN_PATIENCE, SessionOptions, ShortSession};
use store::{Guard, MemoryStore, MetaStore};

use super::MaintainedVolume;
use super::*;
use crate::{RoundTrips, count_round_trips};

/// How long a busy machine may take to find out.
const FOUND_OUT: Duration = Duration::from_secs(10);

/// A volume that answers from current entries while it is authoritative.
async fn keep(store: &Arc<MemoryStore>, blocks: &Arc<MemoryBlocks>) -> MaintainedVolume {
    keep_in(store.clone(), blocks).await
}

async fn keep_in(store: Arc<dyn MetaStore>, blocks: &Arc<MemoryBlocks>) -> MaintainedVolume {
    let options = VolumeOptions {
        session: SessionOptions { authoritative_reads: true, ..SessionOptions::default() },
        inline_bytes_max: 16,
        ..Default::default()
    };
    MaintainedVolume::open_without_tasks(options, store, blocks.clone()).await.unwrap()
}

/// Looks a name up. Returns the size of the object, and true if that took no round trip.
async fn look(volume: &Volume, name: &[u8]) -> (u64, bool) {
    let (found, trips) = count_round_trips(lookup(volume, name)).await;
    (size(&found.unwrap().inode), trips == RoundTrips::default())
}

async fn eventually_knows(volume: &Volume, name: &[u8]) {
    let until = Instant::now() + FOUND_OUT;
    while !look(volume, name).await.1 {
        assert!(Instant::now() < until, "it does not find out that it has no peers");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sole_session_reads_current_entries_without_a_round_trip() {
    let (store, blocks) = Default::default();
    let volume = keep(&store, &blocks).await;
    make_bucket(&volume).await;
    publish(&volume, b"dir/name", 3).await.unwrap();
    eventually_knows(&volume, b"dir/name").await;
    let remembered = volume.counters().session.remembered;
    for bytes in 4..8 {
        publish(&volume, b"dir/name", bytes).await.unwrap();
        assert_eq!(look(&volume, b"dir/name").await.0, bytes as u64);
        // On a busy machine it may have to find out again.
        eventually_knows(&volume, b"dir/name").await;
    }
    assert!(volume.counters().session.remembered >= remembered + 4);
}

/// The newcomer changes what the other knows as soon as it is let, again and again.
#[tokio::test(flavor = "multi_thread")]
async fn authority_ends_before_a_new_session_changes_anything() {
    let (store, blocks) = Default::default();
    let one = keep(&store, &blocks).await;
    make_bucket(&one).await;
    for round in 1..=3 {
        publish(&one, b"name", round).await.unwrap();
        eventually_knows(&one, b"name").await;
        let newest = Arc::new(AtomicU64::new(0));
        let reading = one.session.tasks().spawn("reader", {
            let (one, newest) = (Arc::clone(&one), Arc::clone(&newest));
            async move {
                let mut known = 0;
                loop {
                    let least = newest.load(Ordering::SeqCst);
                    let (size, knew) = look(&one, b"name").await;
                    assert!(size >= least, "{size} bytes are older than {least}");
                    known += u64::from(knew);
                    if size > 1_000 {
                        return known;
                    }
                    tokio::task::yield_now().await;
                }
            }
        });
        let came = Instant::now();
        let other = keep(&store, &blocks).await;
        assert!(came.elapsed() >= JOIN_PATIENCE, "it did not wait");
        for bytes in 100..130 {
            publish(&other, b"name", bytes).await.unwrap();
            newest.store(bytes as u64, Ordering::SeqCst);
        }
        publish(&other, b"name", 1_001).await.unwrap();
        let known = reading.await.expect("nothing old was read");
        assert!(known > 20, "it knew {known} times only: nothing was tried");
        assert!(!look(&one, b"name").await.1 && !look(&other, b"name").await.1, "two are there");
        other.close().await;
    }
}

/// The slot of the plan shows its outcome, and then the records need no round trip again.
#[tokio::test(flavor = "multi_thread")]
async fn records_of_a_lost_answer_are_known_after_its_outcome() {
    for fault in [Fault::LostAnswer, Fault::LostRequest] {
        let (store, blocks) = (Faulty::new(), Arc::default());
        let volume = keep_in(store.clone(), &blocks).await;
        make_bucket(&volume).await;
        publish(&volume, b"name", 3).await.unwrap();
        eventually_knows(&volume, b"name").await;
        store.inject(Some(key::space::INODE), fault);
        publish(&volume, b"name", 4).await.unwrap();
        assert_eq!(store.fired(), 1);
        eventually_knows(&volume, b"name").await;
        assert_eq!(look(&volume, b"name").await.0, 4);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_becomes_authoritative_when_its_peers_end() {
    let (store, blocks) = Default::default();
    let one = keep(&store, &blocks).await;
    make_bucket(&one).await;
    let other = keep(&store, &blocks).await;
    publish(&other, b"name", 3).await.unwrap();
    tokio::time::sleep(2 * AUTHORITY_DURATION).await;
    assert_eq!(look(&one, b"name").await, (3, false));
    assert_eq!(look(&one, b"name").await, (3, false));
    other.close().await;
    eventually_knows(&one, b"name").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_by_a_short_session_ends_authority() {
    let (store, blocks) = Default::default();
    let one = keep(&store, &blocks).await;
    make_bucket(&one).await;
    publish(&one, b"name", 3).await.unwrap();
    eventually_knows(&one, b"name").await;
    let came = Instant::now();
    let clock = Arc::new(runtime::SystemClock::new());
    let short = ShortSession::begin(store.clone(), "here", clock).await.unwrap();
    short.join().await.unwrap();
    assert!(came.elapsed() >= JOIN_PATIENCE, "it did not wait");
    assert!(!look(&one, b"name").await.1, "it knows of the visitor");
    let plan = store::Plan {
        guards: vec![Guard::Present(key::session(short.nonce()))],
        writes: Vec::new(),
    };
    let verdicts = store.commit(std::slice::from_ref(&plan)).await.unwrap();
    assert_eq!(verdicts, [store::Verdict::Committed]);
    short.end().await;
    let verdicts = store.commit(&[plan]).await.unwrap();
    assert_eq!(verdicts, [store::Verdict::Refused { guard: 0, found: None }]);
    eventually_knows(&one, b"name").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_volume_answers_nothing_from_its_cache() {
    let (store, blocks) = Default::default();
    let one = keep(&store, &blocks).await;
    make_bucket(&one).await;
    publish(&one, b"name", 3).await.unwrap();
    eventually_knows(&one, b"name").await;
    one.close().await;
    tokio::time::sleep(3 * session::FEED_INTERVAL).await;
    let (_, trips) = count_round_trips(lookup(&one, b"name")).await;
    assert_ne!(trips, RoundTrips::default());
}

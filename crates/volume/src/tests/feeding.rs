//! Two volumes on one store: what one changes, the other forgets.

use super::MaintainedVolume;
use std::time::Duration;

use namespace::{ExpectedPolicy, SetPolicy};
use record::{PolicyRecord, key};
use store::{MemoryStore, MetaStore, feed::FEED_BATCHES};

use super::*;

/// Time within which a change is reported on a busy machine.
const TOLD: Duration = Duration::from_secs(5);

async fn eventually(mut done: impl FnMut() -> bool) -> bool {
    tokio::time::timeout(TOLD, async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .is_ok()
}

async fn two() -> (Arc<MemoryStore>, MaintainedVolume, MaintainedVolume) {
    let store = Arc::new(MemoryStore::new());
    let blocks: Arc<dyn BlockStore> = Arc::new(MemoryBlocks::new());
    let one = open(store.clone(), Arc::clone(&blocks)).await;
    let other = open(store.clone(), blocks).await;
    make_bucket(&one).await;
    (store, one, other)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_hint_never_leads_to_a_wrong_answer() {
    let (_store, one, other) = two().await;
    publish(&one, b"a", 3).await.unwrap();
    lookup(&other, b"a").await.unwrap();
    let before = one.counters().session.notified;
    publish(&other, b"a", 4).await.unwrap();
    publish(&other, b"a", 5).await.unwrap();
    // Each changed a dentry and an inode.
    assert!(
        eventually(|| one.counters().session.notified >= before + 4).await,
        "the feed did not report it"
    );
    lookup(&one, b"a").await.unwrap();
    publish(&one, b"a", 6).await.unwrap();
    assert_eq!(one.counters().session.refused, 0, "it knew that its hint was stale");
}

#[tokio::test(flavor = "multi_thread")]
async fn own_changes_do_not_invalidate_the_cache() {
    let (_store, one, _other) = two().await;
    publish(&one, b"a", 3).await.unwrap();
    tokio::time::sleep(3 * session::FEED_INTERVAL).await;
    assert_eq!(one.counters().session.notified, 0);
    let (published, trips) = crate::count_round_trips(publish(&one, b"a", 4)).await;
    published.unwrap();
    assert_eq!((trips.reads, trips.commits), (0, 1), "the overwrite relies on the earlier write");
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_changes_of_other_gateways_are_notified() {
    let (_store, one, other) = two().await;
    let mut changes = other.access_changes();
    changes.mark_unchanged();
    publish(&one, b"a", 3).await.unwrap();
    tokio::time::sleep(3 * session::FEED_INTERVAL).await;
    assert!(!changes.has_changed().unwrap(), "an object is no policy");
    let policy = &PolicyRecord("{}".to_owned());
    one.session
        .run(&SetPolicy { name: "p", policy, expected: ExpectedPolicy::Any })
        .await
        .unwrap()
        .unwrap();
    assert!(eventually(|| changes.has_changed().unwrap()).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gap_in_the_feed_drops_all_records() {
    let (store, one, _other) = two().await;
    publish(&one, b"a", 3).await.unwrap();
    // More changes than the store keeps, while the feed is not read.
    let write = |number: u64| store::Plan {
        guards: Vec::new(),
        writes: vec![store::Write::Put(key::map_page(Ino(number), 0), Bytes::new())],
    };
    // On a slow machine it may ask in between, and miss nothing.
    for round in 0..10 {
        for number in 0..=FEED_BATCHES as u64 {
            store.commit(&[write(round << 32 | number)]).await.unwrap();
        }
        tokio::time::sleep(2 * session::FEED_INTERVAL).await;
        if one.counters().session.gaps >= 1 {
            break;
        }
    }
    assert!(one.counters().session.gaps >= 1, "the feed did not report it");
    let refused = one.counters().session.refused;
    publish(&one, b"a", 4).await.unwrap();
    assert_eq!(one.counters().session.refused, refused + 1, "it had to find out again");
}

//! The age of pending blocks, by this process's own clock.

use std::time::Duration;

use record::BlockId;
use store::Durability;
use tokio::time::{Instant, advance};

use super::{DELETION_GRACE_RELAXED, PendingAges, effective_grace};

const GRACE: Duration = Duration::from_secs(10);
const BLOCK: BlockId = BlockId([1; 16]);

#[test]
fn configured_grace_overrides_the_default() {
    let relaxed = DELETION_GRACE_RELAXED;
    assert_eq!(effective_grace(None, Durability::Strict), Duration::ZERO);
    assert_eq!(effective_grace(None, Durability::Relaxed), relaxed);
    assert_eq!(effective_grace(Some(GRACE * 2), Durability::Strict), GRACE * 2);
    assert_eq!(effective_grace(Some(Duration::ZERO), Durability::Relaxed), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn block_waits_from_its_first_sighting() {
    let (mut waiting, began) = (PendingAges::default(), Instant::now());
    assert!(PendingAges::default().has_waited(BLOCK, Duration::ZERO));
    for _ in 0..5 {
        assert!(!waiting.has_waited(BLOCK, GRACE));
        assert_eq!(waiting.end_pass(GRACE), Some(began + GRACE));
        advance(GRACE / 5).await;
    }
    assert!(waiting.has_waited(BLOCK, GRACE));
    assert_eq!(waiting.end_pass(GRACE), None);
}

#[tokio::test(start_paused = true)]
async fn record_that_disappeared_waits_from_the_start() {
    let mut waiting = PendingAges::default();
    assert!(!waiting.has_waited(BLOCK, GRACE));
    waiting.end_pass(GRACE);
    // The store was restored to a state before the release, and then the block was freed again.
    advance(GRACE / 2).await;
    assert_eq!(waiting.end_pass(GRACE), None);
    assert!(!waiting.has_waited(BLOCK, GRACE));
    waiting.end_pass(GRACE);
    advance(GRACE / 2 + Duration::from_secs(1)).await;
    assert!(!waiting.has_waited(BLOCK, GRACE), "ten seconds since it was seen first of all");
}

#[tokio::test(start_paused = true)]
async fn incomplete_pass_keeps_all_ages() {
    let mut waiting = PendingAges::default();
    assert!(!waiting.has_waited(BLOCK, GRACE));
    waiting.end_pass(GRACE);
    waiting.keep_incomplete_pass();
    advance(GRACE).await;
    assert!(waiting.has_waited(BLOCK, GRACE));
}

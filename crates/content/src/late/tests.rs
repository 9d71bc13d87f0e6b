use record::Nonce;

use super::*;

fn id(counter: u64) -> BlockId {
    BlockId::new(Nonce([1; Nonce::BYTES]), counter)
}

#[tokio::test(start_paused = true)]
async fn late_block_becomes_due_once_for_each_retry_delay() {
    let late = LateBlocks::default();
    assert!(late.note(id(1)));
    assert_eq!(late.take_due(Instant::now()), None);
    for after in DELETE_RETRY_DELAYS {
        assert_eq!(late.next_due(), Some(Instant::now() + after));
        tokio::time::sleep(after).await;
        assert_eq!(late.take_due(Instant::now()), Some(id(1)));
        assert_eq!(late.take_due(Instant::now()), None);
    }
    assert_eq!(late.next_due(), None);
}

#[tokio::test(start_paused = true)]
async fn block_is_refused_when_the_list_is_full() {
    let late = LateBlocks::default();
    assert!((0..LATE_BLOCKS_MAX as u64).all(|n| late.note(id(n))));
    assert!(!late.note(id(u64::from(u32::MAX))));
}

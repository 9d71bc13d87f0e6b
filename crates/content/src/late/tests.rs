use record::Nonce;

use super::*;

fn id(counter: u64) -> BlockId {
    BlockId::new(Nonce([1; Nonce::BYTES]), counter)
}

#[tokio::test(start_paused = true)]
async fn a_block_comes_up_as_often_as_it_is_to_be_deleted_again() {
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
async fn what_does_not_fit_is_left_to_others() {
    let late = LateBlocks::default();
    assert!((0..LATE_BLOCKS_MAX as u64).all(|n| late.note(id(n))));
    assert!(!late.note(id(u64::from(u32::MAX))));
}

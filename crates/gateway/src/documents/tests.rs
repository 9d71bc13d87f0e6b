use std::sync::Arc;

use content::{SHARE_PARTS, Share};
use s3::Code;

use super::*;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn budgets() -> Arc<DocumentBudgets> {
    Arc::new(DocumentBudgets::new(16 * MIB, 32 * MIB))
}

fn key(key: u64) -> MemoryHolder {
    MemoryHolder::new([Share { key, parts: SHARE_PARTS / 8 }])
}

fn memory(budgets: &DocumentBudgets, of: u64, all: u64) -> DocumentMemory<'_> {
    DocumentMemory::new(budgets, key(of), None, all)
}

#[tokio::test(start_paused = true)]
async fn a_document_takes_memory_as_it_arrives() {
    let budgets = budgets();
    let mut document = memory(&budgets, 1, 4 * MIB);
    for (here, held) in [(1, 32 * KIB), (16 * KIB, 32 * KIB), (17 * KIB, 64 * KIB)] {
        document.grow(here).await.expect("there is memory");
        let in_use = (budgets.beginnings.in_use(), budgets.long.in_use());
        assert_eq!(in_use, (held, 0), "{here} bytes of 4 MiB are here");
    }
    document.grow(65 * KIB).await.expect("there is memory");
    assert_eq!((budgets.beginnings.in_use(), budgets.long.in_use()), (0, 256 * KIB));
    document.grow(MIB).await.expect("there is memory");
    assert_eq!(budgets.long.in_use(), 2 * MIB);
    document.grow(4 * MIB).await.expect("the reserve has the rest");
    assert_eq!(budgets.reserve.in_use(), 6 * MIB, "a key has an eighth of the steps");
    let _permits = document.finish(MIB);
    assert_eq!((budgets.long.in_use(), budgets.reserve.in_use()), (2 * MIB, 0));
    let mut short = memory(&budgets, 1, 100);
    short.grow(100).await.expect("there is memory");
    assert_eq!(budgets.beginnings.in_use(), KIB, "no more than may come");
}

/// Receives a document of 4 MiB in pieces, as its client sends it, and then holds its memory.
async fn receive(budgets: &DocumentBudgets, of: u64) -> Result<(), Fault> {
    let all = 4 * MIB;
    let mut document = memory(budgets, of, all);
    let mut here = 0;
    while here < all {
        here += 64 * KIB;
        document.grow(here).await?;
        sleep(Duration::from_millis(1)).await;
    }
    let _permits = document.finish(all);
    sleep(Duration::from_millis(200)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn long_documents_wait_for_each_other_and_finish() {
    let budgets = budgets();
    let received = (0..32).map(|of| receive(&budgets, of % 4));
    for received in futures::future::join_all(received).await {
        received.expect("it has waited for its turn");
    }
    assert_eq!((budgets.long.in_use(), budgets.reserve.in_use()), (0, 0));
    assert!(budgets.reserve.peak() > 0, "some documents got no step");
}

#[tokio::test(start_paused = true)]
async fn documents_of_one_access_key_leave_memory_for_those_of_others() {
    let budgets = budgets();
    let mut stalled = Vec::new();
    for of in [1, 2] {
        for _ in 0..16 {
            let mut document = memory(&budgets, of, 4 * MIB);
            if document.grow(65 * KIB).await.is_ok() {
                stalled.push(document);
            }
        }
    }
    let began = Instant::now();
    let mut short = memory(&budgets, 1, KIB);
    short.grow(KIB).await.expect("short documents of the same key go on");
    let mut other = memory(&budgets, 3, 2 * MIB);
    other.grow(MIB).await.expect("the share of another key is free");
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn more_waiting_documents_of_a_key_are_refused_at_once() {
    let budgets = DocumentBudgets::new(KIB, KIB);
    let mut first = memory(&budgets, 1, KIB);
    first.grow(KIB).await.expect("there is memory");
    let mut others: Vec<_> = (0..16).map(|_| memory(&budgets, 1, KIB)).collect();
    let mut waiting: Vec<_> = others.iter_mut().map(|one| Box::pin(one.grow(KIB))).collect();
    for one in &mut waiting {
        assert!(futures::poll!(one).is_pending());
    }
    let began = Instant::now();
    let mut more = memory(&budgets, 1, KIB);
    let refused = more.grow(KIB).await.expect_err("too many of the key wait");
    assert_eq!((refused.code, began.elapsed()), (Code::SlowDown, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_slow_document_loses_its_memory_only_while_others_wait() {
    let budgets = DocumentBudgets::new(KIB, KIB);
    let mut slow = memory(&budgets, 1, KIB);
    slow.grow(KIB).await.expect("there is memory");
    let mut rate = ArrivalRate::new();
    rate.count(KIB);
    rate.check(&slow).expect("no other document waits");
    let mut other = memory(&budgets, 2, KIB);
    let mut waits = Box::pin(other.grow(KIB));
    assert!(futures::poll!(&mut waits).is_pending());
    let fast = DOCUMENT_BYTES_PER_SECOND_MIN * RATE_WINDOW.as_secs();
    rate.count(fast);
    rate.check(&slow).expect("it is fast enough");
    rate.count(fast - 1);
    let late = rate.check(&slow).expect_err("it is too slow");
    assert_eq!(late.code, Code::RequestTimeout);
    drop(slow);
    waits.await.expect("the memory is free");
}

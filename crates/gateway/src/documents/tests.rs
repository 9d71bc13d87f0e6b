use std::sync::Arc;

use content::{SHARE_PARTS, Share};
use s3::Code;
use tokio::time::{Instant, sleep};

use super::*;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn budgets() -> Arc<DocumentBudgets> {
    Arc::new(DocumentBudgets::new(16 * MIB, 32 * MIB))
}

fn key(key: u64) -> MemoryHolder {
    MemoryHolder::new([Share { key, parts: SHARE_PARTS / 4 }])
}

#[tokio::test(start_paused = true)]
async fn a_document_takes_memory_as_it_arrives() {
    let budgets = budgets();
    let mut memory = DocumentMemory::new(&budgets, key(1), 4 * MIB);
    for (here, held) in [(1, 32 * KIB), (16 * KIB, 32 * KIB), (17 * KIB, 64 * KIB)] {
        memory.grow(here).await.expect("there is memory");
        let in_use = (budgets.beginnings.in_use(), budgets.long.in_use());
        assert_eq!(in_use, (held, 0), "{here} bytes of 4 MiB are here");
    }
    memory.grow(65 * KIB).await.expect("there is memory");
    assert_eq!((budgets.beginnings.in_use(), budgets.long.in_use()), (0, 8 * MIB));
    memory.grow(4 * MIB).await.expect("it has all memory that it needs");
    let permit = memory.finish(MIB).expect("a document has memory");
    assert_eq!((permit.bytes(), budgets.long.in_use()), (2 * MIB, 2 * MIB));
    let mut short = DocumentMemory::new(&budgets, key(1), 100);
    short.grow(100).await.expect("there is memory");
    assert_eq!(budgets.beginnings.in_use(), KIB, "no more than may come");
}

/// Receives a document of 4 MiB in pieces, as its client sends it, and then holds its memory.
async fn receive(budgets: &DocumentBudgets, holder: MemoryHolder) -> Result<(), Fault> {
    let all = 4 * MIB;
    let mut memory = DocumentMemory::new(budgets, holder, all);
    let mut here = 0;
    while here < all {
        here += 64 * KIB;
        memory.grow(here).await?;
        sleep(Duration::from_millis(1)).await;
    }
    let _permit = memory.finish(all);
    sleep(Duration::from_millis(200)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn long_documents_of_one_access_key_wait_for_each_other() {
    let budgets = budgets();
    let received = (0..48).map(|_| receive(&budgets, key(1)));
    for received in futures::future::join_all(received).await {
        received.expect("it has waited for its turn");
    }
    assert_eq!(budgets.long.in_use(), 0);
    assert_eq!(budgets.long.peak(), 8 * MIB, "one at a time fits into the share of a key");
}

#[tokio::test(start_paused = true)]
async fn documents_of_one_access_key_leave_memory_for_those_of_others() {
    let budgets = budgets();
    let mut stalled = Vec::new();
    let refused = loop {
        let mut memory = DocumentMemory::new(&budgets, key(1), 4 * MIB);
        let grown = memory.grow(65 * KIB).await;
        stalled.push(memory);
        if let Err(fault) = grown {
            break fault;
        }
    };
    assert_eq!((refused.code, stalled.len()), (Code::SlowDown, 2));
    let began = Instant::now();
    let mut short = DocumentMemory::new(&budgets, key(1), KIB);
    short.grow(KIB).await.expect("short documents of the same key go on");
    let mut other = DocumentMemory::new(&budgets, key(2), 4 * MIB);
    other.grow(4 * MIB).await.expect("the share of another key is free");
    assert_eq!(began.elapsed(), Duration::ZERO);
}

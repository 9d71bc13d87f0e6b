//! Leads and their waiters.

use block::{BlockId, Nonce};

use super::*;

const KEY: PageKey = PageKey { block: BlockId([1; BlockId::BYTES]), index: 4 };

fn lead(fetches: &Arc<Fetches>) -> Lead {
    match fetches.join(KEY, || None) {
        FetchTurn::Lead(lead) => lead,
        other => panic!("the lead was free: {other:?}"),
    }
}

fn waiter(fetches: &Arc<Fetches>) -> Waiter {
    match fetches.join(KEY, || None) {
        FetchTurn::Wait(waiter) => waiter,
        other => panic!("another reader has the lead: {other:?}"),
    }
}

#[tokio::test]
async fn waiters_get_the_result_of_the_lead() {
    let fetches = Arc::new(Fetches::default());
    let page = Bytes::from_static(b"page");
    let (first, waiting) = (lead(&fetches), waiter(&fetches));
    first.complete(page.clone());
    assert_eq!(waiting.wait().await, Waited::Page(page));

    let (first, waiting) = (lead(&fetches), waiter(&fetches));
    first.fail();
    assert_eq!(waiting.wait().await, Waited::Failed);

    let (first, waiting) = (lead(&fetches), waiter(&fetches));
    drop(first);
    assert_eq!(waiting.wait().await, Waited::Abandoned);
    assert!(fetches.lock().is_empty());
}

#[tokio::test]
async fn new_lead_looks_into_memory_first() {
    let fetches = Arc::new(Fetches::default());
    let page = Bytes::from_static(b"page");
    let boarded = fetches.join(KEY, || Some(page.clone()));
    assert!(matches!(boarded, FetchTurn::Known(known) if known == page));
    assert!(fetches.lock().is_empty());
    let other = PageKey { block: BlockId::new(Nonce([2; Nonce::BYTES]), 1), ..KEY };
    let _first = lead(&fetches);
    assert!(matches!(fetches.join(other, || None), FetchTurn::Lead(_)));
}

//! Leads and those who wait for them.

use block::{BlockId, Nonce};

use super::*;

const KEY: PageKey = PageKey { block: BlockId([1; BlockId::BYTES]), index: 4 };

fn lead(flights: &Arc<Flights>) -> Lead {
    match flights.board(KEY, || None) {
        Boarding::Lead(lead) => lead,
        other => panic!("the lead was free: {other:?}"),
    }
}

fn waiter(flights: &Arc<Flights>) -> Waiter {
    match flights.board(KEY, || None) {
        Boarding::Wait(waiter) => waiter,
        other => panic!("somebody has the lead: {other:?}"),
    }
}

#[tokio::test]
async fn who_waits_gets_what_becomes_of_the_lead() {
    let flights = Arc::new(Flights::default());
    let page = Bytes::from_static(b"page");
    let (first, waiting) = (lead(&flights), waiter(&flights));
    first.land(page.clone());
    assert_eq!(waiting.wait().await, Waited::Page(page));

    let (first, waiting) = (lead(&flights), waiter(&flights));
    first.fail();
    assert_eq!(waiting.wait().await, Waited::Failed);

    let (first, waiting) = (lead(&flights), waiter(&flights));
    drop(first);
    assert_eq!(waiting.wait().await, Waited::Left);
    assert!(flights.lock().is_empty());
}

#[tokio::test]
async fn whoever_takes_the_lead_looks_into_memory_first() {
    let flights = Arc::new(Flights::default());
    let page = Bytes::from_static(b"page");
    let boarded = flights.board(KEY, || Some(page.clone()));
    assert!(matches!(boarded, Boarding::Known(known) if known == page));
    assert!(flights.lock().is_empty());
    let other = PageKey { block: BlockId::new(Nonce([2; Nonce::BYTES]), 1), ..KEY };
    let _first = lead(&flights);
    assert!(matches!(flights.board(other, || None), Boarding::Lead(_)));
}

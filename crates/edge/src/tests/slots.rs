//! Requests that wait for their clients.

use std::time::Duration;

use super::harness::{Connection, Harness, Options};

const GET: &str = "GET /ok HTTP/1.1\r\nHost: x\r\n\r\n";

const OTHER: [u8; 4] = [127, 0, 0, 2];

async fn one_slot() -> Harness {
    Harness::start(Options { requests_max: 1, host_requests_max: 1, ..Options::default() }).await
}

/// A request whose body has begun and does not end.
async fn unfinished(harness: &Harness) -> Connection {
    let mut slow = harness.connect().await;
    slow.send("PUT /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\na").await;
    while harness.asked() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    slow
}

#[tokio::test]
async fn a_stalled_upload_frees_its_slot_for_others() {
    let harness = one_slot().await;
    let mut slow = unfinished(&harness).await;
    assert_eq!(harness.ask(GET).await.status, 200, "the same host is served");
    let mut other = harness.connect_from(OTHER).await;
    other.send(GET).await;
    assert_eq!(other.read().await.status, 200, "another host is served");
    slow.send("bcdef").await;
    let said = slow.read().await;
    assert_eq!((said.status, said.body.as_str()), (200, "abcdef"));
}

#[tokio::test]
async fn slow_uploads_free_their_slots_for_others() {
    let harness = one_slot().await;
    let mut slow = unfinished(&harness).await;
    for byte in ["b", "c", "d", "e"] {
        assert_eq!(harness.ask(GET).await.status, 200);
        slow.send(byte).await;
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    slow.send("f").await;
    assert_eq!(slow.read().await.body, "abcdef");
}

#[tokio::test(start_paused = true)]
async fn a_resumed_upload_waits_for_a_slot() {
    let harness = one_slot().await;
    let mut slow = unfinished(&harness).await;
    let mut busy = harness.connect().await;
    busy.send("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n").await;
    harness.service.began.notified().await;
    slow.send("bcdef").await;
    let early = tokio::time::timeout(Duration::from_secs(1), slow.read_head()).await;
    assert!(early.is_err(), "the only slot is taken");
    harness.service.go.notify_one();
    assert_eq!(busy.read().await.status, 200);
    assert_eq!(slow.read().await.body, "abcdef");
}

#[tokio::test]
async fn a_paused_download_frees_its_slot_for_others() {
    let harness = one_slot().await;
    let mut lazy = harness.connect().await;
    lazy.send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(lazy.read_head().await.status, 200);
    assert_eq!(harness.ask(GET).await.status, 200);
}

/// Sends one byte of a body every 5 ms, until the connection fails.
async fn trickle(mut slow: Connection) {
    while slow.try_send(b"a").await.is_ok() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn single_bytes_do_not_keep_a_slot() {
    let harness = one_slot().await;
    let mut slow = harness.connect().await;
    slow.send("PUT /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\na").await;
    while harness.asked() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let served = async {
        for _ in 0..20 {
            assert_eq!(harness.ask(GET).await.status, 200);
        }
    };
    tokio::select! {
        () = trickle(slow) => unreachable!("the connection stays open"),
        () = served => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_for_others_holds_no_slot() {
    let harness = one_slot().await;
    let mut waits = harness.connect().await;
    waits.send("GET /wait-without HTTP/1.1\r\nHost: x\r\n\r\n").await;
    harness.service.began.notified().await;
    assert_eq!(harness.ask(GET).await.status, 200);
    harness.service.go.notify_one();
    assert_eq!(waits.read().await.status, 200);
}

#[tokio::test]
async fn a_body_of_an_unknown_sender_arrives_without_a_slot() {
    let harness = one_slot().await;
    let mut slow = harness.connect().await;
    slow.send("PUT /unsigned HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\na").await;
    while harness.asked() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut busy = harness.connect().await;
    busy.send("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n").await;
    harness.service.began.notified().await;
    slow.send("bcdef").await;
    harness.service.go.notify_one();
    assert_eq!(busy.read().await.status, 200);
    assert_eq!(slow.read().await.body, "abcdef");
}

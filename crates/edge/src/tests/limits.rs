use std::time::Duration;

use tokio::time::Instant;

use super::harness::{Harness, Options};

#[tokio::test(start_paused = true)]
async fn an_incomplete_head_closes_the_connection() {
    let harness = Harness::start(Options::default()).await;
    let mut connection = harness.connect().await;
    connection.send("GET / HTTP/1.1\r\nHost: x\r\nX-Slow:").await;
    let began = Instant::now();
    assert!(connection.is_closed().await);
    let waited = began.elapsed();
    assert!((9..=11).contains(&waited.as_secs()), "{waited:?}");
}

#[tokio::test]
async fn too_many_and_too_large_headers_are_refused() {
    let harness = Harness::start(Options::default()).await;
    let many = |count| "X-Many: y\r\n".repeat(count);
    for count in [100, 399] {
        let said = harness.ask(&format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", many(count))).await;
        assert_eq!(said.status, 400);
        assert!(said.body.contains("<Code>RequestHeaderSectionTooLarge</Code>"), "{}", said.body);
        assert!(said.header("x-amz-request-id").is_some());
    }
    let fits = harness.ask(&format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", many(99))).await;
    assert_eq!(fits.status, 200);
    let said = harness.ask(&format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", many(400))).await;
    assert_eq!(said.status, 431);
    let large = "y".repeat(17 << 10);
    let said = harness.ask(&format!("GET / HTTP/1.1\r\nHost: x\r\nX-Large: {large}\r\n\r\n")).await;
    assert_eq!(said.status, 431);
    let large = "y".repeat(12 << 10);
    let said = harness.ask(&format!("GET / HTTP/1.1\r\nHost: x\r\nX-Large: {large}\r\n\r\n")).await;
    assert_eq!(said.status, 400);
    assert!(said.body.contains("<Code>RequestHeaderSectionTooLarge</Code>"), "{}", said.body);
    assert!(said.body.contains("<MaxSizeAllowed>8192</MaxSizeAllowed>"), "{}", said.body);
    let fits = "y".repeat(8_100);
    let said = harness.ask(&format!("GET / HTTP/1.1\r\nHost: x\r\nX-Large: {fits}\r\n\r\n")).await;
    assert_eq!(said.status, 200);
    assert_eq!(harness.ask("NONSENSE\r\n\r\n").await.status, 400);
    let metrics = harness.metrics.text().expect("text");
    assert!(metrics.contains("ashlar_s3_connection_errors_total{kind=\"request\"} 3"), "{metrics}");
}

#[tokio::test]
async fn two_lengths_are_refused_and_bytes_after_an_ambiguous_body_are_not_parsed() {
    let harness = Harness::start(Options::default()).await;
    let two = "PUT /ok HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!";
    assert_eq!(harness.ask(two).await.status, 400);
    let mut connection = harness.connect().await;
    connection
        .send(
            "PUT /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 60\r\nTransfer-Encoding: chunked\r\n\
             \r\n5\r\nhello\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n",
        )
        .await;
    assert_eq!(connection.read().await.body, "hello");
    assert!(connection.is_closed().await, "what follows is not a request");
}

#[tokio::test]
async fn a_short_unread_body_is_drained_and_the_connection_continues() {
    let harness = Harness::start(Options::default()).await;
    let mut connection = harness.connect().await;
    let body = "x".repeat(512 << 10);
    let put =
        format!("PUT /ok HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    for _ in 0..2 {
        connection.send(&put).await;
        let said = connection.read().await;
        assert_eq!((said.status, said.header("connection")), (200, None));
    }
}

/// A body that is drained slowly does not delay other requests.
#[tokio::test]
async fn draining_a_body_holds_no_slot() {
    let harness = Harness::start(Options { requests_max: 1, ..Options::default() }).await;
    let mut slow = harness.connect().await;
    slow.send("PUT /ok HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nx").await;
    while harness.asked() == 0 {
        tokio::task::yield_now().await;
    }
    for _ in 0..8 {
        assert_eq!(harness.ask("GET /ok HTTP/1.1\r\nHost: x\r\n\r\n").await.status, 200);
    }
    assert_eq!(harness.asked(), 9, "it is still being read");
    slow.send(&"x".repeat(999)).await;
    let said = slow.read().await;
    assert_eq!((said.status, said.header("connection")), (200, None));
}

#[tokio::test]
async fn a_long_unread_body_closes_the_connection_with_a_header() {
    let harness = Harness::start(Options::default()).await;
    let mut connection = harness.connect().await;
    connection.send("PUT /ok HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\nx").await;
    let said = connection.read().await;
    assert_eq!((said.status, said.header("connection").as_deref()), (200, Some("close")));
    assert!(connection.is_closed().await);
}

#[tokio::test]
async fn a_client_that_expects_100_continue_gets_none_for_an_unread_body() {
    let harness = Harness::start(Options::default()).await;
    let expect = "Host: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    let mut connection = harness.connect().await;
    connection.send(&format!("PUT /ok HTTP/1.1\r\n{expect}")).await;
    let said = connection.read().await;
    assert_eq!((said.status, said.header("connection").as_deref()), (200, Some("close")));
    let mut connection = harness.connect().await;
    connection.send(&format!("PUT /echo HTTP/1.1\r\n{expect}")).await;
    assert_eq!(connection.read_head().await.status, 100);
    connection.send("hello").await;
    assert_eq!(connection.read().await.body, "hello");
}

#[tokio::test]
async fn a_client_that_expects_100_continue_for_an_empty_body_gets_the_end_of_the_connection() {
    let harness = Harness::start(Options::default()).await;
    for line in ["PUT /ok", "PUT /echo"] {
        let mut connection = harness.connect().await;
        let head = "Host: x\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n";
        connection.send(&format!("{line} HTTP/1.1\r\n{head}")).await;
        let said = connection.read().await;
        assert_eq!((said.status, said.header("connection").as_deref()), (200, Some("close")));
        assert!(connection.is_closed().await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_slot_gets_slow_down() {
    let harness = Harness::start(Options { requests_max: 1, ..Options::default() }).await;
    let mut busy = harness.connect().await;
    busy.send("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n").await;
    harness.service.began.notified().await;
    let said = harness.ask("GET /ok HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!((said.status, said.header("retry-after").as_deref()), (503, Some("1")));
    assert!(said.body.contains("<Code>SlowDown</Code>"), "{}", said.body);
    assert_eq!(harness.ask("GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n").await.status, 200);
    harness.service.go.notify_one();
    assert_eq!(busy.read().await.status, 200);
    assert_eq!(harness.ask("GET /ok HTTP/1.1\r\nHost: x\r\n\r\n").await.status, 200);
    let metrics = harness.metrics.text().expect("text");
    assert!(metrics.contains("ashlar_s3_rejections_total{limit=\"requests\"} 1"), "{metrics}");
}

#[tokio::test]
async fn a_connection_over_the_limit_gets_slow_down_and_closes() {
    let harness = Harness::start(Options { connections_max: 1, ..Options::default() }).await;
    let mut first = harness.connect().await;
    first.send("GET /ok HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(first.read().await.status, 200);
    let mut second = harness.connect().await;
    second.send("GET /ok HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let said = second.read().await;
    assert_eq!((said.status, said.header("connection").as_deref()), (503, Some("close")));
    assert!(said.body.contains("<Code>SlowDown</Code>"), "{}", said.body);
    assert!(second.is_closed().await);
    first.send("GET /ok HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(first.read().await.status, 200, "the first is not disturbed");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_stops_reading_loses_its_connection() {
    let download_timeout = Duration::from_secs(30);
    let harness = Harness::start(Options { download_timeout, ..Options::default() }).await;
    let mut lazy = harness.connect().await;
    lazy.send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let began = Instant::now();
    while !harness.metrics.text().expect("text").contains("kind=\"transport\"} 1") {
        assert!(began.elapsed() < download_timeout * 10, "still connected");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(began.elapsed() >= download_timeout);
}

/// A response that is too long for the memory permits keeps its slot until it is sent, also over
/// HTTP/1.1, where hyper drops the body with its last frame.
#[tokio::test]
async fn a_response_in_memory_holds_its_slot_until_the_client_has_read_it() {
    let harness = Harness::start(Options { requests_max: 1, ..Options::default() }).await;
    let mut lazy = harness.connect().await;
    lazy.send("GET /memory HTTP/1.1\r\nHost: x\r\n\r\n").await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let ask = "GET /ok HTTP/1.1\r\nHost: x\r\n\r\n";
    assert_eq!(harness.ask(ask).await.status, 503, "another request has the only permit");
    assert_eq!(lazy.read().await.body.len(), 40 << 20);
    assert_eq!(harness.ask(ask).await.status, 200);
}

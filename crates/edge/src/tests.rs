//! The edge with a service whose answers the tests choose, over real sockets.

mod h2;
mod harness;
mod hosts;
mod limits;
mod linger;
mod slots;
mod tls;

use std::time::Duration;

use harness::{Harness, Options, Said};

#[tokio::test]
async fn health_checks_need_no_slot() {
    let harness = Harness::start(Options::default()).await;
    let all = [
        "/-/healthy",
        "/-/ready",
        "/minio/health/live",
        "/minio/health/ready",
        "/minio/health/cluster",
    ];
    for path in all {
        let said = harness.ask(&format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")).await;
        assert_eq!((said.status, said.body.as_str()), (200, ""), "{path}");
        let said = harness.ask(&format!("HEAD {path} HTTP/1.1\r\nHost: x\r\n\r\n")).await;
        assert_eq!(said.status, 200, "{path}");
    }
    let said = harness.ask("GET /-/nothing HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(said.body, "/-/nothing", "everything else is the service's");
    harness.service.well.store(false, std::sync::atomic::Ordering::Relaxed);
    tokio::time::sleep(crate::edge::READY_CACHED_FOR).await;
    for (path, status) in all.into_iter().zip([200, 503, 200, 503, 503]) {
        let said = harness.ask(&format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")).await;
        assert_eq!((said.status, said.body.as_str()), (status, ""), "{path}");
    }
}

#[tokio::test]
async fn a_gateway_that_drains_is_alive_and_not_ready() {
    let harness = Harness::start(Options::default()).await;
    harness.edge.drain();
    assert_eq!(harness.ask("GET /-/ready HTTP/1.1\r\nHost: x\r\n\r\n").await.status, 503);
    assert_eq!(harness.ask("GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n").await.status, 200);
}

#[tokio::test]
async fn each_response_has_its_own_request_id() {
    let harness = Harness::start(Options::default()).await;
    let mut ids = std::collections::HashSet::new();
    for path in ["/", "/-/ready", "/panic", "/fault", "/not-modified"] {
        let said = harness.ask(&format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")).await;
        let id = said.header("x-amz-request-id").expect("an id");
        assert!(id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        assert_eq!(said.header("x-amz-id-2").as_deref(), Some(&*id));
        assert_eq!(said.header("server").as_deref(), Some("Ashlar"));
        assert!(said.header("date").is_some());
        assert!(ids.insert(id), "two requests with one id");
    }
}

#[tokio::test]
async fn a_panic_is_an_internal_error_and_is_counted() {
    let harness = Harness::start(Options::default()).await;
    let said = harness.ask("GET /panic HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(said.status, 500);
    assert!(said.body.contains("<Code>InternalError</Code>"), "{}", said.body);
    let id = said.header("x-amz-request-id").expect("an id");
    assert!(said.body.contains(&format!("<RequestId>{id}</RequestId>")));
    assert_eq!(said.header("content-type").as_deref(), Some("application/xml"));
    let metrics = harness.metrics.text().expect("text");
    assert!(metrics.contains("\nashlar_s3_panics_total 1\n"), "{metrics}");
    assert_eq!(harness.ask("GET /ok HTTP/1.1\r\nHost: x\r\n\r\n").await.status, 200);
}

#[tokio::test]
async fn head_and_not_modified_have_no_body_and_keep_framing() {
    let harness = Harness::start(Options::default()).await;
    let mut connection = harness.connect().await;
    connection.send("HEAD /length HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let head = connection.read_head().await;
    assert_eq!(head.header("content-length").as_deref(), Some("12345"));
    connection.send("GET /not-modified HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let head = connection.read_head().await;
    assert_eq!((head.status, head.header("content-length")), (304, None));
    connection.send("GET /ok HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(connection.read().await.body, "/ok", "the connection is still in step");
}

#[tokio::test]
async fn requests_and_bytes_are_counted_by_operation_and_bucket() {
    let harness = Harness::start(Options::default()).await;
    let put = "PUT /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello";
    assert_eq!(harness.ask(put).await.body, "hello");
    assert_eq!(harness.ask("GET /fault HTTP/1.1\r\nHost: x\r\n\r\n").await.status, 404);
    let metrics = harness.metrics.text().expect("text");
    let expected = [
        "ashlar_s3_requests_total{operation=\"Echo\",bucket=\"photos\",status=\"200\",code=\"\"} 1",
        "ashlar_s3_requests_total{operation=\"Fault\",bucket=\"other\",status=\"404\",code=\"NoSuchKey\"} 1",
        "ashlar_s3_body_bytes_total{direction=\"in\"} 5",
        "ashlar_s3_request_duration_seconds_count{operation=\"Echo\"} 1",
        "ashlar_s3_time_to_first_byte_seconds_count{operation=\"Echo\"} 1",
    ];
    for line in expected {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
}

#[tokio::test]
async fn a_stop_finishes_requests_in_flight_and_accepts_no_connections() {
    let harness = Harness::start(Options::default()).await;
    let mut busy = harness.connect().await;
    let mut idle = harness.connect().await;
    idle.send("GET /ok HTTP/1.1\r\nHost: x\r\n\r\n").await;
    idle.read().await;
    busy.send("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n").await;
    harness.service.began.notified().await;
    harness.stop.cancel();
    assert!(idle.is_closed().await, "an idle connection is closed");
    let refused = tokio::net::TcpStream::connect(harness.address).await;
    assert!(refused.is_err(), "no connection is accepted any more");
    assert!(!harness.served.is_finished(), "a request is under way");
    harness.service.go.notify_one();
    let said: Said = busy.read().await;
    assert_eq!((said.status, said.body.as_str()), (200, "/wait"));
    assert!(harness.served.await.expect("no panic"), "everything finished");
}

#[tokio::test]
async fn a_stop_ends_at_the_drain_timeout() {
    let drain = Duration::from_millis(100);
    let harness = Harness::start(Options { drain, ..Options::default() }).await;
    let mut busy = harness.connect().await;
    busy.send("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n").await;
    harness.service.began.notified().await;
    harness.stop.cancel();
    assert!(!harness.served.await.expect("no panic"), "a request never finished");
}

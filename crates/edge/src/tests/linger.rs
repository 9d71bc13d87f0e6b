//! Connections that end while their clients still send.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

use super::harness::{Connection, Harness, Options};
use super::tls::{connect, issue, load};

/// Sends 2 of 20 MiB of a body that is refused. Returns when the whole answer has come.
async fn refused(harness: &Harness) -> Connection {
    let mut connection = harness.connect().await;
    let length = 20 << 20;
    connection
        .send(&format!("PUT /ok HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n"))
        .await;
    connection.send(&"x".repeat(2 << 20)).await;
    let said = connection.read().await;
    assert_eq!((said.status, said.header("connection").as_deref()), (200, Some("close")));
    connection
}

#[tokio::test]
async fn a_client_that_still_sends_gets_an_early_response() {
    let harness = Harness::start(Options::default()).await;
    let mut connection = refused(&harness).await;
    assert!(connection.is_closed().await, "the gateway sends nothing more");
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..18 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        connection.try_send(&piece).await.expect("the connection takes the rest");
    }
}

#[tokio::test]
async fn a_client_that_still_sends_gets_an_early_response_over_tls() {
    let folder = tempfile::tempdir().expect("a folder");
    let certificate = issue(folder.path());
    let tls = Some(load(folder.path()).expect("it loads"));
    let harness = Harness::start(Options { tls, ..Options::default() }).await;
    let mut stream = connect(&harness, &certificate, b"http/1.1").await.expect("a handshake");
    let length = 20 << 20;
    let head = format!("PUT /ok HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("the head is sent");
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..20 {
        stream.write_all(&piece).await.expect("the connection takes the body");
        stream.flush().await.expect("the connection takes the body");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut answer = Vec::new();
    let read = timeout(Duration::from_mins(1), stream.read_to_end(&mut answer)).await;
    read.expect("the gateway closes the connection").expect("TLS ends with its own end");
    let answer = String::from_utf8(answer).expect("text");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.to_ascii_lowercase().contains("\r\nconnection: close\r\n"), "{answer}");
}

/// Sends a byte to a refused connection again and again, with this pause, until the gateway closes
/// it. Fails if that takes longer than `limit`.
async fn drip(pause: Duration, limit: Duration) {
    let harness = Harness::start(Options::default()).await;
    let mut connection = refused(&harness).await;
    let began = Instant::now();
    while connection.try_send(b"x").await.is_ok() {
        assert!(began.elapsed() < limit, "still open");
        tokio::time::sleep(pause).await;
    }
}

#[tokio::test]
async fn a_connection_lingers_only_while_bytes_arrive() {
    drip(Duration::from_millis(2_200), Duration::from_mins(1)).await;
}

#[tokio::test]
async fn a_connection_that_receives_single_bytes_lingers_briefly() {
    // The limit of all is 10 s, which single bytes must not reach.
    drip(Duration::from_millis(100), Duration::from_secs(8)).await;
}

#[tokio::test]
async fn a_connection_whose_body_was_read_does_not_linger() {
    let harness = Harness::start(Options::default()).await;
    let mut connection = harness.connect().await;
    connection.send("GET /ok HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    assert_eq!(connection.read().await.status, 200);
    assert!(connection.is_closed().await);
    let metrics = harness.metrics.text().expect("text");
    let began = Instant::now();
    while !harness.metrics.text().expect("text").contains("ashlar_s3_connections 0") {
        assert!(began.elapsed() < Duration::from_secs(1), "{metrics}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

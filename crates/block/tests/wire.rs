//! The bytes that the bucket client sends, and its timeouts.

use std::time::{Duration, Instant};

use block::{
    BlockErrorKind, BlockId, BlockStore, BucketBlocks, BucketOptions, Nonce, RetryLimits, Retrying,
    SealedBlock, Sealer, SecretKey,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

fn block(length: u32) -> SealedBlock {
    let mut sealer = Sealer::new(BlockId::new(Nonce([1; Nonce::BYTES]), 1), length);
    sealer.push_copy(&vec![7; length as usize]);
    sealer.finish()
}

async fn listen() -> (TcpListener, BucketOptions) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let options = BucketOptions {
        endpoint: Some(format!("http://127.0.0.1:{port}")),
        prefix: "/volume/".to_owned(),
        path_style: true,
        connect_timeout: Duration::from_millis(300),
        answer_timeout: Duration::from_millis(300),
        block_timeout: Duration::from_millis(600),
        ..BucketOptions::new("stones", "access", SecretKey::new("secret"))
    };
    (listener, options)
}

/// Receives one request, responds to it, and returns its head and body.
async fn take(listener: &TcpListener, answer: &str) -> (String, Vec<u8>) {
    let (mut connection, _) = listener.accept().await.expect("a connection");
    let mut received = Vec::new();
    let (head, length) = loop {
        connection.read_buf(&mut received).await.expect("readable");
        let text = String::from_utf8_lossy(&received).to_ascii_lowercase();
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length = length.map_or(0, |length| length.parse().expect("a number"));
            break (head.to_owned(), length);
        }
    };
    let mut body = received.split_off(head.len() + 4);
    while body.len() < length {
        let read = connection.read_buf(&mut body).await.expect("readable");
        assert_ne!(read, 0, "the body ends before its length");
    }
    connection.write_all(answer.as_bytes()).await.expect("writable");
    (head, body)
}

#[tokio::test]
async fn a_block_is_sent_plain_unsigned_and_once() {
    let (listener, options) = listen().await;
    let store = BucketBlocks::connect(options).expect("good options");
    let block = block(300_000);
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let ((head, body), sent) = tokio::join!(take(&listener, answer), store.put(&block));
    sent.expect("it was answered 200");
    assert_eq!(body, block.to_bytes(), "the sealed bytes and nothing between them");
    let path = "/stones/volume/01010101010101010101/000000000/01010101010101010101000000000001";
    assert!(head.starts_with(&format!("put {path}")), "{head}");
    assert!(head.contains("\r\nx-amz-content-sha256: unsigned-payload"), "{head}");
    assert!(head.contains("\r\nauthorization: aws4-hmac-sha256 credential=access/"), "{head}");
    for surplus in ["aws-chunked", "checksum", "trailer", "if-none-match", "transfer-encoding"] {
        assert!(!head.contains(surplus), "{surplus} in {head}");
    }
}

#[tokio::test]
async fn range_is_requested_exactly() {
    let (listener, options) = listen().await;
    let store = BucketBlocks::connect(options).expect("good options");
    let answer = "HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\nConnection: close\r\n\r\n\
                  hello";
    let asked = store.get(block(1).id(), 32..37);
    let ((head, _), found) = tokio::join!(take(&listener, answer), asked);
    assert!(head.contains("\r\nrange: bytes=32-36"), "{head}");
    assert!(!head.contains("checksum"), "{head}");
    assert_eq!(found.expect("it was answered"), "hello");
}

#[tokio::test]
async fn surplus_bytes_are_an_error() {
    let (listener, options) = listen().await;
    let store = BucketBlocks::connect(options).expect("good options");
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
    let (_, found) = tokio::join!(take(&listener, answer), store.get(block(1).id(), 0..4));
    let error = found.expect_err("five bytes came instead of four");
    assert!(error.to_string().contains("more than the 4 bytes"), "{error}");
}

#[tokio::test]
async fn responses_of_a_proxy_do_not_mean_a_missing_block() {
    let (listener, options) = listen().await;
    let store = BucketBlocks::connect(options).expect("good options");
    let page = "<html>not here</html>";
    let answer = format!(
        "HTTP/1.1 404 Not Found\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}",
        page.len()
    );
    let (_, found) = tokio::join!(take(&listener, &answer), store.get(block(1).id(), 0..4));
    let error = found.expect_err("a proxy answered");
    assert_ne!(error.kind(), BlockErrorKind::NotFound, "{error}");
}

#[tokio::test]
async fn every_wait_has_a_deadline() {
    let (listener, options) = listen().await;
    let store = BucketBlocks::connect(options).expect("good options");
    let silence = async {
        let mut connections = Vec::new();
        loop {
            connections.push(listener.accept().await.expect("a connection"));
        }
    };
    let calls = async {
        let (id, session) = (block(1).id(), block(1).id().session());
        let begun = Instant::now();
        let errors = [
            store.put(&block(9)).await.expect_err("put"),
            store.get(id, 0..9).await.expect_err("get"),
            store.size(id).await.expect_err("size"),
            store.delete(id).await.expect_err("delete"),
            store.sessions().await.expect_err("sessions"),
            store.list(session, None).await.expect_err("list"),
            store.probe().await.expect_err("probe"),
        ];
        let taken = begun.elapsed();
        assert!(errors.iter().all(|error| error.kind() == BlockErrorKind::Unavailable));
        assert!(
            taken < Duration::from_secs(4),
            "two waits of 600 ms and five of 300 ms: {taken:?}"
        );
    };
    tokio::select! {
        () = silence => {}
        () = calls => {}
    }
}

#[tokio::test]
async fn a_body_that_stops_midway_ends_at_its_deadline() {
    let (listener, options) = listen().await;
    let store = BucketBlocks::connect(options).expect("good options");
    let half = async {
        let (mut connection, _) = listener.accept().await.expect("a connection");
        let head = b"HTTP/1.1 206 Partial Content\r\nContent-Length: 100\r\n\r\nhalf of it";
        connection.write_all(head).await.expect("writable");
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = half => {}
        found = store.get(block(1).id(), 0..100) => {
            let error = found.expect_err("only half of it came");
            assert_eq!(error.kind(), BlockErrorKind::Unavailable, "{error}");
        }
    }
}

#[tokio::test]
async fn a_closed_port_is_unavailable_within_the_deadline_of_all_attempts() {
    let (_listener, options) = listen().await;
    let endpoint = Some(format!("http://{}", ports::reserve()));
    let store = BucketBlocks::connect(BucketOptions { endpoint, ..options }).expect("good options");
    let limits = RetryLimits {
        deadline: Duration::from_millis(900),
        attempts_max: u32::MAX,
        ..RetryLimits::default()
    };
    let store = Retrying::new(store, limits, 1);
    let begun = Instant::now();
    let error = store.put(&block(9)).await.expect_err("no server listens");
    assert_eq!(error.kind(), BlockErrorKind::Unavailable, "{error}");
    // Without the deadline it would retry for ever.
    assert!(begun.elapsed() < limits.deadline + Duration::from_secs(10), "{:?}", begun.elapsed());
    assert!(store.retries() > 0, "it tried again");
}

#[tokio::test]
async fn invalid_options_are_refused() {
    let (_listener, good) = listen().await;
    for wrong in [
        BucketOptions { endpoint: Some("127.0.0.1:9000".to_owned()), ..good.clone() },
        BucketOptions { endpoint: Some("http://".to_owned()), ..good.clone() },
        BucketOptions { bucket: String::new(), ..good.clone() },
        BucketOptions { bucket: "a/b".to_owned(), ..good.clone() },
        BucketOptions { secret_key: SecretKey::new(""), ..good.clone() },
    ] {
        let error = BucketBlocks::connect(wrong).expect_err("wrong options");
        assert_eq!(error.kind(), BlockErrorKind::Refused, "{error}");
    }
}

//! The bucket client's handling of responses that are wrong, late, cut or refused, and of its
//! connections. The test plays the bucket, byte for byte.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use block::{
    BlockError, BlockErrorKind, BlockId, BlockStore, BucketBlocks, BucketOptions, Nonce,
    SealedBlock, Sealer, SecretKey,
};
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use BlockErrorKind::{Full, NotFound, Refused, Unavailable};

/// The next event after a response.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    /// The next request on the same connection.
    Go,
    /// The service closes the connection.
    Close,
    /// Nothing, until the client closes the connection.
    Stall,
}

/// A received request: the connection's number, and the head in lower case.
type Request = (usize, String);

/// A service that responds according to a script.
struct Service {
    options: BucketOptions,
    requests: Arc<Mutex<Vec<Request>>>,
    /// Connections that the client has closed.
    ended: Arc<Mutex<Vec<usize>>>,
    _running: JoinSet<()>,
}

impl Service {
    /// `script` returns the response to a request, given the numbers of the connection and of the
    /// request, both from 0, and the request's head.
    async fn start<S>(script: S) -> Service
    where
        S: Fn(usize, usize, &str) -> (Vec<u8>, Then) + Send + Sync + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let options = BucketOptions {
            endpoint: Some(format!("http://127.0.0.1:{port}")),
            path_style: true,
            answer_timeout: Duration::from_secs(10),
            ..BucketOptions::new("stones", "access", SecretKey::new("secret"))
        };
        let (requests, ended) = (Arc::<Mutex<Vec<Request>>>::default(), Arc::default());
        let (script, told, over) = (Arc::new(script), Arc::clone(&requests), Arc::clone(&ended));
        let mut running = JoinSet::new();
        running.spawn(async move {
            let mut connections = JoinSet::new();
            for number in 0.. {
                let (connection, _) = listener.accept().await.expect("a connection");
                let (script, told) = (Arc::clone(&script), Arc::clone(&told));
                let over: Arc<Mutex<Vec<usize>>> = Arc::clone(&over);
                connections.spawn(async move {
                    if serve(connection, number, &*script, &told).await {
                        over.lock().expect("no panic").push(number);
                    }
                });
            }
        });
        Service { options, requests, ended, _running: running }
    }

    /// A service that gives every request the same response.
    async fn same(answer: impl Into<Vec<u8>>, then: Then) -> Service {
        let answer = answer.into();
        Service::start(move |_, _, _| (answer.clone(), then)).await
    }

    fn store(&self) -> BucketBlocks {
        BucketBlocks::connect(self.options.clone()).expect("good options")
    }

    /// A client with short timeouts for the head of a response and for a body.
    fn with_short_timeouts(&self) -> BucketBlocks {
        let answer_timeout = Duration::from_millis(300);
        let block_timeout = Duration::from_millis(600);
        BucketBlocks::connect(BucketOptions {
            answer_timeout,
            block_timeout,
            ..self.options.clone()
        })
        .expect("good options")
    }

    /// The number of the connection of each request so far.
    fn connections(&self) -> Vec<usize> {
        let requests = self.requests.lock().expect("no panic");
        requests.iter().map(|(connection, _)| *connection).collect()
    }

    /// Waits until the client has closed `count` connections.
    async fn wait_for_ends(&self, count: usize) -> Vec<usize> {
        let begun = Instant::now();
        loop {
            let ended = self.ended.lock().expect("no panic").clone();
            if ended.len() >= count {
                return ended;
            }
            assert!(begun.elapsed() < Duration::from_secs(10), "only {ended:?} ended");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Serves one connection. Returns true if the client has closed it.
async fn serve<S>(
    mut connection: TcpStream,
    number: usize,
    script: &S,
    told: &Mutex<Vec<Request>>,
) -> bool
where
    S: Fn(usize, usize, &str) -> (Vec<u8>, Then),
{
    let mut received = Vec::new();
    for request in 0.. {
        let Some(head) = head(&mut connection, &mut received).await else { return true };
        told.lock().expect("no panic").push((number, head.clone()));
        let (answer, then) = script(number, request, &head);
        if connection.write_all(&answer).await.is_err() {
            return true;
        }
        match then {
            Then::Go => {}
            Then::Close => return false,
            Then::Stall => {
                let mut rest = Vec::new();
                let _ = connection.read_to_end(&mut rest).await;
                return true;
            }
        }
    }
    false
}

/// Returns the head of the next request, and skips its body; `None` if the client has closed.
async fn head(connection: &mut TcpStream, received: &mut Vec<u8>) -> Option<String> {
    loop {
        let end = received.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            let text = String::from_utf8_lossy(&received[..end]).to_ascii_lowercase();
            let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.parse().expect("a number"));
            if received.len() >= end + 4 + length {
                received.drain(..end + 4 + length);
                return Some(text);
            }
        }
        if connection.read_buf(received).await.unwrap_or_default() == 0 {
            return None;
        }
    }
}

fn block(length: u32) -> SealedBlock {
    let mut sealer = Sealer::new(BlockId::new(Nonce([1; Nonce::BYTES]), 1), length);
    sealer.push_copy(&vec![7; length as usize]);
    sealer.finish()
}

fn id() -> BlockId {
    block(1).id()
}

/// A response with a length.
fn answer(status: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn xml(code: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code>\
         <Message>No &amp; no.</Message><Resource><Code>other</Code></Resource></Error>"
    )
}

#[track_caller]
fn check(error: &BlockError, kind: BlockErrorKind, words: &str) {
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(words), "{error} lacks {words:?}");
}

const HELLO: Range<u64> = 32..37;

/// The time by which a call may exceed its limits on a busy machine.
const HANGS: Duration = Duration::from_secs(10);

#[tokio::test]
async fn one_connection_serves_one_request_after_another() {
    let service = Service::start(|_, _, head| match head.split(' ').next() {
        Some("get") => (answer("206 Partial Content", "hello"), Then::Go),
        Some("head") => (b"HTTP/1.1 200 OK\r\nContent-Length: 123\r\n\r\n".to_vec(), Then::Go),
        Some("delete") => (b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(), Then::Go),
        _ => (answer("200 OK", ""), Then::Go),
    })
    .await;
    let store = service.store();
    for _ in 0..3 {
        store.put(&block(300_000)).await.expect("put");
        assert_eq!(store.get(id(), HELLO).await.expect("get"), "hello");
        assert_eq!(store.size(id()).await.expect("size"), Some(123));
        store.delete(id()).await.expect("delete");
    }
    assert_eq!(service.connections(), [0; 12]);
}

#[tokio::test]
async fn refused_request_keeps_the_connection() {
    let refusal = answer("403 Forbidden", &xml("AccessDenied"));
    let service = Service::same(refusal, Then::Go).await;
    let store = service.store();
    for _ in 0..3 {
        store.get(id(), HELLO).await.expect_err("refused");
    }
    assert_eq!(service.connections(), [0; 3]);
}

#[tokio::test]
async fn idle_connection_that_was_closed_is_replaced() {
    let hello = answer("206 Partial Content", "hello");
    let service = Service::start(move |connection, _, _| {
        (hello.clone(), if connection == 0 { Then::Close } else { Then::Go })
    })
    .await;
    let store = service.store();
    assert_eq!(store.get(id(), HELLO).await.expect("get"), "hello");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(store.get(id(), HELLO).await.expect("on another connection"), "hello");
    store.put(&block(9)).await.expect("the other connection is still open");
    assert_eq!(service.connections(), [0, 1, 1]);
}

#[tokio::test]
async fn request_that_may_have_arrived_is_not_repeated() {
    let hello = answer("206 Partial Content", "hello");
    let service = Service::start(move |_, request, _| match request {
        0 => (hello.clone(), Then::Go),
        _ => (Vec::new(), Then::Close),
    })
    .await;
    let store = service.store();
    store.get(id(), HELLO).await.expect("the connection is good for one request");
    let error = store.put(&block(9)).await.expect_err("it is closed instead of an answer");
    check(&error, Unavailable, "cannot be reached");
    assert_eq!(service.connections(), [0, 0], "the second request came once");
}

#[tokio::test]
async fn response_that_ends_early_is_an_error() {
    let head = "HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\n\r\n";
    for body in ["", "hel"] {
        let service = Service::same(format!("{head}{body}"), Then::Close).await;
        let error = service.store().get(id(), HELLO).await.expect_err("bytes are missing");
        check(&error, Unavailable, "reading block");
    }
    let chunked = "HTTP/1.1 206 Partial Content\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n";
    let service = Service::same(chunked, Then::Close).await;
    let error = service.store().get(id(), HELLO).await.expect_err("the last chunk is missing");
    check(&error, Unavailable, "reading block");
    for head in ["", "HTTP/1.1 206 Parti", "nonsense\r\n\r\n"] {
        let service = Service::same(head, Then::Close).await;
        let error = service.store().get(id(), HELLO).await.expect_err("there is no head");
        check(&error, Unavailable, "cannot be reached");
    }
}

#[tokio::test]
async fn response_that_is_too_long_is_an_error_and_affects_no_other() {
    let surplus = [answer("206 Partial Content", "hello"), answer("200 OK", "there")].concat();
    let service = Service::start(move |connection, _, _| match connection {
        0 => (surplus.clone(), Then::Go),
        _ => (answer("206 Partial Content", "again"), Then::Go),
    })
    .await;
    let store = service.store();
    let error = store.get(id(), HELLO).await.expect_err("two answers came");
    check(&error, Unavailable, "more bytes arrived than were announced");
    assert_eq!(store.get(id(), HELLO).await.expect("get"), "again");
    assert_eq!(service.connections(), [0, 1]);
}

#[tokio::test]
async fn response_longer_than_requested_is_refused_unread() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 9000000000000000000\r\n\r\nhello";
    let service = Service::same(head, Then::Stall).await;
    let error = service.store().get(id(), 0..5).await.expect_err("too long");
    check(&error, Unavailable, "more than the 5 bytes that were requested");
    service.wait_for_ends(1).await;
    // Without a length the bytes are counted.
    let head = "HTTP/1.1 206 Partial Content\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nhello!\r\n";
    let service = Service::same(head, Then::Stall).await;
    let error = service.store().get(id(), HELLO).await.expect_err("too long");
    check(&error, Unavailable, "more than the 5 bytes that were requested");
    service.wait_for_ends(1).await;
}

#[tokio::test]
async fn response_without_a_length_is_read_to_its_end() {
    let chunked = "HTTP/1.1 206 Partial Content\r\nTransfer-Encoding: chunked\r\n\r\n\
                   2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
    let service = Service::same(chunked, Then::Go).await;
    let store = service.store();
    for _ in 0..2 {
        assert_eq!(store.get(id(), HELLO).await.expect("get"), "hello");
    }
    assert_eq!(service.connections(), [0, 0]);
}

#[tokio::test]
async fn response_with_another_range_is_an_error() {
    let ranged = |range: &str| {
        let head = format!("206 Partial Content\r\nContent-Range: {range}");
        answer(&head, "hello")
    };
    let service = Service::same(ranged("bytes 32-36/999"), Then::Go).await;
    assert_eq!(service.store().get(id(), HELLO).await.expect("this one"), "hello");
    for wrong in ["bytes 0-4/999", "bytes 32-35/999", "nonsense"] {
        let service = Service::same(ranged(wrong), Then::Go).await;
        let error = service.store().get(id(), HELLO).await.expect_err(wrong);
        check(&error, Unavailable, "instead of bytes=32-36");
    }
    let service = Service::same(answer("200 OK", "hello"), Then::Go).await;
    let error = service.store().get(id(), HELLO).await.expect_err("the range is ignored");
    check(&error, Unavailable, "instead of bytes=32-36");
}

/// Returns all bytes that arrive of a range, and the result.
async fn arrive(store: &BucketBlocks, bytes: Range<u64>) -> (Vec<u8>, Result<(), BlockError>) {
    let mut found = Vec::new();
    let mut source = match store.open(id(), bytes).await {
        Ok(source) => source,
        Err(error) => return (found, Err(error)),
    };
    loop {
        match source.next().await {
            Ok(Some(frame)) => found.extend_from_slice(&frame),
            Ok(None) => return (found, Ok(())),
            Err(error) => return (found, Err(error)),
        }
    }
}

#[tokio::test]
async fn complete_stream_keeps_the_connection() {
    let chunked = "HTTP/1.1 206 Partial Content\r\nTransfer-Encoding: chunked\r\n\r\n\
                   2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
    let long = answer("206 Partial Content", &"hello".repeat(100_000));
    let service = Service::start(move |_, request, _| match request {
        0 | 2 => (long.clone(), Then::Go),
        _ => (chunked.into(), Then::Go),
    })
    .await;
    let store = service.store();
    for _ in 0..2 {
        let (found, ended) = arrive(&store, 32..500_032).await;
        ended.expect("it arrives");
        assert!(found == b"hello".repeat(100_000));
        let (found, ended) = arrive(&store, HELLO).await;
        ended.expect("it arrives");
        assert_eq!(found, b"hello");
    }
    assert_eq!(service.connections(), [0; 4]);
    let mut source = store.open(id(), HELLO).await.expect("it begins");
    source.next().await.expect("it arrives").expect("some of it");
    drop(source);
    assert_eq!(
        service.wait_for_ends(1).await,
        [0],
        "a connection that was not read to its end is closed"
    );
}

#[tokio::test]
async fn stalled_stream_fails_after_its_received_bytes() {
    let head = "HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\n\r\nhel";
    let chunked = "HTTP/1.1 206 Partial Content\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n";
    for (answer, then) in [(head, Then::Close), (chunked, Then::Close), (head, Then::Stall)] {
        let service = Service::same(answer, then).await;
        let begun = Instant::now();
        let (found, ended) = arrive(&service.with_short_timeouts(), HELLO).await;
        check(&ended.expect_err("bytes are missing"), Unavailable, "reading block");
        assert_eq!(found, b"hel");
        assert!(begun.elapsed() < HANGS, "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn surplus_or_foreign_bytes_are_not_streamed() {
    let long = answer("206 Partial Content", "hello!");
    let (found, ended) = arrive(&Service::same(long, Then::Go).await.store(), HELLO).await;
    check(&ended.expect_err("too long"), Unavailable, "more than the 5 bytes that were requested");
    assert_eq!(found, b"");
    let head = "HTTP/1.1 206 Partial Content\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nhello!\r\n";
    let (found, ended) = arrive(&Service::same(head, Then::Stall).await.store(), HELLO).await;
    check(&ended.expect_err("too long"), Unavailable, "more bytes arrived than were requested");
    assert_eq!(found, b"");
    let other = answer("206 Partial Content\r\nContent-Range: bytes 0-4/999", "hello");
    let (found, ended) = arrive(&Service::same(other, Then::Go).await.store(), HELLO).await;
    check(&ended.expect_err("another range"), Unavailable, "instead of bytes=32-36");
    assert_eq!(found, b"");
}

#[tokio::test]
async fn every_error_response_has_one_meaning() {
    for (status, code, kind, words) in [
        ("404 Not Found", "NoSuchKey", NotFound, "block missing"),
        ("404 Not Found", "NoSuchBucket", Refused, "there is no bucket stones: make the bucket"),
        ("404 Not Found", "Elsewhere", Refused, "correct --blocks: 404: Elsewhere: No & no."),
        ("403 Forbidden", "AccessDenied", Refused, "check the keys"),
        ("403 Forbidden", "SignatureDoesNotMatch", Refused, "check the keys"),
        ("401 Unauthorized", "", Refused, "check the keys"),
        ("400 Bad Request", "AuthorizationHeaderMalformed", Refused, "correct the region"),
        ("301 Moved Permanently", "PermanentRedirect", Refused, "correct the region"),
        ("307 Temporary Redirect", "TemporaryRedirect", Refused, "correct the region"),
        ("400 Bad Request", "InvalidRequest", Refused, "correct --blocks"),
        ("400 Bad Request", "RequestTimeout", Unavailable, "asks to try again"),
        ("400 Bad Request", "IncompleteBody", Unavailable, "asks to try again"),
        ("408 Request Timeout", "", Unavailable, "asks to try again"),
        ("409 Conflict", "OperationAborted", Unavailable, "asks to try again"),
        ("429 Too Many Requests", "SlowDown", Unavailable, "asks to try again"),
        ("501 Not Implemented", "NotImplemented", Refused, "correct --blocks"),
        ("500 Internal Server Error", "InternalError", Unavailable, "fails: 500: InternalError"),
        ("503 Slow Down", "SlowDown", Unavailable, "fails"),
        ("507 Insufficient Storage", "XMinioStorageFull", Full, "free space"),
        ("304 Not Modified", "", Unavailable, "fails"),
    ] {
        let body = if code.is_empty() { String::new() } else { xml(code) };
        let service = Service::same(answer(status, &body), Then::Go).await;
        let store = service.store();
        check(&store.get(id(), HELLO).await.expect_err(status), kind, words);
        if kind == NotFound {
            store.delete(id()).await.expect("nothing is there");
            continue;
        }
        check(&store.put(&block(9)).await.expect_err(status), kind, words);
        check(&store.delete(id()).await.expect_err(status), kind, words);
    }
}

#[tokio::test]
async fn a_range_behind_the_end_is_empty() {
    let refusal = answer("416 Range Not Satisfiable", &xml("InvalidRange"));
    let service = Service::same(refusal, Then::Go).await;
    assert_eq!(service.store().get(id(), HELLO).await.expect("empty"), "");
}

#[tokio::test]
async fn missing_object_on_head_checks_for_the_bucket() {
    let missing = "HTTP/1.1 404 Not Found\r\nContent-Length: 300\r\n\r\n";
    let service = Service::start(move |_, _, head| {
        // The bucket exists, and the object does not.
        let whole = head.lines().next().is_some_and(|line| line.split('/').count() > 4);
        (if whole { missing.into() } else { answer("200 OK", "") }, Then::Go)
    })
    .await;
    assert_eq!(service.store().size(id()).await.expect("the bucket is there"), None);
    let service = Service::same(missing, Then::Go).await;
    let error = service.store().size(id()).await.expect_err("nothing is there");
    check(&error, Refused, "there is no bucket stones");
}

#[tokio::test]
async fn long_error_response_is_cut() {
    let head = "HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let service = Service::same([head, &chunk].concat(), Then::Stall).await;
    let error = service.store().get(id(), HELLO).await.expect_err("refused");
    check(&error, Refused, "check the keys");
    service.wait_for_ends(1).await;
    let words = xml(&"x".repeat(10_000));
    let service = Service::same(answer("403 Forbidden", &words), Then::Go).await;
    let error = service.store().get(id(), HELLO).await.expect_err("refused");
    check(&error, Refused, "No & no.");
    assert!(error.to_string().len() < 2_000, "{error}");
}

#[tokio::test]
async fn early_error_response_is_read_before_the_body_is_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let service = Service::same("", Then::Close).await;
    let endpoint = Some(format!("http://127.0.0.1:{port}"));
    let store = BucketBlocks::connect(BucketOptions { endpoint, ..service.options.clone() });
    let store = store.expect("good options");
    let block = block(16 << 20);
    let refusing = async {
        let (mut connection, _) = listener.accept().await.expect("a connection");
        let mut some = vec![0; 4_096];
        let read = connection.read(&mut some).await.expect("readable");
        assert!(some[..read].starts_with(b"PUT "));
        connection.write_all(&answer("403 Forbidden", &xml("AccessDenied"))).await.expect("sent");
        connection
    };
    let (_open, put) = tokio::join!(refusing, store.put(&block));
    check(&put.expect_err("refused"), Refused, "check the keys");
}

#[tokio::test]
async fn slow_response_fails_at_its_deadline() {
    // A slow head, a slow body, and an error response without its body.
    let refusal = "HTTP/1.1 403 Forbidden\r\nContent-Length: 100\r\n\r\n<Error>";
    let body = "HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\n\r\nhell";
    for (begun, most) in [("HTTP/1.1 200 OK\r\nA: b", 600), (refusal, 600), (body, 900)] {
        let service = Service::same(begun, Then::Stall).await;
        let store = service.with_short_timeouts();
        let start = Instant::now();
        let error = store.get(id(), HELLO).await.expect_err("it never ends");
        check(&error, Unavailable, "did not answer within");
        let taken = start.elapsed();
        assert!(taken > Duration::from_millis(290), "{taken:?}");
        assert!(taken < Duration::from_millis(most) + HANGS, "{taken:?}");
        assert_eq!(service.wait_for_ends(1).await, [0], "the connection is not kept");
    }
}

#[tokio::test]
async fn dropped_call_closes_its_connection_and_affects_no_other() {
    let service = Service::start(|connection, _, _| match connection {
        0 => {
            let half = b"HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\n\r\nhe";
            (half.to_vec(), Then::Stall)
        }
        1 => (Vec::new(), Then::Stall),
        _ => (answer("206 Partial Content", "again"), Then::Go),
    })
    .await;
    let store = service.store();
    // One call is dropped within its body, the next one before its head.
    for dropped in 0..2 {
        let wait = Duration::from_millis(200);
        tokio::time::timeout(wait, store.get(id(), HELLO)).await.expect_err("no end in sight");
        assert_eq!(service.connections().len(), dropped + 1, "the request had arrived");
        assert_eq!(service.wait_for_ends(dropped + 1).await.len(), dropped + 1);
    }
    assert_eq!(store.get(id(), HELLO).await.expect("get"), "again");
    assert_eq!(service.connections(), [0, 1, 2]);
}

#[tokio::test]
async fn connection_that_was_idle_too_long_is_not_used() {
    let service = Service::same(answer("206 Partial Content", "hello"), Then::Go).await;
    let store = service.store();
    for (rested, connection) in [(0, 0), (14, 0), (16, 1), (1, 1)] {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(rested)).await;
        tokio::time::resume();
        assert_eq!(store.get(id(), HELLO).await.expect("get"), "hello");
        assert_eq!(service.connections().last(), Some(&connection));
    }
    assert_eq!(service.wait_for_ends(1).await, [0]);
}

#[tokio::test]
async fn number_of_idle_connections_is_limited() {
    const CALLS: usize = 300;
    const MAY_REST: usize = 256;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let service = Service::same("", Then::Close).await;
    let endpoint = Some(format!("http://127.0.0.1:{port}"));
    let connect_timeout = Duration::from_secs(10);
    let options = BucketOptions { endpoint, connect_timeout, ..service.options.clone() };
    let store = BucketBlocks::connect(options).expect("good options");
    let answering = async {
        let mut open = Vec::new();
        while open.len() < CALLS {
            open.push(listener.accept().await.expect("a connection").0);
        }
        // Only now the connections are free for other calls.
        for connection in &mut open {
            head(connection, &mut Vec::new()).await.expect("a request");
            connection.write_all(&answer("206 Partial Content", "hello")).await.expect("sent");
        }
        open
    };
    let calls = futures::future::join_all((0..CALLS).map(|_| store.get(id(), HELLO)));
    let (open, found) = tokio::join!(answering, calls);
    assert!(found.into_iter().all(|found| found.expect("get") == Bytes::from_static(b"hello")));
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut ended = 0;
    for connection in open {
        let mut byte = [0];
        // `WouldBlock` is an error here; zero bytes are the end.
        ended += usize::from(connection.try_read(&mut byte).is_ok_and(|read| read == 0));
    }
    assert_eq!(ended, CALLS - MAY_REST);
}

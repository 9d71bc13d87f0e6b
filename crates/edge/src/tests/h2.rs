//! HTTP/2 clients that read nothing, send nothing, or are over a limit.

use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use h2::client::{Builder, ResponseFuture, SendRequest};
use http::Request;
use rustls::pki_types::CertificateDer;
use tokio::io::AsyncReadExt;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::harness::{Harness, Options};
use super::tls::{connect, issue, load};

/// The limit of time for steps that the server does at once.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection without requests.
struct Peer {
    sender: SendRequest<Bytes>,
    /// The end of the connection.
    ended: oneshot::Receiver<Result<(), h2::Error>>,
    began: Instant,
}

impl Peer {
    /// Returns a client with this receive window for each response.
    async fn connect(harness: &Harness, trusted: &CertificateDer<'static>, window: u32) -> Peer {
        let stream = connect(harness, trusted, b"h2").await.expect("a handshake");
        let handshake = Builder::new().initial_window_size(window).handshake(stream).await;
        let (sender, connection) = handshake.expect("HTTP/2");
        let (tell, ended) = oneshot::channel();
        #[expect(clippy::disallowed_methods, reason = "it ends with its connection")]
        tokio::spawn(async move { tell.send(connection.await) });
        Peer { sender, ended, began: Instant::now() }
    }

    async fn ask(&mut self, path: &str) -> ResponseFuture {
        let sender = self.sender.clone().ready().await.expect("a stream is free");
        self.sender = sender;
        let request = Request::get(format!("https://localhost{path}")).body(());
        let sent = self.sender.send_request(request.expect("a request"), true);
        sent.expect("it is sent").0
    }

    async fn status(&mut self, path: &str) -> u16 {
        self.ask(path).await.await.expect("an answer").status().as_u16()
    }

    /// Returns the lifetime of the connection, which the server must have ended with GOAWAY.
    async fn end(mut self) -> Duration {
        let ended = tokio::time::timeout(PATIENCE, self.ended).await.expect("it ends");
        ended.expect("it is driven").expect("it ends in good order");
        let after = self.began.elapsed();
        let refused = std::future::poll_fn(|cx| self.sender.poll_ready(cx)).await;
        let refused = refused.expect_err("nothing can be asked any more");
        assert!(refused.is_go_away() || refused.reason() == Some(Reason::NO_ERROR), "{refused:?}");
        after
    }
}

struct Scene {
    harness: Harness,
    trusted: CertificateDer<'static>,
}

impl Scene {
    async fn start(options: Options) -> Scene {
        let folder = tempfile::tempdir().expect("a folder");
        let trusted = issue(folder.path());
        let tls = Some(load(folder.path()).expect("it loads"));
        Scene { harness: Harness::start(Options { tls, ..options }).await, trusted }
    }

    async fn peer(&self, window: u32) -> Peer {
        Peer::connect(&self.harness, &self.trusted, window).await
    }
}

/// Unread responses in memory do not block other clients.
#[tokio::test]
async fn a_client_that_reads_nothing_holds_no_slot() {
    let scene = Scene::start(Options { requests_max: 8, ..Options::default() }).await;
    let mut lazy = scene.peer(0).await;
    let mut held = Vec::new();
    for _ in 0..32 {
        let answer = lazy.ask("/ok").await.await.expect("a head");
        assert_eq!(answer.status(), 200, "{} answers were not taken", held.len());
        held.push(answer);
    }
    assert_eq!(scene.peer(65_535).await.status("/ok").await, 200);
}

/// If a host's share of the memory for unread error documents is used up, an error response has its
/// status only.
#[tokio::test]
async fn a_client_that_reads_no_error_documents_gets_statuses_only() {
    let scene = Scene::start(Options { requests_max: 1, ..Options::default() }).await;
    let mut lazy = scene.peer(0).await;
    let mut held = Vec::new();
    for count in 0..8 {
        let answer = lazy.ask("/long-fault").await.await.expect("a head");
        let length = answer.headers()["content-length"].to_str().expect("a number").to_owned();
        assert_eq!((answer.status().as_u16(), length == "0"), (400, count >= 1), "{count}");
        held.push(answer);
    }
    assert_eq!(scene.peer(65_535).await.status("/ok").await, 200, "it has no permit left");
}

/// A client that reads nothing of a download, or stops after a few bytes.
#[tokio::test]
async fn a_download_that_its_client_does_not_read_ends_at_the_timeout() {
    for window in [0, 10] {
        let download_timeout = Duration::from_secs(3);
        let options = Options { requests_max: 1, download_timeout, ..Options::default() };
        let scene = Scene::start(options).await;
        let mut lazy = scene.peer(window).await;
        let began = Instant::now();
        let mut body = lazy.ask("/large").await.await.expect("a head").into_body();
        let mut other = scene.peer(65_535).await;
        assert_eq!(other.status("/ok").await, 200, "the answer that waits needs no slot");
        let mut taken = 0;
        let reset = loop {
            // The received bytes are not released, so the window stays closed.
            match body.data().await.expect("it does not end") {
                Ok(bytes) => taken += bytes.len(),
                Err(error) => break error,
            }
        };
        assert!(reset.is_reset() && reset.is_remote(), "{reset:?}");
        assert_eq!(taken, usize::try_from(window).expect("small"));
        let waited = began.elapsed();
        assert!(waited >= download_timeout && waited < download_timeout * 3, "{waited:?}");
        assert_eq!(other.status("/ok").await, 200);
        assert_eq!(lazy.status("/-/ready").await, 200, "its connection goes on");
        let metrics = scene.harness.metrics.text().expect("text");
        assert!(metrics.contains("\nashlar_s3_response_timeouts_total 1\n"), "{metrics}");
    }
}

#[tokio::test]
async fn a_client_that_reads_slowly_gets_the_whole_response() {
    let scene = Scene::start(Options::default()).await;
    let mut peer = scene.peer(65_535).await;
    let mut body = peer.ask("/large").await.await.expect("a head").into_body();
    let mut taken = 0;
    while let Some(bytes) = body.data().await {
        let bytes = bytes.expect("it goes on");
        body.flow_control().release_capacity(bytes.len()).expect("it was taken");
        taken += bytes.len();
    }
    assert_eq!(taken, 64 << 20);
}

#[tokio::test]
async fn an_idle_connection_gets_goaway() {
    let scene = Scene::start(Options::default()).await;
    let mut peer = scene.peer(65_535).await;
    assert_eq!(peer.status("/ok").await, 200);
    pass(Duration::from_secs(28)).await;
    assert!(peer.ended.try_recv().is_err(), "it is not idle for long");
    pass(Duration::from_secs(3)).await;
    let after = peer.end().await;
    assert!((31..36).contains(&after.as_secs()), "{after:?}");
}

/// Advances the paused clock, and resumes it.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
    tokio::time::sleep(Duration::from_millis(100)).await;
}

#[tokio::test]
async fn a_connection_without_a_preface_ends() {
    let scene = Scene::start(Options::default()).await;
    let mut silent = connect(&scene.harness, &scene.trusted, b"h2").await.expect("a handshake");
    tokio::time::pause();
    let began = Instant::now();
    // The server sends its settings, and then no more.
    let _end = silent.read_to_end(&mut Vec::new()).await;
    let after = began.elapsed();
    assert!((30..=36).contains(&after.as_secs()), "{after:?}");
}

#[tokio::test]
async fn an_http2_connection_over_the_limit_gets_a_refusal_and_ends() {
    let scene = Scene::start(Options { connections_max: 1, ..Options::default() }).await;
    let mut first = scene.peer(65_535).await;
    assert_eq!(first.status("/ok").await, 200);
    let mut second = scene.peer(65_535).await;
    assert_eq!(second.status("/ok").await, 503);
    let after = second.end().await;
    assert!(after < Duration::from_secs(4), "{after:?}");
    assert_eq!(first.status("/ok").await, 200, "the first is not disturbed");
    let third = scene.peer(65_535).await;
    tokio::time::pause();
    let began = Instant::now();
    let _cut = third.ended.await.expect("it is driven");
    let after = began.elapsed();
    assert!((9..=10).contains(&after.as_secs()), "who asks nothing is cut off: {after:?}");
}

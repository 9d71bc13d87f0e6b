//! A listener with a scripted service, and a client that sends given bytes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use gateway::{RequestContext, RequestId};
use http::header::RETRY_AFTER;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Collected, Full};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use s3::{Code, Fault};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    AccessFacts, Answer, BodyError, Caller, ConnectionPermits, Edge, EdgeBody, EdgeMetrics,
    HostLimits, Hosts, Lingering, Listener, Network, Refusal, ResponseTimeouts, Service, Tls,
};

/// The scripted service. The response is the path, unless the path is a command.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) well: AtomicBool,
    /// The number of requests so far.
    asked: AtomicUsize,
    /// Notified when `/wait` has started.
    pub(super) began: Notify,
    /// Ends `/wait`.
    pub(super) go: Notify,
}

#[derive(Debug, Clone)]
pub(super) struct Shared(Arc<Script>);

impl Service for Shared {
    type Context = RequestContext;

    fn begin(&self, head: &mut Parts, id: String, _: Caller) -> RequestContext {
        head.extensions.insert(RequestId(id));
        RequestContext::of(head)
    }

    async fn handle(&self, request: Request<EdgeBody>) -> Answer {
        self.0.asked.fetch_add(1, Ordering::Relaxed);
        let path = request.uri().path().to_owned();
        let mut response = Response::new(full(path.clone()));
        let mut facts = AccessFacts::default();
        match path.as_str() {
            "/panic" => panic!("as asked"),
            "/wait" => {
                self.0.began.notify_one();
                self.0.go.notified().await;
            }
            "/unsigned" => {
                let slot = request.extensions().get::<crate::GivableSlot>().cloned();
                let body = request.into_body().collect();
                let body = slot.expect("each request has one").without(body).await;
                let body = body.expect("a slot is free").map(Collected::to_bytes);
                response = Response::new(full(body.unwrap_or_default()));
            }
            "/wait-without" => {
                self.0.began.notify_one();
                let slot = request.extensions().get::<crate::GivableSlot>().cloned();
                let waits = self.0.go.notified();
                slot.expect("each request has one").without(waits).await.expect("a slot is free");
            }
            "/echo" => {
                let body = request.into_body().collect().await;
                let body = body.map(Collected::to_bytes).unwrap_or_default();
                response = Response::new(full(body));
                let bucket = Some("photos".to_owned());
                facts = AccessFacts { operation: "Echo", bucket, ..AccessFacts::default() };
            }
            "/fault" => {
                *response.status_mut() = StatusCode::NOT_FOUND;
                facts.operation = "Fault";
                facts.bucket = Some("unheard-of".to_owned());
                facts.code = Some("NoSuchKey");
            }
            "/not-modified" => *response.status_mut() = StatusCode::NOT_MODIFIED,
            "/length" => {
                response.headers_mut().insert("content-length", 12345.into());
            }
            "/memory" => response = Response::new(full(vec![b'x'; 40 << 20])),
            "/long-fault" => {
                response = Response::new(full(vec![b'x'; 10 << 20]));
                *response.status_mut() = StatusCode::BAD_REQUEST;
            }
            "/large" => response = Response::new(full(vec![b'x'; 64 << 20])),
            _ => {}
        }
        Answer { response, in_memory: path != "/large", facts }
    }

    /// The documents of S3, so that the tests see what clients of the gateway see.
    fn refuse(&self, context: &RequestContext, refusal: Refusal) -> Answer {
        let fault = match refusal {
            Refusal::Busy => Fault::new(Code::SlowDown).with_header(RETRY_AFTER, "1"),
            Refusal::TooManyHeaders(_) => Fault::new(Code::RequestHeaderSectionTooLarge),
            Refusal::TooLongHeaders(max) => Fault::new(Code::RequestHeaderSectionTooLarge)
                .with("MaxSizeAllowed", max.to_string()),
            Refusal::Panicked => Code::InternalError.into(),
        };
        let response = gateway::refuse(context, &fault);
        Answer { response, in_memory: true, facts: AccessFacts::default() }
    }

    fn finish(&self, context: &RequestContext, response: Response<EdgeBody>) -> Response<EdgeBody> {
        gateway::finish(context, response)
    }

    fn slot_lost() -> BodyError {
        Fault::new(Code::SlowDown).into()
    }

    async fn ready(&self) -> bool {
        self.0.well.load(Ordering::Relaxed)
    }
}

fn full(body: impl Into<Bytes>) -> EdgeBody {
    Full::new(body.into()).map_err(|never| match never {}).boxed_unsync()
}

pub(super) struct Options {
    pub(super) requests_max: usize,
    pub(super) connections_max: usize,
    /// The limits of one host.
    pub(super) host_requests_max: usize,
    pub(super) host_connections_max: usize,
    pub(super) proxies: Vec<Network>,
    pub(super) drain: Duration,
    pub(super) download_timeout: Duration,
    pub(super) in_memory_timeout: Duration,
    pub(super) tls: Option<Tls>,
}

impl Default for Options {
    fn default() -> Options {
        let minute = Duration::from_mins(1);
        Options {
            requests_max: 8,
            connections_max: 8,
            host_requests_max: 8,
            host_connections_max: 8,
            proxies: Vec::new(),
            drain: minute,
            download_timeout: minute,
            in_memory_timeout: minute,
            tls: None,
        }
    }
}

/// The metrics of the edge, under the names that they have in the program.
pub(super) struct Shown(Registry);

impl Shown {
    fn of(metrics: &EdgeMetrics) -> Shown {
        let mut registry = Registry::default();
        let ours = registry.sub_registry_with_prefix("ashlar");
        metrics.register(ours);
        Shown(registry)
    }

    pub(super) fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.0)?;
        Ok(text)
    }
}

pub(super) struct Harness {
    pub(super) address: SocketAddr,
    pub(super) service: Arc<Script>,
    pub(super) edge: Arc<Edge<Shared>>,
    pub(super) metrics: Shown,
    pub(super) hosts: Arc<Hosts>,
    pub(super) stop: CancellationToken,
    pub(super) served: JoinHandle<bool>,
}

impl Harness {
    pub(super) async fn start(options: Options) -> Harness {
        let service = Arc::new(Script {
            well: AtomicBool::new(true),
            asked: AtomicUsize::new(0),
            began: Notify::new(),
            go: Notify::new(),
        });
        let metrics = Arc::new(EdgeMetrics::new());
        let shared = Shared(Arc::clone(&service));
        let edge = Edge::new(shared, Arc::clone(&metrics), options.requests_max, 42);
        let edge = Arc::new(edge);
        let socket = crate::bind("127.0.0.1:0").await.expect("a free port");
        let address = socket.local_addr().expect("an address");
        let hosts = Hosts::new(HostLimits {
            connections_max: options.host_connections_max,
            requests_max: options.host_requests_max,
            proxies: options.proxies,
        });
        let listener = Listener {
            tls: options.tls,
            edge: Arc::clone(&edge),
            permits: ConnectionPermits::new(options.connections_max),
            hosts: Arc::clone(&hosts),
            metrics: Arc::clone(&metrics),
            timeouts: ResponseTimeouts {
                download: options.download_timeout,
                in_memory: options.in_memory_timeout,
            },
            lingering: Lingering::default(),
        };
        let stop = CancellationToken::new();
        #[expect(clippy::disallowed_methods, reason = "the test joins it, or ends")]
        let served = tokio::spawn(listener.serve(socket, stop.clone(), options.drain));
        let metrics = Shown::of(&metrics);
        Harness { address, service, edge, metrics, hosts, stop, served }
    }

    /// Returns the number of requests that reached the service.
    pub(super) fn asked(&self) -> usize {
        self.service.asked.load(Ordering::Relaxed)
    }

    pub(super) async fn connect(&self) -> Connection {
        Connection(TcpStream::connect(self.address).await.expect("it listens"), Vec::new())
    }

    /// Returns a connection from another host.
    pub(super) async fn connect_from(&self, host: [u8; 4]) -> Connection {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind((host, 0).into()).expect("all of 127/8 is this machine");
        Connection(socket.connect(self.address).await.expect("it listens"), Vec::new())
    }

    /// Sends one request on a new connection, and reads the response.
    pub(super) async fn ask(&self, request: &str) -> Said {
        let mut connection = self.connect().await;
        connection.send(request).await;
        if request.starts_with("HEAD") {
            connection.read_head().await
        } else {
            connection.read().await
        }
    }
}

/// A response.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl Said {
    pub(super) fn header(&self, name: &str) -> Option<String> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        let mut values = lines.filter(|(found, _)| found.eq_ignore_ascii_case(name));
        values.next().map(|(_, value)| value.to_owned())
    }
}

/// A connection, and the received bytes that no read has returned yet.
pub(super) struct Connection(TcpStream, Vec<u8>);

impl Connection {
    pub(super) async fn send(&mut self, text: &str) {
        // If the server has closed the connection, the next read shows that.
        let _closed = self.0.write_all(text.as_bytes()).await;
    }

    /// As [`Connection::send`]. Fails if the server has closed the connection in both directions.
    pub(super) async fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.write_all(bytes).await
    }

    /// Reads up to the end of a head.
    pub(super) async fn read_head(&mut self) -> Said {
        loop {
            if let Some(end) = self.1.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                let rest = self.1.split_off(end + 4);
                let head = String::from_utf8(std::mem::replace(&mut self.1, rest)).expect("text");
                let status = head.split(' ').nth(1).expect("a status");
                let status = status.parse().expect("a number");
                return Said { status, head, body: String::new() };
            }
            assert!(self.more().await, "closed within a head: {:?}", self.1);
        }
    }

    /// Reads a head and its body.
    pub(super) async fn read(&mut self) -> Said {
        let mut said = self.read_head().await;
        let length =
            said.header("content-length").map_or(0, |length| length.parse().expect("a number"));
        while self.1.len() < length {
            assert!(self.more().await, "closed within a body");
        }
        let rest = self.1.split_off(length);
        said.body = String::from_utf8(std::mem::replace(&mut self.1, rest)).expect("text");
        said
    }

    /// Returns true if the server closes the connection without sending more bytes.
    pub(super) async fn is_closed(&mut self) -> bool {
        self.1.is_empty() && !self.more().await
    }

    async fn more(&mut self) -> bool {
        let mut bytes = vec![0; 16384];
        // A reset is an end, too.
        let read = tokio::time::timeout(Duration::from_mins(1), self.0.read(&mut bytes)).await;
        let read = read.expect("the server says something or closes").unwrap_or(0);
        self.1.extend_from_slice(&bytes[..read]);
        read > 0
    }
}

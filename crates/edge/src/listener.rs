//! The listener of an endpoint: accepts connections, applies the limits, serves and ends them.
//!
//! A connection passes through these layers: TCP, `Stall` (timeout of a client that does not read),
//! `Linger` (orderly end with an unread body), TLS, and HTTP/1.1 or HTTP/2. For example, a
//! connection over the limit is served in the same way, but each of its requests is
//! refused.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use problem::Problem;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::edge::Edge;
use crate::flow::Streams;
use crate::hosts::{Hosts, Origin};
use crate::linger::{Linger, Lingering, UnreadBody};
use crate::metrics::EdgeMetrics;
use crate::permit::{Admission, ConnectionPermits};
use crate::service::Service;
use crate::stall::{ResponseKind, ResponseTimeouts, Stall};
use crate::tls::Tls;

/// The limit of time to receive a request's head, and of an idle HTTP/1 connection. Also the
/// interval between pings of an HTTP/2 connection, and the limit of time of their responses.
const HEAD_WAIT: Duration = Duration::from_secs(10);

/// The time without a request after which an HTTP/2 connection gets GOAWAY, and the time that the
/// client then has to close it.
const H2_IDLE_WAIT: Duration = Duration::from_secs(30);
const H2_GOAWAY_WAIT: Duration = Duration::from_secs(5);

/// The lifetime of a connection over the limit, in which it gets its refusal.
const REFUSAL_WAIT: Duration = Duration::from_secs(10);

/// The limit of time of a TLS handshake.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);

/// The limit of bytes of a request's line and headers.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// The limit of headers that hyper parses. hyper answers a request with more of them with an empty
/// 431. The edge lets the service refuse more than 100.
///
/// hyper allocates two vectors of 32 bytes for each of these headers at each request. With 400
/// headers they are small allocations, and take 50 ns. Vectors for 1,000 headers sometimes took
/// 1,200 ns, because jemalloc returned them to its arena.
const HEADERS_PARSED_MAX: usize = 400;

/// The buffer of one HTTP/1 connection for bytes that the service has not read yet.
const READ_BUFFER_BYTES: usize = 128 << 10;

/// The limit of concurrent requests on one HTTP/2 connection.
const H2_STREAMS_MAX: u32 = 128;

/// The receive windows of an HTTP/2 stream and of a connection.
///
/// hyper keeps the bytes of a window in memory while the service does not read, and no budget
/// counts them. So they are small: the connections of one host, 2,048 by default, hold at most 2
/// GiB. A stream still receives 25 MB/s at a round-trip time of 10 ms.
const H2_STREAM_WINDOW_BYTES: u32 = 256 << 10;
const H2_CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// The limit of bytes that hyper buffers for sending on one HTTP/2 stream.
const H2_SEND_BUFFER_BYTES: usize = 128 << 10;

/// The pause after a failed accept, for example without free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Returns a socket that listens at an address. The error has the remedy for its cause.
pub async fn bind(address: &str) -> Result<TcpListener, Problem> {
    TcpListener::bind(address).await.map_err(|error| {
        let problem = Problem::new(format!("listen on {address}"), &error);
        match error.kind() {
            io::ErrorKind::AddrInUse => {
                problem.remedy("another program has this port: stop it, or choose another port")
            }
            io::ErrorKind::PermissionDenied => {
                problem.remedy("choose a port of 1024 or above, or grant the right to bind it")
            }
            io::ErrorKind::AddrNotAvailable => {
                problem.remedy("this machine has no such address: give one of its own, or 0.0.0.0")
            }
            io::ErrorKind::InvalidInput => {
                problem.remedy("an address is HOST:PORT, such as 127.0.0.1:9700")
            }
            // The failed lookup of a name has no error kind of its own.
            _ if address.rsplit_once(':').is_some_and(|(host, _)| !host.is_empty()) => {
                problem.remedy("give an address of this machine, such as 127.0.0.1:9700")
            }
            _ => problem.remedy("an address is HOST:PORT, such as 127.0.0.1:9700"),
        }
    })
}

/// The listener of an endpoint.
#[derive(Debug)]
pub struct Listener<S> {
    /// The server's side of TLS; `None` to serve plain HTTP.
    pub tls: Option<Tls>,
    /// The edge that answers the requests.
    pub edge: Arc<Edge<S>>,
    /// The limits of all connections.
    pub permits: ConnectionPermits,
    /// The limits of the connections and requests of each host.
    pub hosts: Arc<Hosts>,
    /// The counters of connections.
    pub metrics: Arc<EdgeMetrics>,
    /// The timeouts of clients that do not read their response.
    pub timeouts: ResponseTimeouts,
    /// The limit of connections that end while their clients still send.
    pub lingering: Lingering,
}

impl<S: Service> Listener<S> {
    /// Serves at `socket` until `stop` is cancelled. Then closes it, so that the kernel refuses new
    /// connections, and waits for requests in flight, at most for `drain`. Returns true if all have
    /// finished.
    pub async fn serve(
        self,
        socket: TcpListener,
        stop: CancellationToken,
        drain: Duration,
    ) -> bool {
        let tasks = TaskTracker::new();
        let serving = Arc::new(self);
        loop {
            let accepted = tokio::select! {
                accepted = socket.accept() => accepted,
                () = stop.cancelled() => break,
            };
            match accepted {
                Ok((stream, from)) => serving.admit(stream, from, &tasks, &stop),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections; trying again");
                    serving.metrics.count_connection_error("accept");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        // Closes the port before the wait, so that new clients are refused instead of waiting.
        drop(socket);
        tasks.close();
        tokio::time::timeout(drain, tasks.wait()).await.is_ok()
    }

    /// Serves a new connection in a task. Closes it without a response if even the connections that
    /// get a refusal are at their limit.
    fn admit(
        self: &Arc<Self>,
        stream: TcpStream,
        from: SocketAddr,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) {
        let peer = Arc::new(self.hosts.peer(from.ip()));
        // The host's limit first: a host over its limit gets a refusal, without a permit of the
        // served connections.
        let counted = peer.connection();
        let (admission, permit) = match self.permits.take(counted.is_some()) {
            Ok(taken) => taken,
            Err(limit) => return self.metrics.count_rejection(limit),
        };
        let (this, stop) = (Arc::clone(self), stop.clone());
        tasks.spawn(async move {
            this.metrics.connections.inc();
            let (unread, kind) = (UnreadBody::default(), ResponseKind::default());
            let from = Origin { peer, address: from.ip(), tls: None, cipher: None, unread, kind };
            let served = this.connection(stream, admission, from, stop);
            let ended = match admission {
                Admission::Granted => served.await,
                Admission::Refused(_) => {
                    tokio::time::timeout(REFUSAL_WAIT, served).await.unwrap_or(Ok(()))
                }
            };
            if let Err(kind) = ended {
                this.metrics.count_connection_error(kind);
            }
            this.metrics.connections.dec();
            // Moved into the task, so that the limits count the connection until here.
            drop((counted, permit));
        });
    }

    /// Serves one connection to its end. The error is its kind, a value of a metric's label. It is
    /// not logged, because clients often close connections early.
    async fn connection(
        &self,
        stream: TcpStream,
        admission: Admission,
        mut from: Origin,
        stop: CancellationToken,
    ) -> Result<(), &'static str> {
        // Responses are written in large pieces, so delaying the last packet has no benefit.
        stream.set_nodelay(true).map_err(|_| "socket")?;
        runtime::disable_pacing(&stream);
        // Both are below TLS: the timeout counts bytes on the wire, and the end of TLS comes before
        // the end of the connection.
        let stream = Stall::new(stream, self.timeouts, from.kind.clone());
        let stream = Linger::new(
            stream,
            from.unread.clone(),
            self.lingering.clone(),
            from.peer.host_address(),
        );
        let Some(tls) = &self.tls else { return self.http1(stream, admission, from, stop).await };
        let handshake = tokio::time::timeout(HANDSHAKE_WAIT, tls.accept(stream));
        let stream = handshake.await.map_err(|_| "handshake")?.map_err(|_| "handshake")?;
        let session = stream.get_ref().1;
        from.tls = Some(match session.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_3) => "1.3",
            _ => "1.2",
        });
        from.cipher = session.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str());
        if session.alpn_protocol() == Some(b"h2") {
            self.http2(stream, admission, from, stop).await
        } else {
            self.http1(stream, admission, from, stop).await
        }
    }

    /// Serves HTTP/1.1. When `stop` is cancelled, the connection ends after the request in flight.
    async fn http1<T>(
        &self,
        stream: T,
        admission: Admission,
        from: Origin,
        stop: CancellationToken,
    ) -> Result<(), &'static str>
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let edge = Arc::clone(&self.edge);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_WAIT)
            .max_header_size(HEAD_BYTES_MAX)
            .max_headers(HEADERS_PARSED_MAX)
            .max_buf_size(READ_BUFFER_BYTES)
            .serve_connection(
                TokioIo::new(stream),
                service_fn(move |request| {
                    let (edge, from) = (Arc::clone(&edge), from.clone());
                    async move { Ok::<_, Infallible>(edge.respond(request, admission, from).await) }
                }),
            );
        let mut connection = pin!(connection);
        tokio::select! {
            ended = connection.as_mut() => return ended.map_err(|error| error_kind(&error)),
            () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        connection.await.map_err(|error| error_kind(&error))
    }

    /// Serves HTTP/2. The connection ends after a time without requests, like one of HTTP/1;
    /// otherwise a client that only answers pings would keep its permit forever.
    async fn http2<T>(
        &self,
        stream: T,
        admission: Admission,
        from: Origin,
        stop: CancellationToken,
    ) -> Result<(), &'static str>
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let edge = Arc::clone(&self.edge);
        let streams = Streams::new(Arc::clone(&self.metrics), self.timeouts);
        let connection = http2::Builder::new(streams.clone())
            .timer(TokioTimer::new())
            .keep_alive_interval(HEAD_WAIT)
            .keep_alive_timeout(HEAD_WAIT)
            .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX))
            .max_concurrent_streams(H2_STREAMS_MAX)
            .initial_stream_window_size(H2_STREAM_WINDOW_BYTES)
            .initial_connection_window_size(H2_CONNECTION_WINDOW_BYTES)
            .max_send_buf_size(H2_SEND_BUFFER_BYTES)
            .serve_connection(
                TokioIo::new(stream),
                service_fn(move |request| {
                    let (edge, from) = (Arc::clone(&edge), from.clone());
                    async move { Ok::<_, Infallible>(edge.respond(request, admission, from).await) }
                }),
            );
        let mut connection = pin!(connection);
        tokio::select! {
            ended = connection.as_mut() => return ended.map_err(|error| error_kind(&error)),
            () = stop.cancelled() => {}
            () = streams.idle_for(H2_IDLE_WAIT) => {}
            () = streams.first_response(), if admission != Admission::Granted => {}
        }
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            ended = connection.as_mut() => ended.map_err(|error| error_kind(&error)),
            // Requests that the client sent before it received GOAWAY are answered first.
            () = streams.idle_for(H2_GOAWAY_WAIT) => Ok(()),
        }
    }
}

/// Returns the kind of a connection's error, as the value of a metric's label.
fn error_kind(error: &hyper::Error) -> &'static str {
    if error.is_parse() {
        "request"
    } else if error.is_timeout() {
        "timeout"
    } else if error.is_incomplete_message() || error.is_canceled() {
        "closed"
    } else if error.is_user() {
        "body"
    } else {
        "transport"
    }
}

//! The listener: accepts connections, limits and serves them, and ends them.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::flow::Streams;
use super::hosts::{Hosts, Origin};
use super::linger::{Linger, Lingering, UnreadBody};
use super::permit::{Admission, ConnectionPermits};
use super::stall::{AnswerPatience, Pace, Stall};
use super::{Edge, Service};
use crate::metrics::Metrics;
use crate::problem::Problem;
use crate::tls::Tls;

/// How long a client may take to send a request's head, and how long a connection may be idle.
const HEAD_WAIT: Duration = Duration::from_secs(10);

/// How long an HTTP/2 connection may be without a request until GOAWAY is sent, and how long the
/// peer then has to close it.
const H2_IDLE_WAIT: Duration = Duration::from_secs(30);
const H2_GOAWAY_WAIT: Duration = Duration::from_secs(5);

/// How long a connection beyond the limit may take to send a request and to take its refusal.
const REFUSAL_WAIT: Duration = Duration::from_secs(10);

/// How long a TLS handshake may take.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);

/// Bytes of a request's line and headers.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// The most headers of a request that hyper parses. hyper answers a request with more of them by an empty
/// 431. The edge refuses more than 100, and answers with a document of S3.
///
/// hyper allocates two vectors of 32 bytes for each of these headers at each request. With 400 headers
/// they are small allocations, and take 50 ns. Vectors for 1,000 headers sometimes took 1,200 ns, because
/// jemalloc returned them to its arena.
const HEADERS_PARSED_MAX: usize = 400;

/// Bytes that are read from one connection ahead of the gateway.
const READ_BUFFER_BYTES: usize = 128 << 10;

/// Requests at a time on one HTTP/2 connection.
const H2_STREAMS_MAX: u32 = 128;

/// Bytes that an HTTP/2 client may send ahead, on a stream and on a connection.
const H2_STREAM_WINDOW_BYTES: u32 = 1 << 20;
const H2_CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// Bytes that may wait to be sent on one HTTP/2 stream.
const H2_SEND_BUFFER_BYTES: usize = 128 << 10;

/// How long to wait after the system failed to accept a connection, for want of descriptors say.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Binds an address, or says what to do about it.
pub(crate) async fn bind(address: &str) -> Result<TcpListener, Problem> {
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
                problem.remedy("this machine has no such address: name one of its own, or 0.0.0.0")
            }
            io::ErrorKind::InvalidInput => {
                problem.remedy("an address is HOST:PORT, such as 127.0.0.1:9700")
            }
            // Looking up a name has no kind of its own.
            _ if address.rsplit_once(':').is_some_and(|(host, _)| !host.is_empty()) => {
                problem.remedy("name an address of this machine, such as 127.0.0.1:9700")
            }
            _ => problem.remedy("an address is HOST:PORT, such as 127.0.0.1:9700"),
        }
    })
}

/// The listener of the S3 endpoint.
#[derive(Debug)]
pub(crate) struct Listener<S> {
    pub(crate) tls: Option<Tls>,
    pub(crate) edge: Arc<Edge<S>>,
    pub(crate) permits: ConnectionPermits,
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) metrics: Arc<Metrics>,
    /// How long a client may take nothing of a response.
    pub(crate) patience: AnswerPatience,
    /// Connections that end while their clients still send.
    pub(crate) lingering: Lingering,
}

impl<S: Service> Listener<S> {
    /// Serves at `socket` until `stop`. Then closes it, so that the system refuses new connections,
    /// and lets requests in flight finish, for at most `drain`. Returns whether all did.
    pub(crate) async fn serve(
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
                    tracing::warn!(%error, "cannot accept a connection");
                    serving.metrics.count_connection_error("accept");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(socket);
        tasks.close();
        tokio::time::timeout(drain, tasks.wait()).await.is_ok()
    }

    fn admit(
        self: &Arc<Self>,
        stream: TcpStream,
        from: SocketAddr,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) {
        let peer = Arc::new(self.hosts.peer(from.ip()));
        let counted = peer.connection();
        let (admission, permit) = match self.permits.take(counted.is_some()) {
            Ok(taken) => taken,
            Err(limit) => return self.metrics.count_rejection(limit),
        };
        let (this, stop) = (Arc::clone(self), stop.clone());
        tasks.spawn(async move {
            this.metrics.connections.inc();
            let (unread, pace) = (UnreadBody::default(), Pace::default());
            let from = Origin { peer, address: from.ip(), tls: None, unread, pace };
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
            drop((counted, permit));
        });
    }

    /// Serves one connection to its end. An error is what went wrong, for a metric. It is not
    /// logged: clients go away all the time.
    async fn connection(
        &self,
        stream: TcpStream,
        admission: Admission,
        mut from: Origin,
        stop: CancellationToken,
    ) -> Result<(), &'static str> {
        stream.set_nodelay(true).map_err(|_| "socket")?;
        runtime::unpace(&stream);
        let stream = Stall::new(stream, self.patience, from.pace.clone());
        let stream = Linger::new(stream, from.unread.clone(), self.lingering.clone());
        let Some(tls) = &self.tls else { return self.http1(stream, admission, from, stop).await };
        let handshake = tokio::time::timeout(HANDSHAKE_WAIT, tls.accept(stream));
        let stream = handshake.await.map_err(|_| "handshake")?.map_err(|_| "handshake")?;
        let session = stream.get_ref().1;
        from.tls = Some(match session.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_3) => "1.3",
            _ => "1.2",
        });
        if session.alpn_protocol() == Some(b"h2") {
            self.http2(stream, admission, from, stop).await
        } else {
            self.http1(stream, admission, from, stop).await
        }
    }

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
            ended = connection.as_mut() => return ended.map_err(|error| kind(&error)),
            () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        connection.await.map_err(|error| kind(&error))
    }

    /// Serves HTTP/2. Like one of HTTP/1, the connection ends when there has been no request for a
    /// while: otherwise a peer that only answers pings would keep its permit for ever.
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
        let streams = Streams::new(Arc::clone(&self.metrics), self.patience);
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
            ended = connection.as_mut() => return ended.map_err(|error| kind(&error)),
            () = stop.cancelled() => {}
            () = streams.idle_for(H2_IDLE_WAIT) => {}
            () = streams.some_response(), if admission != Admission::Granted => {}
        }
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            ended = connection.as_mut() => ended.map_err(|error| kind(&error)),
            // Requests that the peer sent before it got GOAWAY are answered first.
            () = streams.idle_for(H2_GOAWAY_WAIT) => Ok(()),
        }
    }
}

/// Why hyper gave a connection up, as a label.
fn kind(error: &hyper::Error) -> &'static str {
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

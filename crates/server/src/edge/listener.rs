//! Listening: connections, their limits, their protocol, and how they end.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::stall::Stall;
use super::{Edge, Seat, Service};
use crate::metrics::Metrics;
use crate::problem::Problem;
use crate::tls::Tls;

/// How long a client may take over a request's head, and how long a connection stays idle.
const HEAD_WAIT: Duration = Duration::from_secs(10);

/// How long a TLS handshake may take.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);

/// Bytes of a request's line and headers.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Bytes that one connection may read ahead of the gateway.
const READ_BUFFER_BYTES: usize = 128 << 10;

/// Requests at a time on one HTTP/2 connection.
const H2_STREAMS_MAX: u32 = 128;

/// Bytes that an HTTP/2 client may send ahead, on a stream and on a connection.
const H2_STREAM_WINDOW_BYTES: u32 = 1 << 20;
const H2_CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// Bytes that wait to be sent on one HTTP/2 stream.
const H2_SEND_BUFFER_BYTES: usize = 128 << 10;

/// Connections beyond the limit that are told so; any more are closed without a word.
const TURNED_AWAY_MAX: usize = 64;

/// How long to wait after the system refused a connection, for example for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How many connections are served at a time.
#[derive(Clone, Debug)]
pub(crate) struct Seats {
    served: Arc<Semaphore>,
    turned_away: Arc<Semaphore>,
}

impl Seats {
    pub(crate) fn new(connections_max: usize) -> Seats {
        let turned_away = Arc::new(Semaphore::new(TURNED_AWAY_MAX));
        Seats { served: Arc::new(Semaphore::new(connections_max)), turned_away }
    }

    fn take(&self) -> Option<(Seat, OwnedSemaphorePermit)> {
        let seat = Arc::clone(&self.served).try_acquire_owned();
        let none = || Arc::clone(&self.turned_away).try_acquire_owned();
        match seat {
            Ok(permit) => Some((Seat::Taken, permit)),
            Err(_) => none().ok().map(|permit| (Seat::None, permit)),
        }
    }
}

/// Takes an address, or says why not.
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
            _ => problem.remedy("an address is HOST:PORT, such as 127.0.0.1:9700"),
        }
    })
}

/// Who answers at the S3 endpoint.
#[derive(Debug)]
pub(crate) struct Listener<S> {
    pub(crate) tls: Option<Tls>,
    pub(crate) edge: Arc<Edge<S>>,
    pub(crate) seats: Seats,
    pub(crate) metrics: Arc<Metrics>,
    /// How long a client may take nothing of an answer.
    pub(crate) patience: Duration,
}

impl<S: Service> Listener<S> {
    /// Serves at `socket` until `stop`; then closes it, so that the system refuses whoever comes
    /// later, and lets requests under way finish, for at most `drain`. Answers whether all did.
    pub(crate) async fn serve(
        self,
        socket: TcpListener,
        stop: CancellationToken,
        drain: Duration,
    ) -> bool {
        let graceful = GracefulShutdown::new();
        let tasks = TaskTracker::new();
        let serving = Arc::new(self);
        loop {
            let accepted = tokio::select! {
                accepted = socket.accept() => accepted,
                () = stop.cancelled() => break,
            };
            match accepted {
                Ok((stream, _)) => serving.seat(stream, &tasks, graceful.watcher()),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    serving.metrics.connection_error("accept");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(socket);
        tasks.close();
        let finished = tokio::time::timeout(drain, async {
            graceful.shutdown().await;
            tasks.wait().await;
        });
        finished.await.is_ok()
    }

    fn seat(self: &Arc<Self>, stream: TcpStream, tasks: &TaskTracker, watcher: Watcher) {
        let Some((seat, permit)) = self.seats.take() else {
            self.metrics.turn_away("connections");
            return;
        };
        let this = Arc::clone(self);
        tasks.spawn(async move {
            this.metrics.connections.inc();
            if let Err(kind) = this.connection(stream, seat, watcher).await {
                this.metrics.connection_error(kind);
            }
            this.metrics.connections.dec();
            drop(permit);
        });
    }

    /// Serves one connection to its end. An error is the kind of trouble, for a metric: a client
    /// that goes away is no news.
    async fn connection(
        &self,
        stream: TcpStream,
        seat: Seat,
        watcher: Watcher,
    ) -> Result<(), &'static str> {
        stream.set_nodelay(true).map_err(|_| "socket")?;
        loopback::unpace(&stream);
        let stream = Stall::new(stream, self.patience);
        let Some(tls) = &self.tls else { return self.http1(stream, seat, watcher).await };
        let handshake = tokio::time::timeout(HANDSHAKE_WAIT, tls.accept(stream));
        let stream = handshake.await.map_err(|_| "handshake")?.map_err(|_| "handshake")?;
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            self.http2(stream, seat, watcher).await
        } else {
            self.http1(stream, seat, watcher).await
        }
    }

    async fn http1<T>(&self, stream: T, seat: Seat, watcher: Watcher) -> Result<(), &'static str>
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let edge = Arc::clone(&self.edge);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_WAIT)
            .max_header_size(HEAD_BYTES_MAX)
            .max_buf_size(READ_BUFFER_BYTES)
            .serve_connection(
                TokioIo::new(stream),
                service_fn(move |request| {
                    let edge = Arc::clone(&edge);
                    async move { Ok::<_, Infallible>(edge.answer(request, seat).await) }
                }),
            );
        watcher.watch(connection).await.map_err(|error| kind(&error))
    }

    async fn http2<T>(&self, stream: T, seat: Seat, watcher: Watcher) -> Result<(), &'static str>
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let edge = Arc::clone(&self.edge);
        let connection = http2::Builder::new(TokioExecutor::new())
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
                    let edge = Arc::clone(&edge);
                    async move { Ok::<_, Infallible>(edge.answer(request, seat).await) }
                }),
            );
        watcher.watch(connection).await.map_err(|error| kind(&error))
    }
}

/// What became of a connection that hyper gave up.
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

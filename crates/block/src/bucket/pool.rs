//! A pool of connections to a bucket.
//!
//! A connection is in the pool or in use by one request. It returns to the pool only if its
//! response was read to the end. The connection that was used last is used first, so that surplus
//! ones become old. A connection that was idle for too long is not used any more. No task watches
//! the pool: old connections are closed by the next call, and until then they only take up memory.
//! For example, after a peak of 100 requests a lone client uses one connection again and again, and
//! the other 99 become too old after 15 seconds.
//!
//! The module knows the address, but not the meaning of requests.

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use tokio::time::{Instant, timeout};
use tower_service::Service;

use super::pieces::Pieces;
use super::wire::{Stream, Wire, WireState};

/// The longest time that an idle connection is kept. It is shorter than the one of MinIO and AWS,
/// so that no request uses a connection that the other side is closing.
pub(super) const IDLE_CONNECTION_MAX: Duration = Duration::from_secs(15);

/// The most idle connections that are kept.
pub(super) const IDLE_CONNECTIONS_MAX: usize = 256;

type Cause = Box<dyn Error + Send + Sync>;

/// The connections to one address.
pub(super) struct ConnectionPool {
    place: Uri,
    connector: Connector,
    connect_timeout: Duration,
    /// Idle connections; the one that was idle longest is at the front.
    idle: Mutex<VecDeque<IdleConnection>>,
}

/// An idle connection.
struct IdleConnection {
    since: Instant,
    wire: Wire,
}

#[derive(Clone)]
enum Connector {
    Plain(HttpConnector),
    Secure(HttpsConnector<HttpConnector>),
}

impl ConnectionPool {
    /// Creates an empty pool. `place` has a scheme and a host.
    ///
    /// # Errors
    /// Fails if TLS is needed and the system has no root certificates.
    pub(super) fn new(place: Uri, connect_timeout: Duration) -> Result<ConnectionPool, Cause> {
        // Without TLS the system's certificates are not needed; they may not be installed.
        let connector = if place.scheme_str() == Some("https") {
            let tls = HttpsConnectorBuilder::new()
                .with_provider_and_native_roots(rustls::crypto::aws_lc_rs::default_provider())?;
            Connector::Secure(tls.https_only().enable_http1().wrap_connector(tcp()))
        } else {
            Connector::Plain(tcp())
        };
        Ok(ConnectionPool { place, connector, connect_timeout, idle: Mutex::default() })
    }

    /// Sends a request and waits for the head of its response. If an idle connection turns out to
    /// be closed before any of the request was sent, the request is sent over a new one.
    pub(super) async fn send(
        &self,
        mut request: Request<Pieces>,
    ) -> Result<(Wire, Response<Incoming>), Cause> {
        let mut fresh = false;
        loop {
            let reused = if fresh { None } else { self.take().await };
            let mut wire = match reused {
                Some(wire) => wire,
                None => {
                    fresh = true;
                    // Boxed, because it is large and rare.
                    Box::pin(self.connect()).await?
                }
            };
            let mut error = match wire.ask(request).await {
                Ok(answer) => return Ok((wire, answer)),
                Err(error) => error,
            };
            match error.take_message() {
                // hyper returns the request only if none of it was sent, so it is not sent twice.
                Some(unsent) if !fresh => request = unsent,
                _ => return Err(error.into_error().into()),
            }
            // A second idle connection is probably closed, too, so the retry uses a new one.
            fresh = true;
        }
    }

    /// Takes back a connection whose response was read to the end. Returns its state.
    pub(super) async fn put_back(&self, mut wire: Wire) -> WireState {
        let rest = wire.state().await;
        if rest == WireState::Ready {
            self.keep_idle(wire);
        }
        rest
    }

    /// Keeps an idle connection, and closes those that are too many or too old.
    fn keep_idle(&self, wire: Wire) {
        let since = Instant::now();
        let mut idle = self.idle();
        idle.push_back(IdleConnection { since, wire });
        let surplus = idle.len().saturating_sub(IDLE_CONNECTIONS_MAX);
        let aged = idle.iter().take_while(|idle| is_old(idle, since)).count();
        let ended: Vec<IdleConnection> = idle.drain(..surplus.max(aged)).collect();
        drop(idle);
        // Each close is a system call, so it happens outside the lock.
        drop(ended);
    }

    /// Returns the connection that was used last; `None` if no idle one is usable.
    async fn take(&self) -> Option<Wire> {
        loop {
            let mut found = self.youngest()?;
            // The other side may have closed the connection while it was idle.
            if found.state().await == WireState::Ready {
                return Some(found);
            }
        }
    }

    /// Returns the connection that was used last, unless it is too old.
    fn youngest(&self) -> Option<Wire> {
        let mut idle = self.idle();
        let youngest = idle.pop_back()?;
        if is_old(&youngest, Instant::now()) {
            // All others are older, so all are closed.
            let ended = std::mem::take(&mut *idle);
            drop(idle);
            drop(ended);
            return None;
        }
        Some(youngest.wire)
    }

    async fn connect(&self) -> Result<Wire, Cause> {
        let connecting = self.connector.clone().connect(self.place.clone());
        let stream = timeout(self.connect_timeout, connecting).await.map_err(|_| {
            format!("no connection to {} within {:?}", self.place, self.connect_timeout)
        })??;
        runtime::disable_pacing(match &stream {
            MaybeHttpsStream::Http(tcp) => tcp.inner(),
            MaybeHttpsStream::Https(tls) => tls.inner().get_ref().0.inner().inner(),
        });
        Ok(Wire::open(stream).await?)
    }

    fn idle(&self) -> MutexGuard<'_, VecDeque<IdleConnection>> {
        // A panic under the lock leaves no incomplete entry.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_old(idle: &IdleConnection, now: Instant) -> bool {
    now.saturating_duration_since(idle.since) >= IDLE_CONNECTION_MAX
}

fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    // A request is written in a few large pieces, so delaying small ones only adds latency.
    tcp.set_nodelay(true);
    // The layer above decides about TLS.
    tcp.enforce_http(false);
    tcp
}

impl Connector {
    async fn connect(mut self, place: Uri) -> Result<Stream, Cause> {
        match &mut self {
            Connector::Plain(tcp) => {
                poll_fn(|context| tcp.poll_ready(context)).await?;
                Ok(MaybeHttpsStream::Http(tcp.call(place).await?))
            }
            Connector::Secure(tls) => {
                poll_fn(|context| tls.poll_ready(context)).await?;
                tls.call(place).await
            }
        }
    }
}

impl fmt::Debug for ConnectionPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let idle = self.idle().len();
        f.debug_struct("ConnectionPool")
            .field("place", &self.place)
            .field("idle", &idle)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

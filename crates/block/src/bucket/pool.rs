//! A pool of connections to a bucket.
//!
//! A connection is in the pool or in use by one request. It comes back only if its answer was read to
//! the end. The one that was idle shortest is used first, so that surplus ones age. A connection that was
//! idle for too long is not used any more. Nothing watches the pool: old connections are closed by the
//! next call, and until then they only take up memory. This module knows where to connect, and not what
//! is requested.

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
use super::wire::{Rest, Stream, Wire};

/// How long an unused connection is kept: less than MinIO and AWS keep theirs, so that no request
/// meets a connection that the other side is closing.
pub(super) const IDLE_CONNECTION_MAX: Duration = Duration::from_secs(15);

/// Unused connections that are kept.
pub(super) const IDLE_CONNECTIONS_MAX: usize = 256;

type Cause = Box<dyn Error + Send + Sync>;

/// The connections to one place.
pub(super) struct ConnectionPool {
    place: Uri,
    connector: Connector,
    connect_timeout: Duration,
    /// The one that was idle longest is in front.
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
    /// A pool without connections. `place` has a scheme and a host.
    ///
    /// # Errors
    /// If the system has no certificates to know the other side by.
    pub(super) fn new(place: Uri, connect_timeout: Duration) -> Result<ConnectionPool, Cause> {
        // Without TLS there is no need for the system's certificates, which may not be installed.
        let connector = if place.scheme_str() == Some("https") {
            let tls = HttpsConnectorBuilder::new()
                .with_provider_and_native_roots(rustls::crypto::aws_lc_rs::default_provider())?;
            Connector::Secure(tls.https_only().enable_http1().wrap_connector(tcp()))
        } else {
            Connector::Plain(tcp())
        };
        Ok(ConnectionPool { place, connector, connect_timeout, idle: Mutex::default() })
    }

    /// Sends a request and waits for the head of its answer. If an idle connection turns out to be
    /// closed before anything was sent, the request is sent on a new one.
    pub(super) async fn send(
        &self,
        mut request: Request<Pieces>,
    ) -> Result<(Wire, Response<Incoming>), Cause> {
        let mut fresh = false;
        loop {
            let rested = if fresh { None } else { self.take().await };
            let mut wire = match rested {
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
                Some(unsent) if !fresh => request = unsent,
                _ => return Err(error.into_error().into()),
            }
            fresh = true;
        }
    }

    /// Takes back a connection whose answer was read to the end, and returns its state.
    pub(super) async fn give(&self, mut wire: Wire) -> Rest {
        let rest = wire.rest().await;
        if rest == Rest::Ready {
            self.lay(wire);
        }
        rest
    }

    /// Keeps an idle connection, and closes those that are too many or too old.
    fn lay(&self, wire: Wire) {
        let since = Instant::now();
        let mut idle = self.idle();
        idle.push_back(IdleConnection { since, wire });
        let surplus = idle.len().saturating_sub(IDLE_CONNECTIONS_MAX);
        let aged = idle.iter().take_while(|idle| is_old(idle, since)).count();
        let ended: Vec<IdleConnection> = idle.drain(..surplus.max(aged)).collect();
        drop(idle);
        // Each close is a system call, so this happens outside the lock.
        drop(ended);
    }

    /// The connection that was idle shortest, if one can be used.
    async fn take(&self) -> Option<Wire> {
        loop {
            let mut found = self.youngest()?;
            if found.rest().await == Rest::Ready {
                return Some(found);
            }
        }
    }

    /// The connection that was idle shortest, unless it is too old.
    fn youngest(&self) -> Option<Wire> {
        let mut idle = self.idle();
        let youngest = idle.pop_back()?;
        if is_old(&youngest, Instant::now()) {
            // Then all others are older.
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
        runtime::unpace(match &stream {
            MaybeHttpsStream::Http(tcp) => tcp.inner(),
            MaybeHttpsStream::Https(tls) => tls.inner().get_ref().0.inner().inner(),
        });
        Ok(Wire::open(stream).await?)
    }

    fn idle(&self) -> MutexGuard<'_, VecDeque<IdleConnection>> {
        // A panic under the lock leaves no half-made entry.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_old(idle: &IdleConnection, now: Instant) -> bool {
    now.saturating_duration_since(idle.since) >= IDLE_CONNECTION_MAX
}

fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.set_nodelay(true);
    // The layer above decides on TLS.
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

//! The connections to a bucket: those at rest, and how a new one is made.
//!
//! A connection is in the pool, or in the hands of one request. It comes back only when its answer
//! was read to the end. The one that rested shortest goes out first, so that those not needed
//! grow old; no connection is used after it rested for longer than the idle time. Nobody watches
//! the pool: what has grown old is closed by the next call, and until then it only takes up room.
//! Knows where to connect, and not what is asked there.

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
pub(super) struct Pool {
    place: Uri,
    connector: Connector,
    connect_timeout: Duration,
    /// The one that rested longest in front.
    resting: Mutex<VecDeque<Resting>>,
}

/// A connection that is not used.
struct Resting {
    since: Instant,
    wire: Wire,
}

#[derive(Clone)]
enum Connector {
    Plain(HttpConnector),
    Secure(HttpsConnector<HttpConnector>),
}

impl Pool {
    /// A pool without connections. `place` has a scheme and a host.
    ///
    /// # Errors
    /// If the system has no certificates to know the other side by.
    pub(super) fn new(place: Uri, connect_timeout: Duration) -> Result<Pool, Cause> {
        // Without TLS there is no need for the system's certificates, which may not be installed.
        let connector = if place.scheme_str() == Some("https") {
            let tls = HttpsConnectorBuilder::new()
                .with_provider_and_native_roots(rustls::crypto::aws_lc_rs::default_provider())?;
            Connector::Secure(tls.https_only().enable_http1().wrap_connector(tcp()))
        } else {
            Connector::Plain(tcp())
        };
        Ok(Pool { place, connector, connect_timeout, resting: Mutex::default() })
    }

    /// Sends a request and waits for the head of its answer. Once more on a new connection, if a
    /// connection at rest turns out to be closed before anything was sent.
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
                    // Boxed, because it is large and seldom.
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

    /// Takes a connection back whose answer was read to the end, and says how it stood.
    pub(super) async fn give(&self, mut wire: Wire) -> Rest {
        let rest = wire.rest().await;
        if rest == Rest::Ready {
            self.lay(wire);
        }
        rest
    }

    /// Lets a connection rest, and ends those for which there is no room or no use.
    fn lay(&self, wire: Wire) {
        let since = Instant::now();
        let mut resting = self.resting();
        resting.push_back(Resting { since, wire });
        let surplus = resting.len().saturating_sub(IDLE_CONNECTIONS_MAX);
        let aged = resting.iter().take_while(|resting| is_old(resting, since)).count();
        let ended: Vec<Resting> = resting.drain(..surplus.max(aged)).collect();
        drop(resting);
        // Closing takes a call of the system's each.
        drop(ended);
    }

    /// The connection that rested shortest, if one can be used.
    async fn take(&self) -> Option<Wire> {
        loop {
            let mut found = self.youngest()?;
            if found.rest().await == Rest::Ready {
                return Some(found);
            }
        }
    }

    /// The connection that rested shortest, if it is not too old.
    fn youngest(&self) -> Option<Wire> {
        let mut resting = self.resting();
        let youngest = resting.pop_back()?;
        if is_old(&youngest, Instant::now()) {
            // Then all others are older.
            let ended = std::mem::take(&mut *resting);
            drop(resting);
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

    fn resting(&self) -> MutexGuard<'_, VecDeque<Resting>> {
        // Whoever panics with the lock leaves whole connections behind.
        self.resting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_old(resting: &Resting, now: Instant) -> bool {
    now.saturating_duration_since(resting.since) >= IDLE_CONNECTION_MAX
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

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resting = self.resting().len();
        f.debug_struct("Pool")
            .field("place", &self.place)
            .field("resting", &resting)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

//! The edge: what stands between sockets and the gateway, and the only code that names hyper.
//!
//! Every request gets an id before anything else happens to it, and every answer carries it. What
//! can be decided without the body is decided before the body is read: health, admission. A panic
//! below becomes a 500. What an operation means is not known here.

mod answer;
mod flow;
mod hosts;
mod ids;
mod listener;
mod stall;
mod upload;

#[cfg(test)]
mod tests;

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use gateway::{Body, InMemory, RequestContext, RequestId, Served};
use http::header::{self, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use s3::{Code, Fault};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tracing::Instrument;

pub(crate) use hosts::{HostLimits, Hosts};
pub(crate) use listener::{Listener, Seats, bind};
pub(crate) use stall::Stall;

use volume::Trips;

use crate::metrics::Metrics;
use answer::{Account, Held, Outgoing};
use flow::Flow;
use hosts::{HostRequest, Peer};
use ids::RequestIds;
use upload::Watched;

/// How long a request waits for its turn before it is told to slow down.
const ADMISSION_WAIT: Duration = Duration::from_secs(1);

/// KiB of answers, whole in memory, that may wait for their clients without a turn.
const ANSWERS_IN_MEMORY_KIB_MAX: usize = 32 << 10;

/// How long an answer to `ready` holds, so that asking often costs the stores nothing.
const READY_HOLDS: Duration = Duration::from_secs(1);

/// What answers requests.
pub(crate) trait Service: Send + Sync + 'static {
    /// Answers a request. May panic.
    fn handle(&self, request: Request<Body>) -> impl Future<Output = Response<Body>> + Send;

    /// Whether requests can be served now.
    fn ready(&self) -> impl Future<Output = bool> + Send;
}

/// Whether a request came through a connection that may be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seat {
    /// Yes.
    Taken,
    /// There are too many connections, or too many of its host: it is told so, and goes. The limit's name.
    None(&'static str),
}

/// A request's turn: while it is held, others wait for theirs.
#[derive(Debug)]
struct Turn {
    _host: HostRequest,
    _all: OwnedSemaphorePermit,
}

/// The edge of one gateway.
#[derive(Debug)]
pub(crate) struct Edge<S> {
    service: S,
    metrics: Arc<Metrics>,
    ids: RequestIds,
    requests: Arc<Semaphore>,
    /// KiB of answers that hold no turn.
    in_memory: Arc<Semaphore>,
    draining: AtomicBool,
    ready: tokio::sync::Mutex<Option<(Instant, bool)>>,
}

impl<S: Service> Edge<S> {
    /// An edge that lets `requests_max` requests through at a time.
    pub(crate) fn new(
        service: S,
        metrics: Arc<Metrics>,
        requests_max: usize,
        random: u64,
    ) -> Edge<S> {
        Edge {
            service,
            metrics,
            ids: RequestIds::starting_at(random),
            requests: Arc::new(Semaphore::new(requests_max)),
            in_memory: Arc::new(Semaphore::new(ANSWERS_IN_MEMORY_KIB_MAX)),
            draining: AtomicBool::new(false),
            ready: tokio::sync::Mutex::new(None),
        }
    }

    /// From now on the gateway is not ready, so that no new clients are sent here.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Answers one request.
    pub(crate) async fn answer(
        &self,
        request: Request<Incoming>,
        seat: Seat,
        peer: Arc<Peer>,
    ) -> Response<Body> {
        let id = self.ids.draw();
        let span = tracing::info_span!("request", id = %id);
        self.answer_as(request, seat, peer, id, span.clone()).instrument(span).await
    }

    async fn answer_as(
        &self,
        request: Request<Incoming>,
        seat: Seat,
        peer: Arc<Peer>,
        id: String,
        span: tracing::Span,
    ) -> Response<Body> {
        let began = Instant::now();
        let (mut head, body) = request.into_parts();
        let (body, upload) = Watched::new(body);
        head.extensions.insert(RequestId(id));
        let (context, version) = (RequestContext::of(&head), head.version);
        let expects_continue = head.headers.contains_key(header::EXPECT);
        let mut turn = None;
        let mut response = if let Seat::None(limit) = seat {
            self.slow_down(limit, &context)
        } else if let Some(check) = Health::asked(&head.method, head.uri.path()) {
            self.health(check).await
        } else {
            match self.turn(&peer, &head.headers).await {
                Ok(granted) => {
                    turn = Some(granted);
                    self.handle(Request::from_parts(head, body.boxed_unsync()), &context).await
                }
                Err(limit) => self.slow_down(limit, &context),
            }
        };
        // Others need not wait until a client has taken what is in memory, nor while the rest of a
        // body is read that nobody wants.
        let in_memory = response.extensions_mut().remove::<InMemory>().is_some();
        let mut memory = if in_memory { self.memory(&response) } else { None };
        if in_memory && memory.is_none() && (turn.is_none() || is_fault(&response)) {
            // There is no room for it: what a status tells must do.
            *response.body_mut() = empty();
            memory = self.memory(&response);
            turn = None;
        }
        if memory.is_some() {
            turn = None;
        }
        let read = match seat {
            Seat::None(_) => false,
            Seat::Taken if turn.is_none() => upload.read_to_end(expects_continue).await,
            Seat::Taken => upload.read_to_end(expects_continue).now_or_never().unwrap_or(false),
        };
        if !read && version < Version::HTTP_2 {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        let mut response = gateway::finish(&context, response);
        let account = Account {
            metrics: Arc::clone(&self.metrics),
            span,
            began,
            status: response.status(),
            promised: promised(&response),
            served: response.extensions_mut().remove::<Served>().unwrap_or_default(),
            trips: response.extensions_mut().remove::<Trips>().unwrap_or_default(),
            upload,
            in_memory,
            held: Held { _turn: turn, _memory: memory },
        };
        let (head, body) = response.into_parts();
        Response::from_parts(head, Outgoing::new(body, account, Flow::here()).boxed_unsync())
    }

    /// Waits for a request's turn: among those of its host first, so that whoever asks a lot waits
    /// behind itself. Else the limit that it met.
    async fn turn(&self, peer: &Arc<Peer>, headers: &HeaderMap) -> Result<Turn, &'static str> {
        let deadline = Instant::now() + ADMISSION_WAIT;
        let host = tokio::time::timeout_at(deadline, peer.request(headers)).await;
        let host = host.map_err(|_late| "host_requests")?;
        let all = Arc::clone(&self.requests).acquire_owned();
        match tokio::time::timeout_at(deadline, all).await {
            Ok(Ok(all)) => Ok(Turn { _host: host, _all: all }),
            _ => Err("requests"),
        }
    }

    /// The memory of an answer that is whole in memory, if so much may wait for clients: beyond
    /// that an answer keeps its turn until it has been taken, and one without a turn has no body.
    fn memory(&self, answer: &Response<Body>) -> Option<OwnedSemaphorePermit> {
        let bytes = http_body::Body::size_hint(answer.body()).upper().unwrap_or(u64::MAX);
        let kibibytes = u32::try_from(1 + bytes / 1024).ok()?;
        Arc::clone(&self.in_memory).try_acquire_many_owned(kibibytes).ok()
    }

    /// The gateway's answer, or that of a gateway that broke down over it.
    async fn handle(&self, request: Request<Body>, context: &RequestContext) -> Response<Body> {
        let handled = AssertUnwindSafe(self.service.handle(request)).catch_unwind().await;
        handled.unwrap_or_else(|panic| {
            self.metrics.panics.inc();
            let message = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            tracing::error!(message, "a request ended in a panic");
            gateway::refuse(context, &Code::InternalError.into())
        })
    }

    fn slow_down(&self, limit: &'static str, context: &RequestContext) -> Response<Body> {
        self.metrics.turn_away(limit);
        gateway::refuse(context, &Fault::new(Code::SlowDown).with_header(header::RETRY_AFTER, "1"))
    }

    async fn health(&self, check: Health) -> Response<Body> {
        let well = match check {
            Health::Alive => true,
            Health::Ready => !self.draining.load(Ordering::Relaxed) && self.ready().await,
        };
        let status = if well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let mut response = Response::new(empty());
        *response.status_mut() = status;
        response.extensions_mut().insert(Served { operation: "Health", ..Served::default() });
        response
    }

    /// Asks at most once a second, however many ask here.
    async fn ready(&self) -> bool {
        let mut known = self.ready.lock().await;
        match *known {
            Some((at, ready)) if at.elapsed() < READY_HOLDS => ready,
            _ => {
                let ready = self.service.ready().await;
                *known = Some((Instant::now(), ready));
                ready
            }
        }
    }
}

/// A question about health, on paths that no bucket can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    /// Asks the process only: an outage behind it must not restart gateways.
    Alive,
    /// Asks whether requests can be served.
    Ready,
}

impl Health {
    fn asked(method: &Method, path: &str) -> Option<Health> {
        if method != Method::GET && method != Method::HEAD {
            return None;
        }
        match path {
            "/-/healthy" | "/minio/health/live" => Some(Health::Alive),
            "/-/ready" | "/minio/health/ready" | "/minio/health/cluster" => Some(Health::Ready),
            _ => None,
        }
    }
}

fn is_fault(response: &Response<Body>) -> bool {
    response.status().is_client_error() || response.status().is_server_error()
}

fn promised(response: &Response<Body>) -> Option<u64> {
    response.headers().get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

//! The edge: what stands between sockets and the gateway, and the only code that names hyper.
//!
//! Every request gets an id before anything else happens to it, and every response carries the id.
//! Health checks are answered here, and requests beyond a limit are refused, before any body is
//! read. A panic in the gateway becomes a 500. What an operation means is not known here.

mod flow;
mod hosts;
mod ids;
mod linger;
mod listener;
mod permit;
mod queue;
mod response;
mod slot;
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
use gateway::{HttpBody, InMemory, RequestContext, RequestId, Served};
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use s3::{Code, Fault};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tracing::Instrument;

pub(crate) use hosts::{HostLimits, Hosts};
pub(crate) use linger::Lingering;
pub(crate) use listener::{Listener, bind};
pub(crate) use permit::ConnectionPermits;
pub(crate) use stall::{AnswerPatience, Pace, Stall};

use volume::RoundTrips;

use crate::metrics::Metrics;
use flow::Flow;
use hosts::Origin;
use ids::RequestIds;
use permit::Admission;
use response::{Account, HeldPermits, ResponseBody};
use slot::{NoSlot, RequestSlots};
use upload::WatchedBody;

/// KiB of responses that may wait in memory for their clients without holding a request's slot.
const RESPONSES_IN_MEMORY_KIB_MAX: usize = 32 << 10;

/// How long the result of a readiness check is reused, so that frequent checks cost the stores
/// nothing.
const READY_HOLDS: Duration = Duration::from_secs(1);

/// What carries requests out.
pub(crate) trait Service: Send + Sync + 'static {
    /// Responds to a request. May panic.
    fn handle(&self, request: Request<HttpBody>)
    -> impl Future<Output = Response<HttpBody>> + Send;

    /// Whether requests can be served now.
    fn ready(&self) -> impl Future<Output = bool> + Send;
}

/// The edge of one gateway.
#[derive(Debug)]
pub(crate) struct Edge<S> {
    service: S,
    metrics: Arc<Metrics>,
    ids: RequestIds,
    slots: Arc<RequestSlots>,
    /// KiB of responses that wait in memory without holding a request's slot.
    in_memory: Arc<Semaphore>,
    draining: AtomicBool,
    ready: tokio::sync::Mutex<Option<(Instant, bool)>>,
}

impl<S: Service> Edge<S> {
    /// An edge that carries out at most `requests_max` requests at a time.
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
            slots: RequestSlots::new(requests_max),
            in_memory: Arc::new(Semaphore::new(RESPONSES_IN_MEMORY_KIB_MAX)),
            draining: AtomicBool::new(false),
            ready: tokio::sync::Mutex::new(None),
        }
    }

    /// From now on the gateway is not ready, so that load balancers send no new clients here.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Responds to one request.
    pub(crate) async fn respond(
        &self,
        request: Request<Incoming>,
        admission: Admission,
        from: Origin,
    ) -> Response<HttpBody> {
        let id = self.ids.draw();
        let span = tracing::info_span!("request", id = %id);
        self.respond_as(request, admission, from, id, span.clone()).instrument(span).await
    }

    async fn respond_as(
        &self,
        request: Request<Incoming>,
        admission: Admission,
        from: Origin,
        id: String,
        span: tracing::Span,
    ) -> Response<HttpBody> {
        let began = Instant::now();
        let (mut head, body) = request.into_parts();
        let (body, upload) = WatchedBody::new(body);
        head.extensions.insert(RequestId(id));
        head.extensions.insert(from.client(&head.headers));
        let (context, version) = (RequestContext::of(&head), head.version);
        let expects_continue = head.headers.contains_key(header::EXPECT);
        let mut slot = None;
        let mut response = if let Admission::Refused(limit) = admission {
            self.slow_down(limit, &context)
        } else if let Some(fault) = section_fault(&head.headers) {
            gateway::refuse(&context, &fault)
        } else if let Some(check) = Health::asked(&head.method, head.uri.path()) {
            self.health(check).await
        } else {
            match self.slots.slot(from.peer.requests(&head.headers)).await {
                Ok(granted) => {
                    let body = body.in_slot(&granted);
                    slot = Some(granted);
                    self.handle(Request::from_parts(head, body.boxed_unsync()), &context).await
                }
                Err(NoSlot(limit)) => self.slow_down(limit, &context),
            }
        };
        // A response that is whole in memory needs no slot while its client takes it, only memory.
        // Nor is a slot held while the rest of an unwanted request body is read.
        let in_memory = response.extensions_mut().remove::<InMemory>().is_some();
        let mut memory = if in_memory { self.memory(&response) } else { None };
        if in_memory && memory.is_none() && (slot.is_none() || is_fault(&response)) {
            // There is no memory for the document of a refusal: its status must do.
            *response.body_mut() = empty();
            memory = self.memory(&response);
            slot.take().inspect(|slot| slot.release());
        }
        if memory.is_some() {
            slot.take().inspect(|slot| slot.release());
        }
        // Over HTTP/1 the connection can go on only if the request's body was read to its end.
        let read = match admission {
            Admission::Refused(_) => false,
            Admission::Granted if slot.is_none() => upload.read_to_end(expects_continue).await,
            Admission::Granted => {
                upload.read_to_end(expects_continue).now_or_never().unwrap_or(false)
            }
        };
        if version < Version::HTTP_2 {
            from.pace.set(in_memory);
        }
        if !read && version < Version::HTTP_2 {
            if !upload.has_ended() {
                from.unread.set();
            }
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
            trips: response.extensions_mut().remove::<RoundTrips>().unwrap_or_default(),
            upload,
            in_memory,
            held: HeldPermits { slot, _memory: memory },
        };
        let (head, body) = response.into_parts();
        Response::from_parts(head, ResponseBody::new(body, account, Flow::here()).boxed_unsync())
    }

    /// A permit for the memory of a response that is whole in memory. `None` if too many bytes are
    /// waiting for clients already: then the response keeps its request's slot until its client
    /// has taken it, and one without a slot is sent without its body.
    fn memory(&self, response: &Response<HttpBody>) -> Option<OwnedSemaphorePermit> {
        let bytes = http_body::Body::size_hint(response.body()).upper().unwrap_or(u64::MAX);
        let kibibytes = u32::try_from(1 + bytes / 1024).ok()?;
        Arc::clone(&self.in_memory).try_acquire_many_owned(kibibytes).ok()
    }

    /// The gateway's response, or a 500 if the gateway panicked.
    async fn handle(
        &self,
        request: Request<HttpBody>,
        context: &RequestContext,
    ) -> Response<HttpBody> {
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

    fn slow_down(&self, limit: &'static str, context: &RequestContext) -> Response<HttpBody> {
        self.metrics.count_rejection(limit);
        gateway::refuse(context, &Fault::new(Code::SlowDown).with_header(header::RETRY_AFTER, "1"))
    }

    async fn health(&self, check: Health) -> Response<HttpBody> {
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

    /// Whether the service is ready. It is asked at most once a second.
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

/// The headers of a request may have so many bytes together, as in S3. Longer ones are read up to
/// the listener's limit, so that their client is told why they are refused.
const SECTION_BYTES_MAX: usize = 8 << 10;

/// A request may have so many headers.
const HEADERS_MAX: usize = 100;

/// What is wrong with the headers together: each counts as a line of HTTP/1.1.
fn section_fault(headers: &HeaderMap) -> Option<Fault> {
    if headers.len() > HEADERS_MAX {
        let why = format!("Your request has more than {HEADERS_MAX} headers.");
        return Some(Fault::because(Code::RequestHeaderSectionTooLarge, why));
    }
    let line = |(name, value): (&HeaderName, &HeaderValue)| {
        name.as_str().len() + value.len() + ": \r\n".len()
    };
    let bytes: usize = headers.iter().map(line).sum();
    (bytes > SECTION_BYTES_MAX).then(|| {
        Fault::new(Code::RequestHeaderSectionTooLarge)
            .with("MaxSizeAllowed", SECTION_BYTES_MAX.to_string())
    })
}

/// A health check, on a path that no bucket can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    /// Of the process alone: an outage of a store must not restart gateways.
    Alive,
    /// Of whether requests can be served.
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

fn is_fault(response: &Response<HttpBody>) -> bool {
    response.status().is_client_error() || response.status().is_server_error()
}

fn promised(response: &Response<HttpBody>) -> Option<u64> {
    response.headers().get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn empty() -> HttpBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

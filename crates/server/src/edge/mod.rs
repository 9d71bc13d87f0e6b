//! The HTTP edge between sockets and the gateway. Of the server crate, only this module and
//! `metrics_listener` use hyper.
//!
//! The edge gives each request an id, which each response carries. It answers health checks,
//! refuses requests over a limit before it reads a body, turns a panic of the gateway into a 500,
//! and records each request in metrics and the access log. It knows nothing about S3 operations.
//! For example, a request while `requests_max` others are in flight waits in a queue, and gets 503
//! `SlowDown` if the queue has not moved after a second.

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
pub(crate) use stall::{ResponseKind, ResponseTimeouts, Stall};

use volume::RoundTrips;

use crate::metrics::Metrics;
use flow::Flow;
use hosts::Origin;
use ids::RequestIds;
use permit::Admission;
use response::{HeldPermits, RequestRecord, ResponseBody};
use slot::{NoSlot, RequestSlots};
use upload::WatchedBody;

/// The limit, in KiB, of all responses that are completely in memory and are being sent to their
/// clients. Within it, a response needs no slot, that is, its request does not count as in flight
/// any more.
const RESPONSES_IN_MEMORY_KIB_MAX: usize = 32 << 10;

/// The lifetime of a readiness result, so that frequent checks do not load the stores.
const READY_CACHED_FOR: Duration = Duration::from_secs(1);

/// The service behind the edge: the gateway, or a script in tests.
pub(crate) trait Service: Send + Sync + 'static {
    /// Returns the response to a request. May panic.
    fn handle(&self, request: Request<HttpBody>)
    -> impl Future<Output = Response<HttpBody>> + Send;

    /// Returns true if requests can be served now.
    fn ready(&self) -> impl Future<Output = bool> + Send;
}

/// The edge of one gateway.
#[derive(Debug)]
pub(crate) struct Edge<S> {
    service: S,
    metrics: Arc<Metrics>,
    ids: RequestIds,
    slots: Arc<RequestSlots>,
    /// The permits for the memory of responses that are completely in memory, one permit for each
    /// KiB.
    in_memory: Arc<Semaphore>,
    /// True after the signal to stop, when the readiness check fails and requests are still served.
    draining: AtomicBool,
    /// The last readiness result, and its time.
    ready: tokio::sync::Mutex<Option<(Instant, bool)>>,
}

impl<S: Service> Edge<S> {
    /// Returns an edge that lets at most `requests_max` requests be in flight. `random` is the
    /// start of the counter from which request ids are made.
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

    /// Makes the readiness check fail from now on, so that load balancers send no new clients here.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Returns the response to one request.
    pub(crate) async fn respond(
        &self,
        request: Request<Incoming>,
        admission: Admission,
        from: Origin,
    ) -> Response<HttpBody> {
        let id = self.ids.next();
        let span = tracing::info_span!("request", id = %id);
        self.respond_as(request, admission, from, id, span.clone()).instrument(span).await
    }

    /// Returns the response to the request `id`: refuses it, or waits until it may be in flight and
    /// has the gateway handle it. Then reads or abandons the rest of its body. `admission` is the
    /// decision about its connection.
    async fn respond_as(
        &self,
        request: Request<Incoming>,
        admission: Admission,
        from: Origin,
        id: String,
        span: tracing::Span,
    ) -> Response<HttpBody> {
        let started = Instant::now();
        let (mut head, body) = request.into_parts();
        // The watch stays here after the gateway has dropped the body.
        let (body, upload) = WatchedBody::new(body);
        head.extensions.insert(RequestId(id));
        head.extensions.insert(from.client(&head.headers));
        let (context, version) = (RequestContext::of(&head), head.version);
        let expects_continue = head.headers.contains_key(header::EXPECT);
        // In this order: refusals need neither a slot nor the body. Health checks need no slot
        // either, because a full queue must not make the gateway look dead.
        let mut slot = None;
        let mut response = if let Admission::Refused(limit) = admission {
            self.slow_down(limit, &context)
        } else if let Some(fault) = header_section_fault(&head.headers) {
            gateway::refuse(&context, &fault)
        } else if let Some(check) = Health::parse(&head.method, head.uri.path()) {
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
        // A response that is completely in memory needs no slot while its client reads it, only
        // memory. So its slot is released here, also before the rest of an unread request body is
        // drained.
        let in_memory = response.extensions_mut().remove::<InMemory>().is_some();
        let mut memory = if in_memory { self.memory_permit(&response) } else { None };
        if in_memory && memory.is_none() && (slot.is_none() || is_fault(&response)) {
            // Without memory for the document of a refusal, the client gets its status only.
            *response.body_mut() = empty();
            memory = self.memory_permit(&response);
            slot.take().inspect(|slot| slot.release());
        }
        if memory.is_some() {
            slot.take().inspect(|slot| slot.release());
        }
        // Over HTTP/1 the connection can serve another request only after the end of this one's
        // body.
        let read = match admission {
            Admission::Refused(_) => false,
            Admission::Granted if slot.is_none() => upload.read_to_end(expects_continue).await,
            // With a slot there is no wait for the client, which would delay other requests: only
            // bytes that have arrived are read.
            Admission::Granted => {
                upload.read_to_end(expects_continue).now_or_never().unwrap_or(false)
            }
        };
        if version < Version::HTTP_2 {
            from.kind.set(in_memory);
        }
        if !read && version < Version::HTTP_2 {
            if !upload.has_ended() {
                from.unread.set();
            }
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        let mut response = gateway::finish(&context, response);
        // The record goes with the body, because the request ends when the body was sent or
        // abandoned.
        let record = RequestRecord {
            metrics: Arc::clone(&self.metrics),
            span,
            started,
            status: response.status(),
            content_length: content_length(&response),
            served: response.extensions_mut().remove::<Served>().unwrap_or_default(),
            trips: response.extensions_mut().remove::<RoundTrips>().unwrap_or_default(),
            upload,
            in_memory,
            held: HeldPermits { slot, _memory: memory },
        };
        let (head, body) = response.into_parts();
        Response::from_parts(head, ResponseBody::new(body, record, Flow::current()).boxed_unsync())
    }

    /// Returns the permit for the memory of a response that is completely in memory. Returns `None`
    /// if the limit is reached: then the response keeps its request's slot until the client has
    /// read it, and a response without a slot is sent without its body.
    fn memory_permit(&self, response: &Response<HttpBody>) -> Option<OwnedSemaphorePermit> {
        let bytes = http_body::Body::size_hint(response.body()).upper().unwrap_or(u64::MAX);
        let kibibytes = u32::try_from(1 + bytes / 1024).ok()?;
        Arc::clone(&self.in_memory).try_acquire_many_owned(kibibytes).ok()
    }

    /// Returns the gateway's response, or a 500 if the gateway panicked.
    async fn handle(
        &self,
        request: Request<HttpBody>,
        context: &RequestContext,
    ) -> Response<HttpBody> {
        // Unwind safe, because the state of the request is dropped with the panic, and shared locks
        // tolerate poisoning.
        let handled = AssertUnwindSafe(self.service.handle(request)).catch_unwind().await;
        handled.unwrap_or_else(|panic| {
            self.metrics.panics.inc();
            let message = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            tracing::error!(message, "a request panicked; its client gets a 500");
            gateway::refuse(context, &Code::InternalError.into())
        })
    }

    /// Returns a refusal with 503 `SlowDown`, and counts it in metrics under `limit`, the name of
    /// the limit that was reached.
    fn slow_down(&self, limit: &'static str, context: &RequestContext) -> Response<HttpBody> {
        self.metrics.count_rejection(limit);
        gateway::refuse(context, &Fault::new(Code::SlowDown).with_header(header::RETRY_AFTER, "1"))
    }

    /// Returns the response to a health check.
    async fn health(&self, check: Health) -> Response<HttpBody> {
        let passes = match check {
            Health::Alive => true,
            Health::Ready => !self.draining.load(Ordering::Relaxed) && self.ready().await,
        };
        let status = if passes { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let mut response = Response::new(empty());
        *response.status_mut() = status;
        response.extensions_mut().insert(Served { operation: "Health", ..Served::default() });
        response
    }

    /// Returns true if the service is ready. The result is cached for [`READY_CACHED_FOR`].
    async fn ready(&self) -> bool {
        // The lock is held during the check, so that concurrent checks wait for one result.
        let mut known = self.ready.lock().await;
        match *known {
            Some((at, ready)) if at.elapsed() < READY_CACHED_FOR => ready,
            _ => {
                let ready = self.service.ready().await;
                *known = Some((Instant::now(), ready));
                ready
            }
        }
    }
}

/// The limit of bytes of all headers of a request, as in S3. The listener reads more, so that a
/// client over the limit gets an error document.
const SECTION_BYTES_MAX: usize = 8 << 10;

/// The limit of headers of a request.
const HEADERS_MAX: usize = 100;

/// Returns the error if the headers together are over a limit. Each header counts as a line of
/// HTTP/1.1.
fn header_section_fault(headers: &HeaderMap) -> Option<Fault> {
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
    /// The process runs. An outage of a store does not fail this check, because it must not restart
    /// gateways.
    Alive,
    /// Requests can be served.
    Ready,
}

impl Health {
    /// Returns the check that a request asks for, if it does.
    fn parse(method: &Method, path: &str) -> Option<Health> {
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

/// Returns true if a response is an error.
fn is_fault(response: &Response<HttpBody>) -> bool {
    response.status().is_client_error() || response.status().is_server_error()
}

/// Returns the `Content-Length` of a response.
fn content_length(response: &Response<HttpBody>) -> Option<u64> {
    response.headers().get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Returns an empty body.
fn empty() -> HttpBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

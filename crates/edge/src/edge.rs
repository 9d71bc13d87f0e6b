//! The path of one request through the edge: admission, slot, service, response.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use tokio::time::Instant;
use tracing::Instrument;

use crate::answers::AnswerMemory;
use crate::flow::Flow;
use crate::hosts::Origin;
use crate::ids::RequestIds;
use crate::metrics::EdgeMetrics;
use crate::permit::Admission;
use crate::response::{HeldPermits, RequestRecord, ResponseBody};
use crate::service::{AccessFacts, Answer, EdgeBody, Refusal, Service};
use crate::slot::{GivableSlot, NoSlot, RequestSlots};
use crate::upload::WatchedBody;

/// The lifetime of a readiness result, so that frequent checks do not load the stores.
pub(crate) const READY_CACHED_FOR: Duration = Duration::from_secs(1);

/// The edge of one service.
#[derive(Debug)]
pub struct Edge<S> {
    service: S,
    metrics: Arc<EdgeMetrics>,
    ids: RequestIds,
    slots: Arc<RequestSlots>,
    answers: AnswerMemory,
    /// True after the signal to stop, when the readiness check fails and requests are still served.
    draining: AtomicBool,
    /// The last readiness result, and its time.
    ready: tokio::sync::Mutex<Option<(Instant, bool)>>,
}

impl<S: Service> Edge<S> {
    /// Returns an edge that lets at most `requests_max` requests be in flight. `random` is the
    /// start of the counter from which request ids are made.
    pub fn new(service: S, metrics: Arc<EdgeMetrics>, requests_max: usize, random: u64) -> Edge<S> {
        Edge {
            service,
            metrics,
            ids: RequestIds::starting_at(random),
            slots: RequestSlots::new(requests_max),
            answers: AnswerMemory::new(),
            draining: AtomicBool::new(false),
            ready: tokio::sync::Mutex::new(None),
        }
    }

    /// Returns the number of requests that wait until they may be in flight. Requests that wait for
    /// the limit of their host are not counted.
    pub fn waiting(&self) -> u64 {
        self.slots.waiting()
    }

    /// Makes the readiness check fail from now on, so that load balancers send no new clients here.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Returns true after [`Edge::drain`]. Other listeners of the process fail their readiness
    /// checks then, too.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Returns the response to one request.
    pub(crate) async fn respond(
        &self,
        request: Request<Incoming>,
        admission: Admission,
        from: Origin,
    ) -> Response<EdgeBody> {
        let id = self.ids.next();
        let span = tracing::info_span!("request", id = %id);
        self.respond_as(request, admission, from, id, span.clone()).instrument(span).await
    }

    /// Returns the response to the request `id`: refuses it, or waits until it may be in flight and
    /// has the service handle it. Then reads or abandons the rest of its body. `admission` is the
    /// decision about its connection.
    async fn respond_as(
        &self,
        request: Request<Incoming>,
        admission: Admission,
        from: Origin,
        id: String,
        span: tracing::Span,
    ) -> Response<EdgeBody> {
        let started = Instant::now();
        let (mut head, body) = request.into_parts();
        // The watch stays here after the service has dropped the body.
        let (body, upload) = WatchedBody::new(body);
        let (caller, version) = (from.caller(&head.headers), head.version);
        let host = from.peer.requests(&head.headers);
        let context = self.service.begin(&mut head, id, caller);
        let expects_continue = head.headers.contains_key(header::EXPECT);
        // hyper sends no `100 Continue` for an empty body. botocore then takes the answer for that
        // of its next request on the connection, which has no entity tag. So the connection ends.
        let waits_in_vain = expects_continue && upload.has_ended();
        // In this order: refusals need neither a slot nor the body. Health checks need no slot
        // either, because a full queue must not make the process look dead.
        let mut slot = None;
        let answer = if let Admission::Refused(limit) = admission {
            self.busy(limit, &context)
        } else if let Some(refusal) = header_section_refusal(&head.headers) {
            self.service.refuse(&context, refusal)
        } else if let Some(check) = Health::parse(&head.method, head.uri.path()) {
            self.health(check).await
        } else {
            match self.slots.slot(from.peer.requests(&head.headers)).await {
                Ok(granted) => {
                    let body = body.in_slot(&granted, S::slot_lost);
                    head.extensions.insert(GivableSlot::new(&granted));
                    slot = Some(granted);
                    self.handle(Request::from_parts(head, body.boxed_unsync()), &context).await
                }
                Err(NoSlot(limit)) => self.busy(limit, &context),
            }
        };
        // A response that is completely in memory needs no slot while its client reads it, only
        // memory. So its slot is released here, also before the rest of an unread request body is
        // drained.
        let Answer { mut response, in_memory, facts } = answer;
        let mut memory = if in_memory { self.answers.take(&host, &response) } else { None };
        if in_memory && memory.is_none() && (slot.is_none() || is_fault(&response)) {
            // Without memory for the document of a refusal, the client gets its status only.
            *response.body_mut() = empty();
            memory = self.answers.take(&host, &response);
            slot.take().inspect(|slot| slot.release());
        }
        if memory.is_some() {
            slot.take().inspect(|slot| slot.release());
        }
        // Over HTTP/1 the connection can serve another request only after the end of this one's
        // body.
        let read = match admission {
            Admission::Refused(_) => false,
            Admission::Granted if waits_in_vain => false,
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
        let response = self.service.finish(&context, response);
        // The record goes with the body, because the request ends when the body was sent or
        // abandoned.
        let record = RequestRecord {
            metrics: Arc::clone(&self.metrics),
            span,
            started,
            status: response.status(),
            content_length: content_length(&response),
            facts,
            upload,
            in_memory,
            held: HeldPermits { slot, _memory: memory },
        };
        let (head, body) = response.into_parts();
        Response::from_parts(head, ResponseBody::new(body, record, Flow::current()).boxed_unsync())
    }

    /// Returns the service's answer, or a refusal if the service panicked.
    async fn handle(&self, request: Request<EdgeBody>, context: &S::Context) -> Answer {
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
            self.service.refuse(context, Refusal::Panicked)
        })
    }

    /// Returns the refusal of a request over a limit, and counts it in metrics under `limit`, the
    /// name of the limit.
    fn busy(&self, limit: &'static str, context: &S::Context) -> Answer {
        self.metrics.count_rejection(limit);
        self.service.refuse(context, Refusal::Busy)
    }

    /// Returns the answer to a health check.
    async fn health(&self, check: Health) -> Answer {
        let passes = match check {
            Health::Alive => true,
            Health::Ready => !self.draining.load(Ordering::Relaxed) && self.ready().await,
        };
        let status = if passes { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let mut response = Response::new(empty());
        *response.status_mut() = status;
        let facts = AccessFacts { operation: "Health", ..AccessFacts::default() };
        Answer { response, in_memory: false, facts }
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

/// The limit of bytes of all headers of a request, as in S3. The listener reads more, so that the
/// service can refuse a request over the limit.
const SECTION_BYTES_MAX: usize = 8 << 10;

/// The limit of headers of a request.
const HEADERS_MAX: usize = 100;

/// Returns the refusal if the headers together are over a limit. Each header counts as a line of
/// HTTP/1.1.
fn header_section_refusal(headers: &HeaderMap) -> Option<Refusal> {
    if headers.len() > HEADERS_MAX {
        return Some(Refusal::TooManyHeaders(HEADERS_MAX));
    }
    let line = |(name, value): (&HeaderName, &HeaderValue)| {
        name.as_str().len() + value.len() + ": \r\n".len()
    };
    let bytes: usize = headers.iter().map(line).sum();
    (bytes > SECTION_BYTES_MAX).then_some(Refusal::TooLongHeaders(SECTION_BYTES_MAX))
}

/// A health check, on a path that no bucket can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    /// The process runs. An outage of a store does not fail this check, because it must not restart
    /// processes.
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
fn is_fault(response: &Response<EdgeBody>) -> bool {
    response.status().is_client_error() || response.status().is_server_error()
}

/// Returns the `Content-Length` of a response.
fn content_length(response: &Response<EdgeBody>) -> Option<u64> {
    response.headers().get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Returns an empty body.
fn empty() -> EdgeBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

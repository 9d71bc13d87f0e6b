//! The contract between the edge and the service behind it.

use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, StatusCode};

/// The error of a body that is being streamed.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request or of a response.
pub type EdgeBody = http_body_util::combinators::UnsyncBoxBody<Bytes, BodyError>;

/// The service behind the edge: a view of a volume over HTTP, or a script in tests.
pub trait Service: Send + Sync + 'static {
    /// The facts about a request that the service needs to refuse it or to finish its response.
    type Context: Send + Sync;

    /// Returns the context of a request. The edge calls this first for each request except those
    /// that hyper refuses. `id` is the request's id, and `caller` its origin; the service may add
    /// both to the extensions of the head, which [`Service::handle`] receives.
    fn begin(&self, head: &mut Parts, id: String, caller: Caller) -> Self::Context;

    /// Returns the answer to a request. May panic.
    fn handle(&self, request: Request<EdgeBody>) -> impl Future<Output = Answer> + Send;

    /// Returns the answer to a request that is not handled.
    fn refuse(&self, context: &Self::Context, refusal: Refusal) -> Answer;

    /// Adds the headers that all responses have, also refusals and health checks. Each response
    /// passes here once, just before it is sent.
    fn finish(&self, context: &Self::Context, response: Response<EdgeBody>) -> Response<EdgeBody>;

    /// Returns the error of a request's body whose client stalled and continued, if the request
    /// then got no slot, that is, no permission to be in flight.
    fn slot_lost() -> BodyError;

    /// Returns true if requests can be served now.
    fn ready(&self) -> impl Future<Output = bool> + Send;
}

/// The origin of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The client's address, behind any trusted proxies.
    pub address: IpAddr,
    /// The TLS version between client and server: `1.2` or `1.3`; `None` without TLS. Behind a
    /// trusted proxy, the proxy's header decides, and the version is unknown: `Some(None)`.
    pub tls: Option<Option<&'static str>>,
    /// The cipher suite of the connection to the client; `None` without TLS and behind a proxy.
    pub cipher: Option<&'static str>,
    /// True if the client has connected from this machine itself, and not by a trusted proxy.
    pub is_local: bool,
}

/// The answer of a service to one request.
#[derive(Debug)]
pub struct Answer {
    /// The response.
    pub response: Response<EdgeBody>,
    /// True if the whole response is in memory. The edge then lets other requests take the place of
    /// this one, because only its client can delay it.
    pub in_memory: bool,
    /// The facts for metrics and the access log.
    pub facts: AccessFacts,
}

/// The facts about a request that only its service knows, for metrics and the access log.
#[derive(Debug, Default)]
pub struct AccessFacts {
    /// The name of the operation, such as `PutObject`.
    pub operation: &'static str,
    /// The bucket that the request names. It may not exist.
    pub bucket: Option<String>,
    /// The error code, if the response is an error.
    pub code: Option<&'static str>,
    /// Reads of the metadata store before the response began.
    pub reads: u64,
    /// Commits to the metadata store before the response began.
    pub commits: u64,
    /// Called once with the end of the request; `None` if the service does not need it.
    pub on_end: Option<OnEnd>,
}

/// The end of a request, as its connection measures it.
#[derive(Clone, Copy, Debug)]
pub struct RequestEnd {
    /// The status of the response.
    pub status: StatusCode,
    /// Bytes of the request's body that were received.
    pub bytes_in: u64,
    /// Bytes of the response's body that were sent.
    pub bytes_out: u64,
    /// The time from the end of the request's head to the end of the response.
    pub total: Duration,
    /// The time from the last byte of the request to the first byte of the response's body, or to
    /// the end of a response without a body.
    pub turn_around: Duration,
    /// True if the whole response was sent.
    pub whole: bool,
}

/// A function of the service that is called when its response has been sent or abandoned, for
/// example to write its access log. It must not block, because it runs on the connection's thread.
pub struct OnEnd(Box<dyn FnOnce(&RequestEnd) + Send>);

impl OnEnd {
    /// Returns this function in the form that [`AccessFacts`] takes.
    pub fn new(function: impl FnOnce(&RequestEnd) + Send + 'static) -> OnEnd {
        OnEnd(Box::new(function))
    }

    /// Calls the function.
    pub(crate) fn call(self, end: &RequestEnd) {
        (self.0)(end);
    }
}

impl fmt::Debug for OnEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnEnd")
    }
}

/// The reason for which the edge refuses a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A limit of connections or requests was reached. The client may try again after a second.
    Busy,
    /// The request has more headers than this maximum.
    TooManyHeaders(usize),
    /// The headers together have more bytes than this maximum.
    TooLongHeaders(usize),
    /// The service panicked while it handled the request.
    Panicked,
}

//! Types of the requests that come from the edge, the HTTP layer in front of the gateway, and of
//! the responses that go back to it.
//!
//! The edge and the gateway pass facts to each other as HTTP extensions. For example, the edge sets
//! a [`RequestId`] and an `identity::ClientAddress`, and the gateway sets [`Served`] for the access
//! log.

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Uri};
use http_body_util::{BodyExt, Empty, Full};

/// The error of a body that is being streamed.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request or of a response.
pub type HttpBody = http_body_util::combinators::UnsyncBoxBody<Bytes, BoxError>;

/// Returns an HTTP body of these bytes, which are in memory.
pub(crate) fn full_body(bytes: Bytes) -> HttpBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// Returns an empty body.
pub(crate) fn empty_body() -> HttpBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// An extension of responses that are completely in memory. The edge then lets other requests take
/// the place of this one, because only its client can delay it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InMemory;

/// The id by which operators find a request. The edge sets this extension on each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(pub String);

/// The facts about a request that [`crate::refuse`] and [`crate::finish()`] need. They are known
/// before anything can fail.
#[derive(Clone, Debug)]
pub struct RequestContext {
    /// The request id.
    pub id: RequestId,
    /// The HTTP method.
    pub method: Method,
    /// The URI of the request as it arrived, before any decoding.
    pub uri: Uri,
}

impl RequestContext {
    /// Returns the context of a request from its head. The id is `-` if the edge has set none.
    pub fn of(head: &Parts) -> RequestContext {
        let id = head.extensions.get().cloned().unwrap_or(RequestId("-".into()));
        RequestContext { id, method: head.method.clone(), uri: head.uri.clone() }
    }
}

/// The facts about a request for the access log and metrics: an extension of each response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// The name of the operation, such as `PutObject`.
    pub operation: &'static str,
    /// The bucket that the request names. It may not exist.
    pub bucket: Option<String>,
    /// The number of content bytes that arrived, without chunk headers and trailers.
    pub bytes_in: u64,
    /// The error code, if the response is an error.
    pub code: Option<&'static str>,
}

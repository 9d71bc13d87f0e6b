//! The types in which requests come from the edge and responses go back to it.

use std::net::IpAddr;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Uri};
use http_body_util::{BodyExt, Empty, Full};

/// What went wrong while a body streamed.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request or of a response.
pub type HttpBody = http_body_util::combinators::UnsyncBoxBody<Bytes, BoxError>;

/// A body that is in memory already.
pub(crate) fn full_body(bytes: Bytes) -> HttpBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// A body without any bytes.
pub(crate) fn empty_body() -> HttpBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// An extension of responses that are whole in memory, and so wait for nothing but their client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InMemory;

/// The id by which operators find a request: an extension of every request, set by the edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(pub String);

/// Where a request comes from: an extension of every request, set by the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress {
    /// The client's address, behind any trusted proxies.
    pub address: IpAddr,
    /// Which TLS the client speaks with us: `1.2`, `1.3`. If it speaks with a trusted proxy, what
    /// that proxy says counts, and the number is not known.
    pub tls: Option<Option<&'static str>>,
}

/// What [`crate::refuse`] and [`crate::finish()`] need to know of a request. It is known before
/// anything can fail.
#[derive(Clone, Debug)]
pub struct RequestContext {
    /// Its id.
    pub id: RequestId,
    /// Its method.
    pub method: Method,
    /// Its URI, as it arrived.
    pub uri: Uri,
}

impl RequestContext {
    /// The context of a request with this head.
    pub fn of(head: &Parts) -> RequestContext {
        let id = head.extensions.get().cloned().unwrap_or(RequestId("-".into()));
        RequestContext { id, method: head.method.clone(), uri: head.uri.clone() }
    }
}

/// What a request turned out to be: an extension of every response, for the access log and metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// The operation's name, such as `PutObject`.
    pub operation: &'static str,
    /// The bucket that was named, whether it exists or not.
    pub bucket: Option<String>,
    /// Content bytes that arrived, without chunk headers and trailers.
    pub bytes_in: u64,
    /// The error code, if the response is an error.
    pub code: Option<&'static str>,
}

//! Types of the requests that come from the edge, the HTTP layer in front of the gateway, and of
//! the responses that go back to it.
//!
//! The edge and the gateway pass facts to each other as HTTP extensions. For example, the edge sets
//! a [`RequestId`] and an `identity::ClientAddress`, and the gateway sets [`Served`] for the access
//! log.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Uri};
use http_body_util::{BodyExt, Empty, Full};
use identity::{Authenticated, Identity};
use record::AccountId;
use s3::auth::AuthKind;
use s3::{Operation, S3Resource};

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
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// The name of the operation, such as `PutObject`.
    pub operation: &'static str,
    /// The kind of resource in S3's server access log, such as `OBJECT`.
    pub log_resource: &'static str,
    /// The bucket that the request names. It may not exist.
    pub bucket: Option<String>,
    /// The account that owns the bucket.
    pub bucket_owner: Option<AccountId>,
    /// The object key that the request names.
    pub key: Option<String>,
    /// The version that the operation used; for a failed request, the one that the request names.
    pub version_id: Option<String>,
    /// The authenticated sender; `None` if the request is anonymous or its authentication failed.
    pub requester: Option<Arc<Identity>>,
    /// The kind of the verified credentials; `None` if the authentication failed.
    pub auth: Option<AuthKind>,
    /// The number of content bytes that arrived, without chunk headers and trailers.
    pub bytes_in: u64,
    /// The error code, if the response is an error.
    pub code: Option<&'static str>,
}

impl Served {
    /// Sets the operation.
    pub(crate) fn set_operation(&mut self, operation: Operation) {
        self.operation = operation.name();
        self.log_resource = operation.log_resource();
    }

    /// Sets the bucket and the key.
    pub(crate) fn set_resource(&mut self, resource: &S3Resource) {
        self.bucket = resource.bucket().map(ToString::to_string);
        self.key = resource.key().map(ToString::to_string);
    }

    /// Sets the sender and its credentials.
    pub(crate) fn set_sender(&mut self, authenticated: &Authenticated) {
        self.requester.clone_from(&authenticated.identity);
        self.auth = Some(authenticated.verified.kind());
    }
}

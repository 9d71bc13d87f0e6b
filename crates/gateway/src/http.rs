//! Types of the requests that come from the edge, the HTTP layer in front of the gateway, and of
//! the responses that go back to it.
//!
//! The edge and the gateway pass facts to each other as HTTP extensions. For example, the edge sets
//! a [`RequestId`] and an `identity::ClientAddress`, and the gateway sets [`Served`] for the access
//! log.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Uri};
use http_body_util::{BodyExt, Empty, Full};
use identity::{Authenticated, Identity};
use record::{AccountId, Ino};
use rules::BucketRules;
use s3::auth::AuthKind;
use s3::bucket_logging::LoggingEnabled;
use s3::request::Deletion;
use s3::response::DeleteObjectsOutput;
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

/// The inode number of the bucket that a view of this process works on. A request with this
/// extension fails with `NoSuchBucket` if its bucket is another one now, so work of several
/// requests never reaches a new bucket of the same name. No part of a network request becomes this
/// extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedBucket(pub Ino);

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
    /// The destination of the bucket's access log; `None` if it is not delivered.
    pub logging: Option<Arc<LoggingEnabled>>,
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
    /// The keys of a `DeleteObjects`; `None` for other operations.
    pub deleted: Option<Arc<DeletedKeys>>,
}

/// The keys that a `DeleteObjects` names, and their results so far.
#[derive(Debug, Default)]
pub struct DeletedKeys(Mutex<Vec<DeletedKey>>);

/// A key of a `DeleteObjects`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedKey {
    /// The key.
    pub key: String,
    /// The version that was deleted, or the marker that was created, or that the client named.
    pub version_id: Option<String>,
    /// The HTTP status that a `DELETE` of this key would have; 0 while there is no result.
    pub status: u16,
    /// The error code; `None` for a success.
    pub code: Option<&'static str>,
}

impl DeletedKeys {
    fn lock(&self) -> MutexGuard<'_, Vec<DeletedKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the keys of the request. None of them has a result.
    pub(crate) fn begin(&self, deletions: &[Deletion]) {
        let begun = |deletion: &Deletion| DeletedKey {
            key: deletion.key.as_str().to_owned(),
            version_id: deletion.version.as_ref().map(|version| version.as_str().to_owned()),
            status: 0,
            code: None,
        };
        *self.lock() = deletions.iter().map(begun).collect();
    }

    /// Sets the results: those of `output`, and success for all other keys.
    pub(crate) fn end(&self, output: &DeleteObjectsOutput) {
        let mut deleted = self.lock();
        for of_key in &mut *deleted {
            let same = |key: &str, version: Option<&String>| {
                of_key.key == key && of_key.version_id.as_ref() == version
            };
            let failed = output.errors.iter().find(|e| same(&e.key, e.version.as_ref()));
            of_key.status = failed.map_or(204, |error| error.fault.status().as_u16());
            of_key.code = failed.map(|error| error.fault.code.as_str());
        }
    }

    /// Returns the keys with their results so far.
    pub fn take(&self) -> Vec<DeletedKey> {
        std::mem::take(&mut self.lock())
    }
}

/// An extension of a request: it gets the facts of a request whose client disconnects before the
/// response, so that the access log has the request, too.
#[derive(Clone)]
pub struct Abandoned(Arc<dyn Fn(Served) + Send + Sync>);

impl Abandoned {
    /// Returns the extension that calls this function. The function must not block.
    pub fn new(function: impl Fn(Served) + Send + Sync + 'static) -> Abandoned {
        Abandoned(Arc::new(function))
    }
}

impl fmt::Debug for Abandoned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Abandoned")
    }
}

/// The facts about a request that is being handled. If they are dropped before the response is
/// made, they go to the [`Abandoned`] of the request.
#[derive(Debug)]
pub(crate) struct Serving {
    served: Served,
    abandoned: Option<Abandoned>,
}

impl Serving {
    pub(crate) fn new(abandoned: Option<Abandoned>) -> Serving {
        Serving { served: Served::default(), abandoned }
    }

    pub(crate) fn facts(&mut self) -> &mut Served {
        &mut self.served
    }

    /// Returns the facts for the response.
    pub(crate) fn finished(mut self) -> Served {
        self.abandoned = None;
        std::mem::take(&mut self.served)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(Abandoned(function)) = self.abandoned.take() {
            function(std::mem::take(&mut self.served));
        }
    }
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

    /// Sets the owner of the bucket, and the destination of its access log.
    pub(crate) fn set_rules(&mut self, rules: &BucketRules) {
        self.bucket_owner = Some(rules.settings.owner);
        self.logging.clone_from(&rules.logging);
    }

    /// Sets the sender and its credentials.
    pub(crate) fn set_sender(&mut self, authenticated: &Authenticated) {
        self.requester.clone_from(&authenticated.identity);
        self.auth = Some(authenticated.verified.kind());
    }
}

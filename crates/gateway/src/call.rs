//! One request, once it is known who sent it and that they may.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use content::ByteBudget;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Full};
use s3::operation::Permission;
use s3::request::{Arguments, Fields, Query};
use s3::{BucketName, Code, Fault, ObjectKey, Operation, Target};
use time::OffsetDateTime;
use volume::{FileOwner, Volume};

use crate::access::Identity;
use crate::http::{Body, InMemory};
use crate::translate;
use crate::{Gateway, Settings};

/// What an operation knows of its request.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) gateway: &'a Gateway,
    pub(crate) operation: Operation,
    pub(crate) target: &'a Target,
    pub(crate) query: &'a Query,
    pub(crate) version: http::Version,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) hoisted: &'a [(String, String)],
    pub(crate) verified: &'a s3::auth::Verified,
    pub(crate) identity: Option<Arc<Identity>>,
    /// Content bytes that arrived.
    pub(crate) bytes_in: &'a AtomicU64,
}

impl<'a> Call<'a> {
    /// Counts content that arrived.
    pub(crate) fn count_in(&self, bytes: u64) {
        self.bytes_in.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn volume(&self) -> &'a Arc<Volume> {
        &self.gateway.volume
    }

    pub(crate) fn sending(&self) -> &'a Arc<crate::sending::Sending> {
        &self.gateway.sending
    }

    pub(crate) fn document_budget(&self) -> &'a ByteBudget {
        &self.gateway.documents
    }

    pub(crate) fn settings(&self) -> &'a Settings {
        &self.gateway.settings
    }

    /// Refuses whoever lacks one of these permissions, in operations that learn only underway what
    /// they take.
    pub(crate) fn demand(&self, permissions: &[Permission]) -> Result<(), Fault> {
        let may = |permission| self.gateway.access.authorise(self.identity.as_deref(), permission);
        if permissions.iter().all(may) { Ok(()) } else { Err(Code::AccessDenied.into()) }
    }

    /// The bucket. Operations are routed by their target, so that it is there where it must be.
    pub(crate) fn bucket(&self) -> Result<&'a BucketName, Fault> {
        self.target.bucket().ok_or(Code::InvalidRequest.into())
    }

    /// The bucket and the key.
    pub(crate) fn object(&self) -> Result<(&'a BucketName, &'a ObjectKey), Fault> {
        match self.target {
            Target::Object(bucket, key) => Ok((bucket, key)),
            Target::Bucket(_) | Target::Service => Err(Code::InvalidRequest.into()),
        }
    }

    pub(crate) fn fields(&self) -> Fields<'a> {
        Fields::new(self.headers, self.hoisted)
    }

    pub(crate) fn arguments(&self) -> Arguments<'a> {
        let anonymous = self.identity.is_none();
        Arguments { query: self.query, fields: self.fields(), anonymous }
    }

    /// Whom what this request makes belongs to.
    pub(crate) fn owner(&self) -> FileOwner {
        match &self.identity {
            Some(identity) => FileOwner {
                access_key: identity.access_key.clone(),
                uid: identity.uid,
                gid: identity.gid,
            },
            None => FileOwner { access_key: String::new(), uid: NOBODY, gid: NOBODY },
        }
    }
}

/// Refuses a version that cannot exist: no bucket keeps more than the current one.
pub(crate) fn only_current(version: Option<&s3::VersionId>) -> Result<(), Fault> {
    match version {
        None | Some(s3::VersionId::Null) => Ok(()),
        Some(s3::VersionId::Other(_)) => Err(Code::NoSuchVersion.into()),
    }
}

/// The user and group of what nobody in particular makes.
const NOBODY: u32 = 65_534;

/// An answer under construction.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
    /// Whether the body is there already.
    in_memory: bool,
}

impl Answer {
    /// An answer without a body. It says so where a body could stand, because HTTP/1.1 closes the
    /// connection after an answer to HEAD that says nothing of its length.
    pub(crate) fn empty(status: StatusCode) -> Answer {
        let headers = HeaderMap::new();
        let mut answer = Answer { status, headers, body: empty(), in_memory: true };
        if !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            answer.length(0);
        }
        answer
    }

    /// A document.
    pub(crate) fn xml(status: StatusCode, document: String) -> Answer {
        let length = document.len() as u64;
        let mut answer = Answer::empty(status);
        answer.send(document.into());
        answer.set(http::header::CONTENT_TYPE, "application/xml");
        answer.length(length);
        answer
    }

    /// Answers with a body that is in memory.
    pub(crate) fn send(&mut self, bytes: Bytes) {
        (self.body, self.in_memory) = (full(bytes), true);
    }

    /// Answers with a body that is read while it leaves.
    pub(crate) fn stream(&mut self, body: Body) {
        (self.body, self.in_memory) = (body, false);
    }

    /// Sets a header. What cannot stand in one is left out: it came from a file, not from S3.
    pub(crate) fn set(&mut self, name: HeaderName, value: &str) {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        } else if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
            self.headers.insert(name, value);
        }
    }

    /// Sets a header whose name is only known now.
    pub(crate) fn set_named(&mut self, name: &str, value: &str) {
        if let Ok(name) = HeaderName::try_from(name) {
            self.set(name, value);
        }
    }

    /// Says how long the body is.
    pub(crate) fn length(&mut self, bytes: u64) {
        self.headers.insert(http::header::CONTENT_LENGTH, HeaderValue::from(bytes));
    }

    /// The entity tag, with its quotes.
    pub(crate) fn etag(&mut self, tag: &record::Tag) {
        self.set(http::header::ETAG, &format!("\"{}\"", translate::etag(tag)));
    }

    /// The checksum of an object, and how it was made.
    pub(crate) fn checksum(&mut self, sum: &record::Sum, parts: u32) {
        let checksum = translate::checksum(sum, parts);
        self.set_named(checksum.algorithm.header(), &checksum.value);
        if let Some(kind) = checksum.kind {
            self.set_named("x-amz-checksum-type", kind.as_str());
        }
    }

    /// When the object last changed.
    pub(crate) fn last_modified(&mut self, at: OffsetDateTime) {
        self.set(http::header::LAST_MODIFIED, &s3::conditions::format_http_date(at));
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        if self.in_memory {
            response.extensions_mut().insert(InMemory);
        }
        response
    }
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// No bytes.
pub(crate) fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

//! A response to an S3 request under construction, with setters for the headers of S3.
//!
//! For example, a response with a document from [`S3Response::xml`] has its length and its content
//! type. Only bodies in memory are marked with [`InMemory`].

use std::fmt::Write as _;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use s3::encryption::CustomerKey;
use time::OffsetDateTime;
use volume::VersionRef;

use crate::encryption;
use crate::http::{HttpBody, InMemory, empty_body, full_body};
use crate::translate;

/// The number of headers for which a response reserves memory. Most responses have fewer, so the
/// map of headers seldom grows.
const HEADERS_EXPECTED: usize = 12;

/// The usual length of an entity tag in quotes.
const ETAG_BYTES: usize = 34;

/// A response to an S3 request, under construction.
#[derive(Debug)]
pub(crate) struct S3Response {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: HttpBody,
    /// True if the whole body of the response is in memory, so that only the client can delay it.
    in_memory: bool,
}

impl S3Response {
    /// Returns a response without a body. If the status allows a body, it gets a length of 0,
    /// because HTTP/1.1 closes the connection after a response to HEAD without a length.
    pub(crate) fn empty(status: StatusCode) -> S3Response {
        let headers = HeaderMap::with_capacity(HEADERS_EXPECTED);
        let mut response = S3Response { status, headers, body: empty_body(), in_memory: true };
        if !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            let none = HeaderValue::from_static("0");
            response.headers.insert(http::header::CONTENT_LENGTH, none);
        }
        response
    }

    /// Returns a response with an XML document.
    pub(crate) fn xml(status: StatusCode, document: String) -> S3Response {
        let length = document.len() as u64;
        let mut response = S3Response::empty(status);
        response.send(document.into());
        response.set_static(http::header::CONTENT_TYPE, "application/xml");
        response.length(length);
        response
    }

    /// Returns a response with a document of another type.
    pub(crate) fn bytes(status: StatusCode, document: Bytes) -> S3Response {
        let length = document.len() as u64;
        let mut response = S3Response::empty(status);
        response.send(document);
        response.length(length);
        response
    }

    /// Sets a body that is in memory.
    pub(crate) fn send(&mut self, bytes: Bytes) {
        (self.body, self.in_memory) = (full_body(bytes), true);
    }

    /// Sets a body that is read while the response is sent.
    pub(crate) fn stream(&mut self, body: HttpBody) {
        (self.body, self.in_memory) = (body, false);
    }

    /// Sets a header. Skips a value that HTTP cannot represent; it was not stored through S3.
    pub(crate) fn set(&mut self, name: HeaderName, value: &str) {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        } else if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
            self.headers.insert(name, value);
        }
    }

    /// As `set`, for a value that needs no copy.
    pub(crate) fn set_owned(&mut self, name: HeaderName, value: String) {
        if let Ok(value) = HeaderValue::try_from(value) {
            self.headers.insert(name, value);
        }
    }

    /// Sets a header whose value is a constant of visible ASCII characters.
    pub(crate) fn set_static(&mut self, name: HeaderName, value: &'static str) {
        self.headers.insert(name, HeaderValue::from_static(value));
    }

    /// Sets a header whose name is known only at run time.
    pub(crate) fn set_named(&mut self, name: &str, value: &str) {
        if let Ok(name) = HeaderName::try_from(name) {
            self.set(name, value);
        }
    }

    /// Sets the length of the body.
    pub(crate) fn length(&mut self, bytes: u64) {
        self.headers.insert(http::header::CONTENT_LENGTH, HeaderValue::from(bytes));
    }

    /// Sets the entity tag, with its quotes.
    pub(crate) fn etag(&mut self, tag: &record::Tag) {
        let mut text = String::with_capacity(ETAG_BYTES);
        // Writing to a string does not fail.
        let _ = write!(text, "\"{tag}\"");
        self.set_owned(http::header::ETAG, text);
    }

    /// Sets the version id of an object, if its bucket has versions.
    pub(crate) fn version(&mut self, version: Option<VersionRef>) {
        if let Some(version) = version {
            self.set_named("x-amz-version-id", &translate::version_text(version));
        }
    }

    /// Sets the checksum of an object and its type: of the full object, or composed from those of
    /// its parts.
    pub(crate) fn checksum(&mut self, sum: &record::Sum, parts: u32) {
        let checksum = translate::checksum(sum, parts);
        self.set_named(checksum.algorithm.header(), &checksum.value);
        if let Some(kind) = checksum.kind {
            self.set_named("x-amz-checksum-type", kind.as_str());
        }
    }

    /// Sets the headers of the object's encryption, if it has a mode. `key` is the client's key of
    /// the request, if it has one.
    pub(crate) fn encryption(
        &mut self,
        mode: Option<&record::Encryption>,
        key: Option<&CustomerKey>,
    ) {
        let md5 = key.map(CustomerKey::md5_base64);
        if let Some(applied) = mode.and_then(|mode| encryption::applied(mode, md5.as_deref())) {
            for (name, value) in applied.headers() {
                self.set_named(name, value);
            }
        }
    }

    /// Sets the time of the object's last change.
    pub(crate) fn last_modified(&mut self, at: OffsetDateTime) {
        self.set_owned(http::header::LAST_MODIFIED, s3::conditions::format_http_date(at));
    }

    pub(crate) fn into_response(self) -> Response<HttpBody> {
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        if self.in_memory {
            response.extensions_mut().insert(InMemory);
        }
        response
    }
}

//! Requests to the gateway of this process in the name of a sender.
//!
//! The API reads and changes configurations of buckets with the operations of S3, so each change
//! passes the same parser and the same permission checks as a request of an S3 client. For example,
//! a new lifecycle configuration becomes `PUT /photos?lifecycle` by the sender of the API request.

use std::fmt::Write;

use bytes::Bytes;
use gateway::{ExpectedBucket, Gateway, HttpBody, RequestId, Served};
use http::header::{CONTENT_LENGTH, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use s3::xml::{Element, XmlLimits};

use crate::{Actor, ApiError, S3_CALLS_NOTED_MAX, S3Noted, body};

/// The limit of a response that the API reads into memory, in bytes. Configurations of buckets have
/// at most 1 MiB; a page of 1,000 keys of 1,024 bytes, escaped, has about 4 MiB.
const RESPONSE_BYTES_MAX: usize = 8 << 20;

/// The characters of a path or a query that are not escaped.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// An S3 request that the API sends to the gateway of its process.
#[derive(Clone, Debug)]
pub struct S3Call<'a> {
    /// The method.
    pub method: Method,
    /// The bucket.
    pub bucket: &'a str,
    /// The key; `None` for a request on the bucket.
    pub key: Option<&'a str>,
    /// The parameters of the query, not escaped. A parameter without a value is its name alone.
    pub query: Vec<(&'a str, Option<String>)>,
    /// The headers.
    pub headers: HeaderMap,
    /// The bucket that must have the name; `None` to take the one that has it now.
    pub expected: Option<ExpectedBucket>,
}

impl<'a> S3Call<'a> {
    /// Returns a request on a bucket, with one parameter without a value. For example, `policy` is
    /// the parameter of the bucket policy.
    pub fn on_bucket(method: Method, bucket: &'a str, parameter: Option<&'a str>) -> S3Call<'a> {
        let query = parameter.map(|name| (name, None)).into_iter().collect();
        S3Call { method, bucket, key: None, query, headers: HeaderMap::new(), expected: None }
    }

    /// Returns the path and the query of the request, escaped.
    fn uri(&self) -> Result<Uri, ApiError> {
        // Without a key the path would name the bucket itself.
        if self.key.is_some_and(str::is_empty) {
            return Err(ApiError::bad_request("The key is empty."));
        }
        s3::BucketName::parse(self.bucket)?;
        let escaped = |text| utf8_percent_encode(text, ESCAPED);
        let mut uri = format!("/{}", escaped(self.bucket));
        if let Some(key) = self.key {
            // A slash of the key stays, because the path of an S3 request has it.
            for part in key.split('/') {
                let _ = write!(uri, "/{}", escaped(part));
            }
        }
        for (at, (name, value)) in self.query.iter().enumerate() {
            uri.push(if at == 0 { '?' } else { '&' });
            let _ = write!(uri, "{}", escaped(name));
            if let Some(value) = value {
                let _ = write!(uri, "={}", escaped(value));
            }
        }
        uri.parse().map_err(|_| ApiError::bad_request("The bucket or key is too long."))
    }
}

/// A response of the gateway that is completely in memory.
#[derive(Clone, Debug)]
pub struct S3Reply {
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// Sends a request to a gateway of this process in the name of the sender, and returns the response
/// as it arrives. An error of S3 is a response, too.
pub(crate) async fn stream(
    gateway: &Gateway,
    actor: &Actor<'_>,
    call: &S3Call<'_>,
    body: HttpBody,
) -> Result<Response<HttpBody>, ApiError> {
    let mut request = Request::new(body);
    *request.method_mut() = call.method.clone();
    *request.uri_mut() = call.uri()?;
    request.headers_mut().clone_from(&call.headers);
    let extensions = request.extensions_mut();
    extensions.insert(RequestId(actor.request_id().to_owned()));
    if let Some(expected) = call.expected {
        extensions.insert(expected);
    }
    // The proof of the sender, in place of a signature.
    extensions.insert(actor.authenticated().clone());
    if let Some(client) = actor.client() {
        extensions.insert(client);
    }
    let uri = request.uri().clone();
    let mut response = gateway.handle(request).await;
    let served = response.extensions_mut().remove::<Served>();
    // Pages read many configurations of buckets, which would hide the other lines.
    if let Some(served) = served.filter(|_| call.method != Method::GET || call.key.is_some()) {
        let (method, status) = (call.method.clone(), response.status());
        actor.notes().note(|noted| {
            if noted.s3.len() < S3_CALLS_NOTED_MAX {
                noted.s3.push(S3Noted { method, uri, status, served });
            }
        });
    }
    Ok(response)
}

/// Sends a request to a gateway of this process in the name of the sender, and returns the whole
/// response. Fails with the error of S3.
pub(crate) async fn send(
    gateway: &Gateway,
    actor: &Actor<'_>,
    call: &S3Call<'_>,
    body: Bytes,
) -> Result<S3Reply, ApiError> {
    let mut call = call.clone();
    call.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    let body = Full::new(body).map_err(|never| match never {}).boxed_unsync();
    let (head, body) = stream(gateway, actor, &call, body).await?.into_parts();
    let body = body::collect(body, RESPONSE_BYTES_MAX).await.map_err(|error| {
        tracing::warn!(?error, "cannot read a response of the gateway");
        ApiError::from(s3::Code::InternalError)
    })?;
    if head.status.is_success() {
        return Ok(S3Reply { headers: head.headers, body });
    }
    Err(error_of(head.status, &body))
}

/// Returns the error in an error document of S3. `status` is the status of the response.
pub fn error_of(status: StatusCode, body: &[u8]) -> ApiError {
    let parsed = Element::parse(body, "Error", XmlLimits::SMALL).ok();
    let text = |name: &str| {
        let value = parsed.as_ref()?.value(name).ok().flatten();
        value.map(str::to_owned)
    };
    let code = text("Code").unwrap_or_else(|| "InternalError".to_owned());
    let message = text("Message").unwrap_or_else(|| "The request failed.".to_owned());
    ApiError { status, code: code.into(), message, detail: text("Detail") }
}

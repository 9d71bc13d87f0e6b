//! A minimal client for the objects of one bucket.
//!
//! Each call is one attempt: a request is built, signed and sent. Its response is read to the end,
//! or its connection is closed. For example, a PUT of a block sends nine headers and the block's
//! own buffers. The meaning of a response for blocks is determined elsewhere, and so are timeouts,
//! except the one for connecting.

use std::error::Error;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONTENT_LENGTH, HOST, HeaderName, IF_NONE_MATCH, RANGE, USER_AGENT,
};
use http::response::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body::Body;
use hyper::body::Incoming;
use sigv4::{EMPTY_SHA256, UNSIGNED_PAYLOAD};

use super::address::Address;
use super::bare;
use super::fault::{self, Failure};
use super::options::{BucketOptions, SecretKey};
use super::pieces::Pieces;
use super::pool::ConnectionPool;
use super::sign::{Signable, Signer};
use super::span::{self, Span};
use super::wire::{Wire, WireState};

/// The most bytes that are read of an error response.
const ERROR_BYTES_MAX: u64 = 16 << 10;

/// The number of headers of a request.
const HEADERS: usize = 9;

const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const CONTENT_HASH: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const AGENT: HeaderValue = HeaderValue::from_static("ashlar");

/// A client for the objects of one bucket. Their names consist of letters, digits and slashes.
#[derive(Debug)]
pub(super) struct Objects {
    address: Address,
    signer: Signer,
    pool: Arc<ConnectionPool>,
}

/// An object whose response has begun to arrive.
pub(super) struct IncomingObject {
    pool: Arc<ConnectionPool>,
    wire: Wire,
    head: Parts,
    body: Incoming,
}

/// The body of a request, and its metadata.
#[derive(Debug, Default)]
pub(super) struct Payload {
    pub(super) body: Pieces,
    /// The checksums of a bare block (its object is its content alone), for the object's metadata;
    /// `None` for other objects.
    pub(super) sums: Option<String>,
}

impl From<Pieces> for Payload {
    fn from(body: Pieces) -> Payload {
        Payload { body, sums: None }
    }
}

impl Objects {
    /// Creates a client. `prefix` is empty or ends with a slash, and precedes all names.
    ///
    /// # Errors
    /// Fails with a sentence for the operator if the options are invalid.
    pub(super) fn new(options: &BucketOptions, prefix: &str) -> Result<Objects, String> {
        let address = Address::find(options, prefix)?;
        let SecretKey(secret_key) = options.secret_key.clone();
        let (region, service) = (address.region.clone(), address.service.clone());
        let signer = Signer::new(options.access_key.clone(), secret_key, region, service, now())
            .map_err(|error| format!("the access key or the region is invalid: {error}"))?;
        let pool = ConnectionPool::new(address.endpoint.clone(), options.connect_timeout)
            .map_err(|error| format!("cannot set up TLS to {}: {error}", address.endpoint))?;
        Ok(Objects { address, signer, pool: Arc::new(pool) })
    }

    /// Sends a PUT, plain or only if the name is free. Returns the MD5 of the body if the response
    /// has it.
    pub(super) async fn put(
        &self,
        name: &str,
        body: Payload,
        only_if_absent: bool,
    ) -> Result<Option<[u8; 16]>, Failure> {
        let condition = only_if_absent.then_some((IF_NONE_MATCH, "*"));
        let (wire, answer) = self.ask(Method::PUT, name, condition, body).await?;
        let reported = bare::reported_md5(answer.headers());
        self.end(wire, answer).await?;
        Ok(reported)
    }

    /// Sends a GET of a range.
    pub(super) async fn get(&self, name: &str, span: Span) -> Result<IncomingObject, Failure> {
        let range = span.to_string();
        let condition = Some((RANGE, range.as_str()));
        let (wire, answer) = self.ask(Method::GET, name, condition, Payload::default()).await?;
        if !matches!(answer.status(), StatusCode::OK | StatusCode::PARTIAL_CONTENT) {
            return Err(Box::pin(self.refusal(wire, answer)).await);
        }
        span.check(&answer)
            .map_err(|why| Failure::unexpected_response(answer.status(), "", &why))?;
        let (head, body) = answer.into_parts();
        Ok(IncomingObject { pool: Arc::clone(&self.pool), wire, head, body })
    }

    /// Sends a HEAD. Returns the object's size in bytes if the response has it.
    pub(super) async fn head(&self, name: &str) -> Result<Option<u64>, Failure> {
        let (wire, answer) = self.ask(Method::HEAD, name, None, Payload::default()).await?;
        let status = answer.status();
        let size = number(answer.headers(), CONTENT_LENGTH);
        match self.end(wire, answer).await {
            Ok(()) => Ok(size),
            // The response to a HEAD has no body with an error code.
            Err(_) if status == StatusCode::NOT_FOUND => {
                Err(Failure::unexpected_response(status, fault::NOT_FOUND, ""))
            }
            Err(failure) => Err(failure),
        }
    }

    /// Sends a DELETE.
    pub(super) async fn delete(&self, name: &str) -> Result<(), Failure> {
        let (wire, answer) = self.ask(Method::DELETE, name, None, Payload::default()).await?;
        self.end(wire, answer).await
    }

    /// Sends a request, and waits for the head of its response.
    async fn ask(
        &self,
        method: Method,
        name: &str,
        condition: Option<(HeaderName, &str)>,
        body: Payload,
    ) -> Result<(Wire, Response<Incoming>), Failure> {
        let request = self.request(method, name, condition, body);
        let request = request.map_err(|error| Failure::invalid_request(error.to_string()))?;
        self.pool.send(request).await.map_err(|error| Failure::no_response(error.as_ref()))
    }

    fn request(
        &self,
        method: Method,
        name: &str,
        condition: Option<(HeaderName, &str)>,
        Payload { body, sums }: Payload,
    ) -> Result<Request<Pieces>, http::Error> {
        let Address { host, .. } = &self.address;
        let path = self.address.path(name);
        // The payload is not hashed, because a block has its own checksums, and the hash would cost
        // more than the rest of the request.
        let payload = if method == Method::PUT { UNSIGNED_PAYLOAD } else { EMPTY_SHA256 };
        let signable = Signable {
            method: method.as_str(),
            path: &path,
            host: host.to_str().unwrap_or_default(),
            condition: condition.as_ref().map(|(name, value)| (name.as_str(), *value)),
            metadata: sums.as_deref().map(|sums| (bare::SUMS_NAME, sums)),
            payload,
        };
        let signature = self.signer.sign(signable, now())?;
        let mut headers = HeaderMap::with_capacity(HEADERS);
        headers.insert(HOST, host.clone());
        headers.insert(USER_AGENT, AGENT);
        headers.insert(CONTENT_HASH, HeaderValue::from_static(payload));
        headers.insert(DATE, signature.date);
        headers.insert(AUTHORIZATION, signature.authorization);
        if method == Method::PUT {
            headers.insert(CONTENT_LENGTH, body.length().into());
        }
        if let Some((name, value)) = condition {
            headers.insert(name, HeaderValue::from_str(value)?);
        }
        if let Some(sums) = sums {
            headers.insert(bare::SUMS, HeaderValue::try_from(sums)?);
        }
        let mut request = Request::new(body);
        *request.method_mut() = method;
        // Only the path, because HTTP/1.1 sends the host in a header.
        *request.uri_mut() = Uri::from(PathAndQuery::from_maybe_shared(Bytes::from(path))?);
        *request.headers_mut() = headers;
        Ok(request)
    }

    /// Reads a response that has only a status to its end, and returns its connection to the pool.
    async fn end(&self, mut wire: Wire, answer: Response<Incoming>) -> Result<(), Failure> {
        if !answer.status().is_success() {
            return Err(Box::pin(self.refusal(wire, answer)).await);
        }
        // The request has succeeded, even if the connection fails now.
        if let Ok(body) = wire.read(answer.into_body(), ERROR_BYTES_MAX).await
            && body.len() as u64 <= ERROR_BYTES_MAX
        {
            self.pool.put_back(wire).await;
        }
        Ok(())
    }

    /// Reads the response to a failed request. Callers box this future, because it is rare.
    async fn refusal(&self, mut wire: Wire, answer: Response<Incoming>) -> Failure {
        let status = answer.status();
        let body = match wire.read(answer.into_body(), ERROR_BYTES_MAX).await {
            Ok(body) => body,
            Err(error) => return Failure::no_response(&error),
        };
        // A longer response was not read to its end, so its connection cannot be reused.
        if body.len() as u64 <= ERROR_BYTES_MAX {
            self.pool.put_back(wire).await;
        }
        let (code, message) = fault::read(&String::from_utf8_lossy(&body));
        Failure::unexpected_response(status, &code, &message)
    }
}

impl IncomingObject {
    /// Returns the requested bytes of the object, at most `most`.
    pub(super) async fn collect(
        mut self,
        most: u64,
    ) -> Result<Bytes, Box<dyn Error + Send + Sync>> {
        let found = self.wire.body(self.body, most).await?;
        match self.pool.put_back(self.wire).await {
            WireState::Surplus => Err("more bytes arrived than were announced".into()),
            WireState::Ready | WireState::Unusable => Ok(found),
        }
    }

    /// Returns the next piece of the object; `None` at the end.
    pub(super) async fn piece(&mut self) -> hyper::Result<Option<Bytes>> {
        self.wire.piece(&mut self.body).await
    }

    /// The headers of the response.
    pub(super) fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// Returns the size of the whole object if the response has it.
    pub(super) fn whole(&self) -> Option<u64> {
        if self.head.status == StatusCode::PARTIAL_CONTENT {
            span::whole(&self.head.headers)
        } else {
            self.announced()
        }
    }

    /// Returns the announced length of the response, if there is one.
    pub(super) fn announced(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }

    /// Returns the connection to the pool, after the last piece.
    pub(super) async fn end(self) {
        self.pool.put_back(self.wire).await;
    }
}

fn number(headers: &HeaderMap, name: HeaderName) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a signature reports the other side's clock from ours"
)]
fn now() -> SystemTime {
    SystemTime::now()
}

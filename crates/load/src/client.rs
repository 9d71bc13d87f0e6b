//! A client: one connection, a signer, and the S3 requests of the workloads.
//!
//! The client verifies each response: its status, its length, and its ETag if the operation has
//! one. For example, a GET of 4 KiB that returns 4,095 bytes is an error. After a wrong response
//! the client closes the connection, because the following bytes cannot be trusted.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, ETAG, HeaderName, HeaderValue, RANGE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use md5::{Digest as _, Md5};
use sigv4::uri::{escape_path, escape_query};
use sigv4::{UNSIGNED_PAYLOAD, sha256_hex};
use time::OffsetDateTime;

use crate::connection::Connection;
use crate::sign::{Signable, Signer};
use crate::target::Address;
use crate::{TargetBucket, Trouble, xml};

/// The largest response that is read as text, in bytes. A page of 1,000 keys of 1,024 bytes fits.
const TEXT_BYTES_MAX: usize = 8 << 20;

/// The number of keys per page of a listing, and per `DeleteObjects` request.
pub(crate) const PAGE_KEYS: usize = 1_000;

const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");

/// A request body with its SHA-256, which the signature contains. A clone is cheap, because it
/// shares the bytes.
#[derive(Clone, Debug)]
pub(crate) struct Payload {
    pub(crate) bytes: Bytes,
    hash: Arc<str>,
}

/// The content of one `DeleteObjects` request: the XML body that names the keys, its MD5, and the
/// number of keys.
#[derive(Clone, Debug)]
pub(crate) struct DeleteBatch {
    payload: Payload,
    md5: HeaderValue,
    pub(crate) keys: u64,
}

/// A page of a listing: its keys, and the position of the next page.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) keys: Vec<String>,
    /// The continuation token of the next page; `None` on the last page.
    pub(crate) next: Option<String>,
}

/// A request that is not signed yet.
struct ClientRequest<'a> {
    method: Method,
    /// The key of the object; empty for the bucket itself.
    key: &'a str,
    /// The query, percent-encoded and sorted.
    query: &'a str,
    payload: &'a Payload,
    /// One more header, which the signature does not include.
    header: Option<(HeaderName, HeaderValue)>,
}

/// A client of one target: a connection to the endpoint, and the signer of its requests.
pub(crate) struct Client {
    address: Arc<Address>,
    bucket: String,
    region: String,
    unsigned: bool,
    signer: Signer,
    connection: Option<Connection>,
    nothing: Payload,
}

impl Payload {
    pub(crate) fn new(bytes: Bytes, unsigned: bool) -> Self {
        let hash = if unsigned { UNSIGNED_PAYLOAD.into() } else { sha256_hex(&bytes).into() };
        Self { bytes, hash }
    }
}

impl DeleteBatch {
    pub(crate) fn new(keys: &[String], unsigned: bool) -> Self {
        let mut text = String::from("<Delete><Quiet>true</Quiet>");
        for key in keys {
            text.push_str("<Object><Key>");
            text.push_str(&xml::escape(key));
            text.push_str("</Key></Object>");
        }
        text.push_str("</Delete>");
        let md5 = HeaderValue::from_str(&STANDARD.encode(Md5::digest(&text)))
            .expect("base64 fits a header");
        let payload = Payload::new(text.into(), unsigned);
        Self { payload, md5, keys: u64::try_from(keys.len()).unwrap_or(u64::MAX) }
    }
}

impl Client {
    /// Creates a client without a connection.
    pub(crate) fn new(target: &TargetBucket, address: Arc<Address>) -> Result<Self, Trouble> {
        let signer = Signer::new(target.credentials.clone(), &target.region, &address.host)?;
        let nothing = Payload::new(Bytes::new(), false);
        let (bucket, region) = (target.bucket.clone(), target.region.clone());
        let unsigned = target.unsigned;
        Ok(Self { address, bucket, region, unsigned, signer, connection: None, nothing })
    }

    /// Opens the connection, so that the first request does not include this time.
    pub(crate) async fn connect(&mut self) -> Result<(), Trouble> {
        self.connection = Some(Connection::open(&self.address).await?);
        Ok(())
    }

    /// Creates the bucket unless it exists. Returns true if it was created.
    pub(crate) async fn make_bucket(&mut self) -> Result<bool, Trouble> {
        let nothing = self.nothing.clone();
        // The HEAD comes first, because a PUT of an existing bucket is an error in most regions.
        let look = ClientRequest::new(Method::HEAD, "", &nothing);
        match self.send(&look, &[StatusCode::OK]).await {
            Ok(_) => return Ok(false),
            Err(Trouble::Answer { status: StatusCode::NOT_FOUND, .. }) => {}
            Err(other) => return Err(other),
        }
        let place = match self.region.as_str() {
            // S3 refuses this region as a location constraint: it is the default.
            "us-east-1" => Bytes::new(),
            region => format!(
                "<CreateBucketConfiguration><LocationConstraint>{}</LocationConstraint>\
                 </CreateBucketConfiguration>",
                xml::escape(region)
            )
            .into(),
        };
        let payload = Payload::new(place, self.unsigned);
        let answer =
            self.send(&ClientRequest::new(Method::PUT, "", &payload), &[StatusCode::OK]).await?;
        self.drain(answer).await?;
        Ok(true)
    }

    pub(crate) async fn put(&mut self, key: &str, payload: &Payload) -> Result<(), Trouble> {
        self.put_to(key, "", payload).await.map(drop)
    }

    /// Writes an object or a part. Returns its ETag.
    async fn put_to(
        &mut self,
        key: &str,
        query: &str,
        payload: &Payload,
    ) -> Result<String, Trouble> {
        let request = ClientRequest { query, ..ClientRequest::new(Method::PUT, key, payload) };
        let answer = self.send(&request, &[StatusCode::OK]).await?;
        let etag = answer.headers().get(ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
        self.drain(answer).await?;
        etag.filter(|tag| !tag.is_empty())
            .ok_or_else(|| request.content("was answered without ETag"))
    }

    /// Reads an object, or the range from the first to the last byte in `range`. Fails if the
    /// length is not `bytes`, or if `content` is given and differs.
    pub(crate) async fn get(
        &mut self,
        key: &str,
        range: Option<(u64, u64)>,
        bytes: u64,
        content: Option<&Bytes>,
    ) -> Result<(), Trouble> {
        let nothing = self.nothing.clone();
        let mut request = ClientRequest::new(Method::GET, key, &nothing);
        let mut status = StatusCode::OK;
        if let Some((first, last)) = range {
            let value = HeaderValue::from_str(&format!("bytes={first}-{last}"))
                .expect("numbers fit a header");
            request.header = Some((RANGE, value));
            status = StatusCode::PARTIAL_CONTENT;
        }
        let answer = self.send(&request, &[status]).await?;
        if !answer.headers().contains_key(ETAG) {
            // The body is unread, so the connection cannot carry another request.
            self.connection = None;
            return Err(request.content("was answered without ETag"));
        }
        let mut rest = content.map(|all| &all[..]);
        let mut same = true;
        let read = self.frames(&request, answer, |frame| {
            if let Some(expected) = &mut rest {
                same &= expected.starts_with(frame);
                *expected = expected.get(frame.len()..).unwrap_or_default();
            }
        });
        let read = read.await?;
        match (read == bytes, same) {
            (false, _) => Err(request.content(&format!("gave {read} bytes instead of {bytes}"))),
            (true, false) => Err(request.content("gave back other bytes than were written")),
            (true, true) => Ok(()),
        }
    }

    pub(crate) async fn head(&mut self, key: &str, bytes: u64) -> Result<(), Trouble> {
        let nothing = self.nothing.clone();
        let request = ClientRequest::new(Method::HEAD, key, &nothing);
        let answer = self.send(&request, &[StatusCode::OK]).await?;
        let length = answer.headers().get(CONTENT_LENGTH).and_then(|it| it.to_str().ok());
        let stated = length.and_then(|text| text.parse().ok());
        // A response to HEAD has no body, so the connection can be used again.
        if !answer.headers().contains_key(ETAG) {
            return Err(request.content("was answered without ETag"));
        }
        match stated {
            Some(stated) if bytes == stated => Ok(()),
            other => Err(request.content(&format!("states {other:?} bytes instead of {bytes}"))),
        }
    }

    pub(crate) async fn delete(&mut self, key: &str) -> Result<(), Trouble> {
        self.delete_at(key, "").await
    }

    async fn delete_at(&mut self, key: &str, query: &str) -> Result<(), Trouble> {
        let nothing = self.nothing.clone();
        let request = ClientRequest { query, ..ClientRequest::new(Method::DELETE, key, &nothing) };
        let answer = self.send(&request, &[StatusCode::NO_CONTENT, StatusCode::OK]).await?;
        self.drain(answer).await
    }

    pub(crate) async fn delete_batch(&mut self, batch: &DeleteBatch) -> Result<(), Trouble> {
        let header = Some((CONTENT_MD5, batch.md5.clone()));
        let request = ClientRequest {
            query: "delete=",
            header,
            ..ClientRequest::new(Method::POST, "", &batch.payload)
        };
        let answer = self.send(&request, &[StatusCode::OK]).await?;
        let text = self.text(&request, answer).await?;
        match xml::texts(&text, "Error").next() {
            None => Ok(()),
            Some(error) => Err(request.content(&format!("did not delete all keys: {error}"))),
        }
    }

    /// Returns a page of the keys with a prefix. `from` is the continuation token of the page,
    /// `None` for the first page. If `by_folder` is true, the delimiter is a slash, so keys below a
    /// folder are listed as one prefix.
    pub(crate) async fn list(
        &mut self,
        prefix: &str,
        from: Option<&str>,
        by_folder: bool,
    ) -> Result<Page, Trouble> {
        let token = from.map(|from| format!("continuation-token={}&", escape_query(from)));
        let token = token.unwrap_or_default();
        let delimiter = if by_folder { "delimiter=%2F&" } else { "" };
        let prefix = escape_query(prefix);
        let query = format!("{token}{delimiter}list-type=2&max-keys={PAGE_KEYS}&prefix={prefix}");
        let nothing = self.nothing.clone();
        let request =
            ClientRequest { query: &query, ..ClientRequest::new(Method::GET, "", &nothing) };
        let answer = self.send(&request, &[StatusCode::OK]).await?;
        let text = self.text(&request, answer).await?;
        let keys = xml::texts(&text, "Key").map(str::to_owned).collect();
        let more = xml::text(&text, "IsTruncated").is_some_and(|it| it == "true");
        let next = xml::text(&text, "NextContinuationToken").filter(|_| more);
        // Without this check a listing that never ends its pages would look complete.
        if more && next.is_none() {
            return Err(request.content("was answered with a page that has no next one"));
        }
        Ok(Page { keys, next })
    }

    /// Writes an object in parts. If a step fails, aborts the upload.
    pub(crate) async fn multipart(&mut self, key: &str, parts: &[Payload]) -> Result<(), Trouble> {
        let nothing = self.nothing.clone();
        let request =
            ClientRequest { query: "uploads=", ..ClientRequest::new(Method::POST, key, &nothing) };
        let answer = self.send(&request, &[StatusCode::OK]).await?;
        let text = self.text(&request, answer).await?;
        let upload = xml::text(&text, "UploadId");
        let upload = upload.ok_or_else(|| request.content("was answered without an UploadId"))?;
        let upload = format!("uploadId={}", escape_query(&upload));
        let done = self.upload(key, &upload, parts).await;
        if done.is_err() {
            // The error of the failed step is more important than that of the abort.
            let _given_up = self.delete_at(key, &upload).await;
        }
        done
    }

    async fn upload(&mut self, key: &str, upload: &str, parts: &[Payload]) -> Result<(), Trouble> {
        let mut list = String::from("<CompleteMultipartUpload>");
        // Part numbers begin with 1.
        for (number, part) in (1..).zip(parts) {
            let etag = self.put_to(key, &format!("partNumber={number}&{upload}"), part).await?;
            let etag = xml::escape(&etag);
            let part = format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>");
            list.push_str(&part);
        }
        list.push_str("</CompleteMultipartUpload>");
        let payload = Payload::new(list.into(), self.unsigned);
        let request =
            ClientRequest { query: upload, ..ClientRequest::new(Method::POST, key, &payload) };
        let answer = self.send(&request, &[StatusCode::OK]).await?;
        let text = self.text(&request, answer).await?;
        match xml::text(&text, "ETag") {
            Some(_) => Ok(()),
            // S3 may send status 200 before it knows the outcome. The body then has an error.
            None => Err(request.content(&format!("was answered {}", error_text(&text)))),
        }
    }

    /// Signs and sends a request. Returns the response when its head has arrived. Fails if its
    /// status is not in `good`.
    async fn send(
        &mut self,
        request: &ClientRequest<'_>,
        good: &[StatusCode],
    ) -> Result<Response<Incoming>, Trouble> {
        let signed = self.signed(request)?;
        let mut connection = self.open().await?;
        // The connection is not in `self` meanwhile. If the request fails or is dropped, it is
        // closed.
        let answer = connection.send(signed).await;
        let answer =
            answer.map_err(|source| Trouble::Broken { request: request.name(), source })?;
        self.connection = Some(connection);
        let status = answer.status();
        if good.contains(&status) {
            return Ok(answer);
        }
        let text = self.text(request, answer).await.unwrap_or_default();
        Err(Trouble::Answer { request: request.name(), status, said: error_text(&text) })
    }

    /// Returns the open connection if it is idle and usable, or a new one.
    async fn open(&mut self) -> Result<Connection, Trouble> {
        if let Some(mut open) = self.connection.take()
            && open.ready().await.is_ok()
            && !open.is_closed()
        {
            return Ok(open);
        }
        Connection::open(&self.address).await
    }

    /// Returns the request with its signature.
    fn signed(&mut self, request: &ClientRequest<'_>) -> Result<Request<Full<Bytes>>, Trouble> {
        let bad = || Trouble::Endpoint(format!("{}/{}", self.address.host, self.bucket));
        let path = match request.key {
            "" => escape_path(&format!("/{}", self.bucket)),
            key => escape_path(&format!("/{}/{key}", self.bucket)),
        };
        let ClientRequest { method, query, payload, .. } = request;
        let signable =
            Signable { method: method.as_str(), path: &path, query, content: &payload.hash };
        let mut headers = self.signer.headers(signable, OffsetDateTime::now_utc())?;
        if let Some((name, value)) = &request.header {
            headers.insert(name, value.clone());
        }
        if matches!(*method, Method::PUT | Method::POST) {
            headers.insert(CONTENT_LENGTH, payload.bytes.len().into());
        }
        let place = if query.is_empty() { path } else { format!("{path}?{query}") };
        let mut signed = Request::new(Full::new(payload.bytes.clone()));
        *signed.method_mut() = method.clone();
        *signed.uri_mut() = place.parse().map_err(|_| bad())?;
        *signed.headers_mut() = headers;
        Ok(signed)
    }

    /// Reads the rest of a response whose body is not needed, so that the connection can be used
    /// again.
    async fn drain(&mut self, answer: Response<Incoming>) -> Result<(), Trouble> {
        let nothing = self.nothing.clone();
        let request = ClientRequest::new(Method::GET, "", &nothing);
        self.frames(&request, answer, |_| ()).await.map(drop)
    }

    /// Reads a response as text, up to [`TEXT_BYTES_MAX`] bytes.
    async fn text(
        &mut self,
        request: &ClientRequest<'_>,
        answer: Response<Incoming>,
    ) -> Result<String, Trouble> {
        let mut all = Vec::new();
        let take = |frame: &[u8]| {
            // The rest of a longer response is dropped, so that a wrong endpoint cannot fill the
            // memory.
            let room = TEXT_BYTES_MAX.saturating_sub(all.len());
            all.extend_from_slice(frame.get(..room).unwrap_or(frame));
        };
        self.frames(request, answer, take).await?;
        String::from_utf8(all)
            .map_err(|_| request.content("was answered in another encoding than UTF-8"))
    }

    /// Calls `each` for each frame of a body. Returns the length of the body.
    async fn frames(
        &mut self,
        request: &ClientRequest<'_>,
        answer: Response<Incoming>,
        mut each: impl FnMut(&[u8]),
    ) -> Result<u64, Trouble> {
        let mut body = answer.into_body();
        let mut read = 0;
        // A failed body leaves the connection closed, because its rest is unread.
        let Some(mut connection) = self.connection.take() else { return Ok(read) };
        loop {
            let frame = connection.next(&mut body).await;
            match frame.map_err(|source| Trouble::Broken { request: request.name(), source })? {
                None => break,
                Some(frame) => {
                    read += u64::try_from(frame.len()).unwrap_or(u64::MAX);
                    each(&frame);
                }
            }
        }
        self.connection = Some(connection);
        Ok(read)
    }
}

impl<'a> ClientRequest<'a> {
    fn new(method: Method, key: &'a str, payload: &'a Payload) -> Self {
        Self { method, key, query: "", payload, header: None }
    }

    /// Returns the name of the request for errors.
    fn name(&self) -> String {
        let mark = if self.query.is_empty() { "" } else { "?" };
        format!("{} /{}{mark}{}", self.method, self.key, self.query)
    }

    fn content(&self, wrong: &str) -> Trouble {
        Trouble::Content { request: self.name(), wrong: wrong.to_owned() }
    }
}

/// Returns the code and the message of an error document behind a colon. Empty if it has none.
fn error_text(text: &str) -> String {
    let parts = ["Code", "Message"].map(|name| xml::text(text, name));
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) }
}

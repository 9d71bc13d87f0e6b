//! Content of objects: download, preview and upload, through the gateway of the process.
//!
//! Content that a browser could run as a page of this console is never shown as such: a download is
//! an attachment, and a preview has one of a few fixed types. For example, an object with the type
//! `text/html` is shown as text.

use std::fmt::Write;

use adminapi::resources::archive::ArchiveQuery;
use adminapi::{ApiError, S3Call};
use bytes::Bytes;
use gateway::HttpBody;
use http::header::{
    self, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, HeaderName, HeaderValue,
};
use http::{HeaderMap, Method, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use s3::xml::{Element, XmlLimits};
use serde::Deserialize;
use serde_json::json;

use crate::forms::read_bytes;
use crate::paths::escape;
use crate::reply::Reply;
use crate::visit::Visit;

/// The bytes of a text that a preview shows.
const PREVIEW_BYTES_MAX: u64 = 64 << 10;

/// The limit of the document that completes an upload of 10,000 parts.
const COMPLETE_BYTES_MAX: usize = 2 << 20;

/// The policy of content that a browser shows outside of the pages of the console. It runs nothing.
const CONTENT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

/// The preview of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preview {
    Text,
    Image,
    Pdf,
    None,
}

/// The types that a preview shows as an image. SVG is not among them: it can contain scripts.
const IMAGES: [(&str, &str); 6] = [
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("avif", "image/avif"),
];

/// The endings of keys whose content is text.
const TEXTS: [&str; 16] = [
    "txt", "md", "csv", "tsv", "json", "jsonl", "xml", "yaml", "yml", "toml", "log", "py", "rs",
    "sh", "sql", "ini",
];

/// The parameters of requests about one object.
#[derive(Debug, Deserialize)]
struct Query {
    key: String,
    version: Option<String>,
    #[serde(default)]
    inline: u8,
}

/// The parameters of requests about an upload.
#[derive(Debug, Deserialize)]
struct UploadQuery {
    key: String,
    #[serde(default)]
    upload: String,
    #[serde(default)]
    number: u32,
    #[serde(default)]
    kind: String,
}

fn on_object<'a>(method: Method, bucket: &'a str, key: &'a str) -> S3Call<'a> {
    S3Call { key: Some(key), ..S3Call::on_bucket(method, bucket, None) }
}

/// Returns the objects of a folder as a ZIP file.
pub(crate) async fn zip(visit: &Visit<'_>, bucket: &str) -> Result<Reply, ApiError> {
    let query: ArchiveQuery = visit.query()?;
    let body = visit.api().archive(&visit.actor, bucket, &query).await?;
    let folder = query.prefix.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let name = if folder.is_empty() { bucket } else { folder };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/zip"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let disposition = HeaderValue::from_str(&attachment(&format!("{name}.zip")));
    headers.insert(CONTENT_DISPOSITION, disposition.map_err(|_| s3::Code::InternalError)?);
    Ok(Reply::Stream(Box::new(response)))
}

fn empty() -> HttpBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// Returns the headers of an object.
pub(crate) async fn head(
    visit: &Visit<'_>,
    bucket: &str,
    key: &str,
    version: Option<&str>,
) -> Result<HeaderMap, ApiError> {
    let mut call = on_object(Method::HEAD, bucket, key);
    call.query.extend(version.map(|version| ("versionId", Some(version.to_owned()))));
    let response = visit.api().stream_s3(&visit.actor, &call, empty()).await?;
    let (head, _) = response.into_parts();
    if head.status.is_success() {
        return Ok(head.headers);
    }
    // The response to a HEAD has no document.
    Err(match head.status {
        StatusCode::NOT_FOUND => s3::Code::NoSuchKey.into(),
        StatusCode::FORBIDDEN => s3::Code::AccessDenied.into(),
        status => ApiError::new(status, "Unreadable", "The object cannot be read."),
    })
}

/// Returns the ending of a key in lower case.
fn ending(key: &str) -> String {
    let name = key.rsplit('/').next().unwrap_or(key);
    name.rsplit_once('.').map_or(String::new(), |(_, ending)| ending.to_ascii_lowercase())
}

/// Returns the type of an image by its key and its headers.
fn image_type(key: &str, kind: &str) -> Option<&'static str> {
    let ending = ending(key);
    let found = IMAGES.iter().find(|(known, of)| *of == kind || *known == ending);
    found.map(|(_, kind)| *kind)
}

/// Returns the preview of an object by its key and its headers.
pub(crate) fn preview_of(key: &str, head: &HeaderMap) -> Preview {
    let kind = head.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let is_empty = head.get(CONTENT_LENGTH).is_some_and(|length| length == "0");
    if is_empty {
        Preview::None
    } else if image_type(key, kind).is_some() {
        Preview::Image
    } else if kind == "application/pdf" || ending(key) == "pdf" {
        Preview::Pdf
    } else if kind.starts_with("text/")
        || ["application/json", "application/xml", "image/svg+xml"].contains(&kind)
        || TEXTS.contains(&ending(key).as_str())
    {
        Preview::Text
    } else {
        Preview::None
    }
}

/// Returns the beginning of an object as text.
pub(crate) async fn beginning(
    visit: &Visit<'_>,
    bucket: &str,
    key: &str,
    version: Option<&str>,
) -> Result<String, ApiError> {
    let mut call = on_object(Method::GET, bucket, key);
    call.query.extend(version.map(|version| ("versionId", Some(version.to_owned()))));
    let range = format!("bytes=0-{}", PREVIEW_BYTES_MAX - 1);
    if let Ok(range) = HeaderValue::from_str(&range) {
        call.headers.insert(header::RANGE, range);
    }
    let reply = visit.api().s3(&visit.actor, &call, Bytes::new()).await?;
    Ok(String::from_utf8_lossy(&reply.body).into_owned())
}

/// Streams an object to the browser, as an attachment or as a preview.
pub(crate) async fn download(visit: &Visit<'_>, bucket: &str) -> Result<Reply, ApiError> {
    let Query { key, version, inline } = visit.query()?;
    let mut call = on_object(visit.head.method.clone(), bucket, &key);
    call.query.extend(version.map(|version| ("versionId", Some(version))));
    for name in [header::RANGE, header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE] {
        if let Some(value) = visit.head.headers.get(&name) {
            call.headers.insert(name, value.clone());
        }
    }
    let response = visit.api().stream_s3(&visit.actor, &call, empty()).await?;
    let status = response.status();
    if !status.is_success() && status != StatusCode::NOT_MODIFIED {
        let body = read_bytes(response.into_body(), 1 << 20).await?;
        return Err(adminapi::error_of(status, &body));
    }
    Ok(Reply::Stream(Box::new(as_content(response, &key, inline == 1))))
}

/// Returns the response of the gateway with the headers of a download or a preview.
fn as_content(response: Response<HttpBody>, key: &str, inline: bool) -> Response<HttpBody> {
    let (mut head, body) = response.into_parts();
    let given = head.headers.clone();
    head.headers = HeaderMap::new();
    // Headers that the owner of the object chose could change the behaviour of the browser, so only
    // these pass.
    for name in
        [CONTENT_LENGTH, CONTENT_RANGE, header::ETAG, header::LAST_MODIFIED, header::ACCEPT_RANGES]
    {
        if let Some(value) = given.get(&name) {
            head.headers.insert(name, value.clone());
        }
    }
    let kind = match preview_of(key, &given) {
        Preview::Image if inline => {
            let kind = given.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
            image_type(key, kind.unwrap_or_default())
        }
        Preview::Pdf if inline => Some("application/pdf"),
        Preview::Image | Preview::Pdf | Preview::Text | Preview::None => None,
    };
    let mut set = |name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            head.headers.insert(name, value);
        }
    };
    match kind {
        Some(kind) => set(CONTENT_TYPE, kind),
        None => {
            set(CONTENT_TYPE, "application/octet-stream");
            set(CONTENT_DISPOSITION, &attachment(key));
        }
    }
    // The viewer of a PDF does not work in a sandbox, and runs no script of the document.
    if kind != Some("application/pdf") {
        set(CONTENT_SECURITY_POLICY, CONTENT_POLICY);
    }
    set(header::CACHE_CONTROL, "private, no-cache");
    Response::from_parts(head, body)
}

/// Returns the header that names the file of a download: the last part of the key.
fn attachment(key: &str) -> String {
    let name = key.trim_end_matches('/').rsplit('/').next().unwrap_or("object");
    let plain: String = name
        .chars()
        .map(|char| if char.is_ascii_graphic() && !"\"\\;%".contains(char) { char } else { '_' })
        .collect();
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{}", escape(name))
}

/// Begins an upload in parts, and returns its id.
pub(crate) async fn begin_upload(visit: &Visit<'_>, bucket: &str) -> Result<Reply, ApiError> {
    let UploadQuery { key, kind, .. } = visit.query()?;
    let mut call = on_object(Method::POST, bucket, &key);
    call.query.push(("uploads", None));
    if let Ok(kind) = HeaderValue::from_str(&kind)
        && !kind.is_empty()
    {
        call.headers.insert(CONTENT_TYPE, kind);
    }
    let reply = visit.api().s3(&visit.actor, &call, Bytes::new()).await?;
    let root = Element::parse(&reply.body, "InitiateMultipartUploadResult", XmlLimits::SMALL)?;
    Ok(Reply::Json(json!({ "upload": root.required("UploadId")? })))
}

/// Returns the parts that an upload has, so that the script continues it.
pub(crate) async fn parts(visit: &Visit<'_>, bucket: &str) -> Result<Reply, ApiError> {
    let UploadQuery { key, upload, .. } = visit.query()?;
    let (mut parts, mut after) = (Vec::new(), String::new());
    loop {
        let mut call = on_object(Method::GET, bucket, &key);
        call.query.push(("uploadId", Some(upload.clone())));
        if !after.is_empty() {
            call.query.push(("part-number-marker", Some(after.clone())));
        }
        let reply = visit.api().s3(&visit.actor, &call, Bytes::new()).await?;
        let root = Element::parse(&reply.body, "ListPartsResult", XmlLimits::LARGE)?;
        for part in root.children().iter().filter(|child| child.name() == "Part") {
            let number: u32 = part.required("PartNumber")?.parse().unwrap_or(0);
            let size: u64 = part.required("Size")?.parse().unwrap_or(0);
            parts.push(json!({ "number": number, "size": size, "etag": part.required("ETag")? }));
        }
        let next = root.value("NextPartNumberMarker")?.unwrap_or_default();
        if root.value("IsTruncated")? != Some("true") || next == after {
            return Ok(Reply::Json(json!({ "parts": parts })));
        }
        next.clone_into(&mut after);
    }
}

/// Passes the length of a body on to the gateway.
fn with_length(call: &mut S3Call<'_>, head: &HeaderMap) {
    if let Some(length) = head.get(CONTENT_LENGTH) {
        call.headers.insert(CONTENT_LENGTH, length.clone());
    }
}

/// Sends a body to the gateway, and returns the headers of the response.
async fn send(visit: &Visit<'_>, call: &S3Call<'_>, body: HttpBody) -> Result<HeaderMap, ApiError> {
    let response = visit.api().stream_s3(&visit.actor, call, body).await?;
    let (head, body) = response.into_parts();
    if head.status.is_success() {
        return Ok(head.headers);
    }
    Err(adminapi::error_of(head.status, &read_bytes(body, 1 << 20).await?))
}

/// Uploads one part.
pub(crate) async fn put_part(
    visit: &Visit<'_>,
    bucket: &str,
    body: HttpBody,
) -> Result<Reply, ApiError> {
    let UploadQuery { key, upload, number, .. } = visit.query()?;
    let mut call = on_object(Method::PUT, bucket, &key);
    call.query.push(("partNumber", Some(number.to_string())));
    call.query.push(("uploadId", Some(upload)));
    with_length(&mut call, &visit.head.headers);
    let headers = send(visit, &call, body).await?;
    let etag = headers.get(header::ETAG).and_then(|value| value.to_str().ok());
    Ok(Reply::Json(json!({ "etag": etag })))
}

/// A part that the script has uploaded.
#[derive(Debug, Deserialize)]
struct UploadedPart {
    number: u32,
    etag: String,
}

/// Completes an upload.
pub(crate) async fn complete_upload(
    visit: &Visit<'_>,
    bucket: &str,
    body: HttpBody,
) -> Result<Reply, ApiError> {
    let UploadQuery { key, upload, .. } = visit.query()?;
    let body = read_bytes(body, COMPLETE_BYTES_MAX).await?;
    let parts: Vec<UploadedPart> = serde_json::from_slice(&body)
        .map_err(|_| ApiError::bad_request("The list of parts is malformed."))?;
    let mut xml = String::from("<CompleteMultipartUpload>");
    for UploadedPart { number, etag } in parts {
        // An entity tag is hexadecimal, so nothing in it needs an escape.
        let etag: String =
            etag.chars().filter(|char| char.is_ascii_alphanumeric() || *char == '-').collect();
        let _ =
            write!(xml, "<Part><PartNumber>{number}</PartNumber><ETag>\"{etag}\"</ETag></Part>");
    }
    xml.push_str("</CompleteMultipartUpload>");
    let mut call = on_object(Method::POST, bucket, &key);
    call.query.push(("uploadId", Some(upload)));
    let reply = visit.api().s3(&visit.actor, &call, xml.into()).await?;
    // A completion that fails late has the status 200 and an error document.
    if let Ok(failed) = Element::parse(&reply.body, "Error", XmlLimits::SMALL) {
        let message = failed.value("Message")?.unwrap_or("The upload failed.").to_owned();
        return Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message));
    }
    Ok(Reply::Done)
}

/// Aborts an upload.
pub(crate) async fn abort_upload(visit: &Visit<'_>, bucket: &str) -> Result<Reply, ApiError> {
    let UploadQuery { key, upload, .. } = visit.query()?;
    let mut call = on_object(Method::DELETE, bucket, &key);
    call.query.push(("uploadId", Some(upload)));
    visit.api().s3(&visit.actor, &call, Bytes::new()).await?;
    Ok(Reply::Done)
}

/// Uploads a small object in one request.
pub(crate) async fn put(
    visit: &Visit<'_>,
    bucket: &str,
    body: HttpBody,
) -> Result<Reply, ApiError> {
    let UploadQuery { key, kind, .. } = visit.query()?;
    let mut call = on_object(Method::PUT, bucket, &key);
    with_length(&mut call, &visit.head.headers);
    if let Ok(kind) = HeaderValue::from_str(&kind)
        && !kind.is_empty()
    {
        call.headers.insert(CONTENT_TYPE, kind);
    }
    send(visit, &call, body).await?;
    Ok(Reply::Done)
}

#[cfg(test)]
mod tests;

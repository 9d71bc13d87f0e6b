//! What every response carries, whether it comes from the gateway or from the edge in front of it.

use http::header::{CONTENT_LENGTH, SERVER};
use http::{HeaderName, HeaderValue, Method, Response, StatusCode};
use s3::Fault;

use crate::http::{HttpBody, RequestContext, Served, empty_body};
use crate::response::S3Response;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");
const HOST_ID: HeaderName = HeaderName::from_static("x-amz-id-2");

/// A response that says why a request was refused. Its [`Served`] has the error code.
pub fn refuse(context: &RequestContext, fault: &Fault) -> Response<HttpBody> {
    let id = context.id.0.as_str();
    let mut refusal = S3Response::xml(fault.status(), fault.to_xml(context.uri.path(), id, id));
    for (name, value) in &fault.headers {
        refusal.headers.insert(name.clone(), value.clone());
    }
    let mut response = refusal.into_response();
    let code = Some(fault.code.as_str());
    response.extensions_mut().insert(Served { operation: "Unserved", code, ..Served::default() });
    response
}

/// Adds to a response what every response carries, refusals included, and removes what the
/// request's method or the status forbids. Every response passes here once, just before it is sent.
///
/// Nothing is looked up here. What is known of the request by then is in the response's extensions:
/// [`Served`] is one of them.
pub fn finish(context: &RequestContext, response: Response<HttpBody>) -> Response<HttpBody> {
    let (mut head, mut body) = response.into_parts();
    let id = HeaderValue::from_str(&context.id.0).unwrap_or(HeaderValue::from_static("-"));
    head.headers.insert(HOST_ID, id.clone());
    head.headers.insert(REQUEST_ID, id);
    head.headers.insert(SERVER, HeaderValue::from_static("Ashlar"));
    if context.method == Method::HEAD {
        // The operation has set the length that the body would have. It stays.
        body = empty_body();
    } else if matches!(head.status, StatusCode::NOT_MODIFIED | StatusCode::NO_CONTENT) {
        head.headers.remove(CONTENT_LENGTH);
        body = empty_body();
    } else if let Some(bytes) = http_body::Body::size_hint(&body).exact() {
        // The length is decided here alone. A header that contradicts the body would break framing.
        head.headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes));
    }
    Response::from_parts(head, body)
}

#[cfg(test)]
mod tests;

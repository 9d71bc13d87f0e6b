//! What every answer carries, whoever gives it: the gateway, or the edge for one that never came
//! here.

use http::header::{CONTENT_LENGTH, SERVER};
use http::{HeaderName, HeaderValue, Method, Response, StatusCode};
use s3::Fault;

use crate::http::{HttpBody, RequestContext, Served, empty_body};
use crate::response::S3Response;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");
const HOST_ID: HeaderName = HeaderName::from_static("x-amz-id-2");

/// An answer that says why a request was refused, with the code as its [`Served`].
pub fn refuse(context: &RequestContext, fault: &Fault) -> Response<HttpBody> {
    let id = context.id.0.as_str();
    let mut answer = S3Response::xml(fault.status(), fault.to_xml(context.uri.path(), id, id));
    for (name, value) in &fault.headers {
        answer.headers.insert(name.clone(), value.clone());
    }
    let mut response = answer.into_response();
    let code = Some(fault.code.as_str());
    response.extensions_mut().insert(Served { operation: "Unserved", code, ..Served::default() });
    response
}

/// Puts on an answer what every answer carries, refusals included, and takes off what its request's
/// method or its status forbids. Every answer passes here once, just before it leaves.
///
/// Nothing is looked up here. What an answer says of the bucket that its request names is known by
/// then, from the answer's extensions: [`Served`] is one of them.
pub fn finish(context: &RequestContext, response: Response<HttpBody>) -> Response<HttpBody> {
    let (mut head, mut body) = response.into_parts();
    let id = HeaderValue::from_str(&context.id.0).unwrap_or(HeaderValue::from_static("-"));
    head.headers.insert(HOST_ID, id.clone());
    head.headers.insert(REQUEST_ID, id);
    head.headers.insert(SERVER, HeaderValue::from_static("Ashlar"));
    if context.method == Method::HEAD {
        // The length that the body would have stays, as the operation set it.
        body = empty_body();
    } else if matches!(head.status, StatusCode::NOT_MODIFIED | StatusCode::NO_CONTENT) {
        head.headers.remove(CONTENT_LENGTH);
        body = empty_body();
    } else if let Some(bytes) = http_body::Body::size_hint(&body).exact() {
        // One place decides the length: a body and a header that disagree would break framing.
        head.headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes));
    }
    Response::from_parts(head, body)
}

#[cfg(test)]
mod tests;

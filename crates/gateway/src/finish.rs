//! Headers of all responses: those of the gateway and those of the edge, the HTTP layer in front of
//! it that limits connections and requests.

use http::header::{CONTENT_LENGTH, SERVER};
use http::{HeaderName, HeaderValue, Method, Response, StatusCode};
use s3::Fault;

use crate::http::{HttpBody, RequestContext, Served, empty_body};
use crate::response::S3Response;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");
const HOST_ID: HeaderName = HeaderName::from_static("x-amz-id-2");

/// Returns the error response for a refused request. Its [`Served`] has the error code.
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

/// Adds the headers that all responses have, also refusals. Removes the body or the length if the
/// method or the status forbids it. Each response passes here once, just before it is sent.
///
/// This function looks nothing up. The facts about the request, such as [`Served`], are extensions
/// of the response.
pub fn finish(context: &RequestContext, response: Response<HttpBody>) -> Response<HttpBody> {
    let (mut head, mut body) = response.into_parts();
    // The id comes from the edge. A value that no header can hold is replaced, because each
    // response needs one.
    let id = HeaderValue::from_str(&context.id.0).unwrap_or(HeaderValue::from_static("-"));
    head.headers.insert(HOST_ID, id.clone());
    head.headers.insert(REQUEST_ID, id);
    head.headers.insert(SERVER, HeaderValue::from_static("Ashlar"));
    if context.method == Method::HEAD {
        // The operation has set the length that a GET would return. It stays.
        body = empty_body();
    } else if matches!(head.status, StatusCode::NOT_MODIFIED | StatusCode::NO_CONTENT) {
        head.headers.remove(CONTENT_LENGTH);
        body = empty_body();
    } else if let Some(bytes) = http_body::Body::size_hint(&body).exact() {
        // Only this place sets the length. A header that contradicts the body would break HTTP
        // framing.
        head.headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes));
    }
    Response::from_parts(head, body)
}

#[cfg(test)]
mod tests;

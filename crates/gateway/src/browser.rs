//! A person who opens the address of the S3 endpoint in a browser.
//!
//! S3 answers with an XML error there. If the operator names the URL of the console, the gateway
//! redirects the browser to it, as MinIO does. For example, `curl` and each S3 client still get the
//! answer of S3, because they do not ask for HTML.

use http::header::{ACCEPT, AUTHORIZATION, CACHE_CONTROL, LOCATION, USER_AGENT};
use http::request::Parts;
use http::{HeaderName, Method, StatusCode};
use identity::Authenticated;

use crate::response::S3Response;

/// Returns true if a request for the endpoint itself comes from a person with a browser: a GET or
/// HEAD of a page, without a query, a signature and any header of S3.
pub(crate) fn is_visit(head: &Parts) -> bool {
    let text = |name: HeaderName| {
        head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    };
    let is_of_s3 =
        |name: &HeaderName| *name == AUTHORIZATION || name.as_str().starts_with("x-amz-");
    matches!(head.method, Method::GET | Method::HEAD)
        && head.uri.query().is_none_or(str::is_empty)
        && head.extensions.get::<Authenticated>().is_none()
        && text(USER_AGENT).starts_with("Mozilla/")
        && text(ACCEPT).contains("text/html")
        && !head.headers.keys().any(is_of_s3)
}

/// Returns the redirection to the console.
pub(crate) fn redirect(url: &str) -> S3Response {
    let mut response = S3Response::empty(StatusCode::TEMPORARY_REDIRECT);
    response.set(LOCATION, url);
    // The operator can change the URL at any time.
    response.set_static(CACHE_CONTROL, "no-store");
    response
}

#[cfg(test)]
mod tests;

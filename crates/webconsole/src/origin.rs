//! The origin of a request: only pages of this console may send changes.
//!
//! Browsers send `Origin` with each POST, and no page can change it. For example, a form of
//! `https://evil.example` that posts to the console has `Origin: https://evil.example` and is
//! refused. The cookie of the login is `SameSite=Strict`, and each form has a token, too.

use std::net::{IpAddr, Ipv4Addr};

use adminapi::ApiError;
use http::StatusCode;
use http::header::{HOST, ORIGIN};
use http::request::Parts;
use identity::ClientAddress;

/// Fails with `WrongOrigin` if a change does not come from a page of this console.
pub(crate) fn check(head: &Parts) -> Result<(), ApiError> {
    let header =
        |name| head.headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
    let site = header(http::HeaderName::from_static("sec-fetch-site"));
    let host = host(head);
    let scheme = if is_secure(head) { "https" } else { "http" };
    let origin = header(ORIGIN).and_then(|origin| origin.split_once("://"));
    let is_same_host = match (origin, host) {
        // A proxy without --trusted-proxy hides the scheme; the browser then vouches for the site.
        (Some((sent, origin)), Some(host)) => {
            origin.eq_ignore_ascii_case(host) && (sent == scheme || site.is_some())
        }
        (None, _) | (_, None) => false,
    };
    if is_same_host && site.is_none_or(|site| site == "same-origin") {
        return Ok(());
    }
    let message = "The request does not come from a page of this console.";
    Err(ApiError::new(StatusCode::FORBIDDEN, "WrongOrigin", message))
}

/// Returns the host and port by which the client reaches the console.
pub(crate) fn host(head: &Parts) -> Option<&str> {
    let by_header = head.headers.get(HOST).and_then(|value| value.to_str().ok());
    by_header.or_else(|| head.uri.authority().map(http::uri::Authority::as_str))
}

/// Returns the address of the client, by which failed logins are counted.
pub(crate) fn client(head: &Parts) -> IpAddr {
    let client: Option<&ClientAddress> = head.extensions.get();
    client.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |client| client.address)
}

/// Returns true if the client reaches the console over TLS.
pub(crate) fn is_secure(head: &Parts) -> bool {
    let client: Option<&ClientAddress> = head.extensions.get();
    client.is_some_and(|client| client.tls.is_some())
}

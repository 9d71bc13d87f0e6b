//! The origin of a request: its client, its headers and its time.
//!
//! For example, a bucket policy denies requests without TLS with the condition key
//! `aws:SecureTransport`, whose value comes from [`ClientAddress::tls`].

use std::net::IpAddr;

use http::HeaderMap;
use time::OffsetDateTime;

/// The client of a request, as the listener of a view knows it. Conditions of policies use it, for
/// example `aws:SourceIp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress {
    /// The client's address, behind any trusted proxies.
    pub address: IpAddr,
    /// The TLS version between client and server: `1.2` or `1.3`; `None` without TLS. Behind a
    /// trusted proxy, the proxy's header decides, and the version is unknown: `Some(None)`.
    pub tls: Option<Option<&'static str>>,
    /// True if the client has connected from this machine itself, and not by a trusted proxy.
    pub is_local: bool,
}

/// The facts of a request, beside its signature, that conditions of policies may use.
#[derive(Clone, Copy, Debug)]
pub struct RequestOrigin<'a> {
    /// The HTTP headers. Policies see only `Referer` and `User-Agent` from here.
    pub headers: &'a HeaderMap,
    /// The client; `None` if the view does not know it.
    pub client: Option<ClientAddress>,
    /// The time at which the request is decided.
    pub now: OffsetDateTime,
}

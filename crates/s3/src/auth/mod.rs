//! Who sends a request, and the proof of it.
//!
//! [`Credentials`] says what proof a request carries: one of four kinds, decided once, before any
//! key is looked up. [`Credentials::verify`] is the only way to a [`Verified`], and a body is only
//! decoded for a [`Verified`]: no path around the signature reaches a byte of content.
//!
//! Nothing here knows who may do what, where keys are kept, or what time it is.

mod canonical;
mod header;
mod key;
mod payload;
mod presigned;
#[cfg(test)]
pub(crate) mod tests;
mod uri;
mod v2;
mod verify;

use http::{HeaderMap, Method};

use crate::{Code, Fault};

pub use header::HeaderSignature;
pub(crate) use key::SigningKey;
pub use payload::PayloadMode;
pub use presigned::PresignedV4;
use uri::Parameters;
pub use v2::PresignedV2;
pub(crate) use verify::ChunkSeed;
pub use verify::Verified;

/// A request's time may differ from ours by this many seconds, either way.
pub const SKEW_SECONDS_MAX: i64 = 15 * 60;

/// A presigned URL lives this many seconds at most: seven days.
pub const PRESIGN_SECONDS_MAX: i64 = 7 * 24 * 60 * 60;

/// The head of a request, exactly as it arrived.
///
/// Clients sign headers that no server looks at (`accept-encoding`, `expect`, `range`), so
/// nothing may drop or rewrite one on the way here.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    /// The method.
    pub method: &'a Method,
    /// The path of the request target, not decoded; empty or from its first `/` on.
    pub path: &'a str,
    /// The query of the request target, not decoded, without its question mark.
    pub query: &'a str,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The request target's authority: `:authority` of HTTP/2, or that of an absolute URI.
    pub authority: Option<&'a str>,
    /// The bucket, when the host names it and not the path. Only SigV2 needs to be told.
    pub host_bucket: Option<&'a str>,
}

impl<'a> RequestHead<'a> {
    /// The host that the request is for, with its port as sent.
    ///
    /// Fault: `InvalidArgument` when `Host` is given twice, or contradicts the request target.
    pub fn host(&self) -> Result<Option<&'a [u8]>, Fault> {
        let header = single(self.headers, "host")?;
        match (self.authority.map(str::as_bytes), header) {
            (Some(authority), Some(host)) if !authority.eq_ignore_ascii_case(host) => {
                Err(Fault::because(Code::InvalidArgument, "Host contradicts the request target.")
                    .with("ArgumentName", "Host"))
            }
            (_, Some(host)) => Ok(Some(host)),
            (authority, None) => Ok(authority),
        }
    }
}

/// On what terms a signature is accepted.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// Our region, which a credential's scope must name.
    pub region: &'a str,
    /// Whether SigV2 presigned URLs are accepted, for objects only.
    pub sigv2_presign: bool,
    /// Whether the operation takes bodies in chunks with signatures or trailers.
    pub may_stream: bool,
    /// The time by our clock.
    pub now: time::OffsetDateTime,
}

/// How a request proves who sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthKind {
    /// Not at all.
    Anonymous,
    /// SigV4 in the `Authorization` header.
    Header,
    /// SigV4 in the query: a presigned URL.
    Query,
    /// SigV2 in the query, as boto3 and the AWS CLI presign for their best-known regions.
    QueryV2,
}

/// The proof that a request carries, parsed but not yet checked.
#[derive(Clone, Debug)]
pub enum Credentials {
    /// None.
    Anonymous,
    /// A SigV4 `Authorization` header.
    Header(HeaderSignature),
    /// A SigV4 presigned URL.
    Query(PresignedV4),
    /// A SigV2 presigned URL.
    QueryV2(PresignedV2),
}

impl Credentials {
    /// Reads what a request carries.
    ///
    /// Faults: `InvalidArgument` for two proofs at once, for a header that may be there once and
    /// is there twice, and for an unknown scheme; `InvalidRequest` for SigV2 headers;
    /// `NotImplemented` for `AWS4-ECDSA-P256-SHA256`; `AuthorizationHeaderMalformed`,
    /// `AuthorizationQueryParametersError` and `AccessDenied` for malformed ones; `InvalidURI`.
    pub fn parse(request: &RequestHead<'_>) -> Result<Credentials, Fault> {
        request.host()?;
        let authorization = single(request.headers, "authorization")?;
        single(request.headers, "x-amz-date")?;
        single(request.headers, "x-amz-content-sha256")?;
        let parameters = Parameters::parse(request.query)?;
        let v4 = presigned::is_present(&parameters);
        let v2 = v2::is_present(&parameters);
        match (authorization, v4, v2) {
            (None, false, false) => Ok(Credentials::Anonymous),
            (Some(value), false, false) => {
                HeaderSignature::parse(value, request.headers).map(Credentials::Header)
            }
            (None, true, false) => PresignedV4::parse(&parameters).map(Credentials::Query),
            (None, false, true) => PresignedV2::parse(&parameters).map(Credentials::QueryV2),
            _ => Err(Fault::because(
                Code::InvalidArgument,
                "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, \
                 Signature query string parameter or the Authorization header should be specified",
            )
            .with("ArgumentName", "Authorization")),
        }
    }

    /// Which kind of proof this is.
    pub fn kind(&self) -> AuthKind {
        match self {
            Credentials::Anonymous => AuthKind::Anonymous,
            Credentials::Header(_) => AuthKind::Header,
            Credentials::Query(_) => AuthKind::Query,
            Credentials::QueryV2(_) => AuthKind::QueryV2,
        }
    }

    /// The access key whose secret [`verify`](Self::verify) needs. It is a claim, not yet proven.
    pub fn access_key(&self) -> Option<&str> {
        match self {
            Credentials::Anonymous => None,
            Credentials::Header(signature) => Some(signature.access_key()),
            Credentials::Query(signature) => Some(signature.access_key()),
            Credentials::QueryV2(signature) => Some(signature.access_key()),
        }
    }
}

/// The value of a header that may be given once.
fn single<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a [u8]>, Fault> {
    let mut values = headers.get_all(name).into_iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(Fault::because(Code::InvalidArgument, "A header is given more than once.")
            .with("ArgumentName", name));
    }
    Ok(first.map(|value| value.as_bytes().trim_ascii()))
}

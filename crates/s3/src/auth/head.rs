//! The head of a request as signatures cover it.

use http::{HeaderMap, Method};

use crate::{Code, Fault};

/// The head of a request, exactly as received.
///
/// Clients sign headers that the gateway does not use (`accept-encoding`, `expect`), so no header
/// may be removed or changed before verification.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    /// The method.
    pub method: &'a Method,
    /// The path of the request target, not decoded: empty, or beginning with `/`.
    pub path: &'a str,
    /// The query of the request target, not decoded, without the question mark.
    pub query: &'a str,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The authority of the request target: `:authority` of HTTP/2, or the authority of an absolute
    /// URI.
    pub authority: Option<&'a str>,
    /// The bucket, if the host names it and the path does not. Only SigV2 needs it.
    pub host_bucket: Option<&'a str>,
}

impl<'a> RequestHead<'a> {
    /// Returns the host of the request, with its port as sent.
    ///
    /// Fails with `InvalidArgument` if `Host` is repeated or differs from the request target.
    pub fn host(&self) -> Result<Option<&'a [u8]>, Fault> {
        let header = single(self.headers, "host")?;
        match (self.authority.map(str::as_bytes), header) {
            // Over HTTP/2 the authority replaces `Host`. If both exist and differ, the signature
            // could cover one host and routing use the other.
            (Some(authority), Some(host)) if !authority.eq_ignore_ascii_case(host) => {
                Err(Fault::because(Code::InvalidArgument, "Host differs from the request target.")
                    .with("ArgumentName", "Host"))
            }
            (_, Some(host)) => Ok(Some(host)),
            (authority, None) => Ok(authority),
        }
    }
}

/// Returns the value of a header that must not be repeated.
pub(super) fn single<'a>(
    headers: &'a HeaderMap,
    name: &'static str,
) -> Result<Option<&'a [u8]>, Fault> {
    let mut values = headers.get_all(name).into_iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(Fault::because(Code::InvalidArgument, "A header is given more than once.")
            .with("ArgumentName", name));
    }
    Ok(first.map(|value| value.as_bytes().trim_ascii()))
}

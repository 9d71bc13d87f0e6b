//! The head of a request, as signatures see it.

use http::{HeaderMap, Method};

use crate::{Code, Fault};

/// The head of a request, exactly as it arrived.
///
/// Clients sign headers that we do not use (`accept-encoding`, `expect`), so no header may be
/// dropped or rewritten before this.
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
    /// The bucket, if the host names it and the path does not. Only SigV2 needs it.
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

/// The value of a header that may be given once.
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

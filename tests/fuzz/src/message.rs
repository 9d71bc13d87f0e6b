//! A request as text: a request line, headers, an empty line, a body.

use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use s3::auth::RequestHead;

/// A request that the HTTP library accepts.
#[derive(Clone, Debug)]
pub(crate) struct Message<'a> {
    pub(crate) method: Method,
    pub(crate) target: PathAndQuery,
    pub(crate) headers: HeaderMap,
    pub(crate) body: &'a [u8],
}

impl<'a> Message<'a> {
    /// Parses `METHOD TARGET`, then headers, one a line, then the body. Returns `None` for a
    /// request that the HTTP library refuses.
    pub(crate) fn read(input: &'a [u8]) -> Option<Message<'a>> {
        let mut rest = input;
        let first = line(&mut rest)?;
        let space = first.iter().position(|byte| *byte == b' ')?;
        let method = Method::from_bytes(&first[..space]).ok()?;
        let target = PathAndQuery::try_from(&first[space + 1..]).ok()?;
        let mut headers = HeaderMap::new();
        while let Some(header) = line(&mut rest) {
            if header.is_empty() {
                break;
            }
            let colon = header.iter().position(|byte| *byte == b':')?;
            let name = HeaderName::from_bytes(&header[..colon]).ok()?;
            let value = HeaderValue::from_bytes(header[colon + 1..].trim_ascii()).ok()?;
            headers.try_append(name, value).ok()?;
        }
        Some(Message { method, target, headers, body: rest })
    }

    /// Returns the head for the verification of signatures.
    pub(crate) fn head(&self) -> RequestHead<'_> {
        RequestHead {
            method: &self.method,
            path: self.target.path(),
            query: self.query(),
            headers: &self.headers,
            authority: None,
            host_bucket: None,
        }
    }

    /// Returns the query without its question mark.
    pub(crate) fn query(&self) -> &str {
        self.target.query().unwrap_or_default()
    }

    /// Sets a header and replaces an earlier value.
    pub(crate) fn set(&mut self, name: &'static str, value: &str) {
        let value = HeaderValue::from_str(value).expect("a value of our own is a header's");
        self.headers.insert(name, value);
    }
}

/// Returns the bytes up to the next line feed or the end; `None` at the end.
fn line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    if rest.is_empty() {
        return None;
    }
    let end = rest.iter().position(|byte| *byte == b'\n');
    let (line, after) = rest.split_at(end.unwrap_or(rest.len()));
    *rest = after.get(1..).unwrap_or_default();
    Some(line.strip_suffix(b"\r").unwrap_or(line))
}

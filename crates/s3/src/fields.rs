//! Request headers, including the query parameters that replace headers in a presigned URL.

use http::HeaderMap;

use crate::{Code, Fault};

/// The headers of a request, and the headers that a presigned URL has in its query.
///
/// Names are in lower case. A value is text: visible ASCII or UTF-8. A header with an empty value
/// counts as absent, as in S3, because programs send headers whose value was never set. For
/// example, `x-amz-acl:` requests no ACL. `is_empty_significant` lists the exceptions.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    headers: &'a HeaderMap,
    hoisted: &'a [(String, String)],
}

impl<'a> Fields<'a> {
    /// Returns the headers of a request together with `hoisted`: the signed `x-amz-*` query
    /// parameters of a presigned URL, which replace headers. They have lower-case names and decoded
    /// values.
    pub fn new(headers: &'a HeaderMap, hoisted: &'a [(String, String)]) -> Fields<'a> {
        Fields { headers, hoisted }
    }

    /// Returns the only value of a header; `None` if the header is absent or empty.
    ///
    /// Fails with `InvalidArgument` if the header is repeated, is not UTF-8, or has control
    /// characters.
    pub fn get(&self, name: &str) -> Result<Option<&'a str>, Fault> {
        let mut values = self.values(name);
        let first = values.next().transpose()?;
        if values.next().is_some() {
            return Err(invalid(name, "A header is given more than once."));
        }
        Ok(first)
    }

    /// Returns all values of a header, joined by `,` as in HTTP and in signatures. Fails as `get`,
    /// but the header may be repeated.
    pub fn joined(&self, name: &str) -> Result<Option<String>, Fault> {
        join(self.values(name))
    }

    /// Returns the same as [`Fields::joined`], but empty values count. Preconditions of writes use
    /// it: a precondition that is empty by mistake must not allow the write.
    pub(crate) fn joined_with_empty(&self, name: &str) -> Result<Option<String>, Fault> {
        join(self.all_values(name))
    }

    /// Returns true if the header is present and not empty.
    pub fn has(&self, name: &str) -> bool {
        // A malformed value also counts as present; reading it fails.
        self.values(name).next().is_some()
    }

    /// Returns true if the header is present, even with an empty value.
    pub(crate) fn is_sent(&self, name: &str) -> bool {
        self.all_values(name).next().is_some()
    }

    /// Returns the distinct names of non-empty headers with this prefix, sorted.
    pub(crate) fn names(&self, prefix: &str) -> Vec<&'a str> {
        let mut names: Vec<&str> = self
            .headers
            .keys()
            .map(http::HeaderName::as_str)
            .chain(self.hoisted.iter().map(|(name, _)| name.as_str()))
            .filter(|name| name.starts_with(prefix) && self.has(name))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns the values of a header. Empty values are left out, unless `is_empty_significant` is
    /// true for the header.
    fn values<'n>(
        &self,
        name: &'n str,
    ) -> impl Iterator<Item = Result<&'a str, Fault>> + use<'a, 'n> {
        // An empty value is skipped like an absent header, unless the header is one of the
        // exceptions.
        let keeps_empty = is_empty_significant(name);
        self.all_values(name)
            .filter(move |value| keeps_empty || !value.as_ref().is_ok_and(|text| text.is_empty()))
    }

    /// Returns all values of a header, empty ones included.
    fn all_values<'n>(
        &self,
        name: &'n str,
    ) -> impl Iterator<Item = Result<&'a str, Fault>> + use<'a, 'n> {
        // Header values are raw bytes; hoisted values are already text. Both pass the same checks.
        let headers = self.headers.get_all(name).into_iter().map(http::HeaderValue::as_bytes);
        let hoisted = self.hoisted.iter().filter(move |(other, _)| other == name);
        let hoisted = hoisted.map(|(_, value)| value.as_bytes());
        headers.chain(hoisted).map(move |bytes| checked_text(name, bytes))
    }
}

/// Returns the value of the header `name` as text, without surrounding white space.
fn checked_text<'a>(name: &str, bytes: &'a [u8]) -> Result<&'a str, Fault> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| invalid(name, "A header is not UTF-8."))?
        .trim_matches([' ', '\t']);
    // A control character could end up in a response header or in a log.
    if text.chars().any(|character| character.is_control() && character != '\t') {
        return Err(invalid(name, "A header contains control characters."));
    }
    Ok(text)
}

fn join<'a>(
    mut values: impl Iterator<Item = Result<&'a str, Fault>>,
) -> Result<Option<String>, Fault> {
    let Some(first) = values.next().transpose()? else { return Ok(None) };
    let mut joined = first.to_owned();
    for value in values {
        joined.push(',');
        joined.push_str(value?);
    }
    Ok(Some(joined))
}

/// Returns true for headers whose empty value differs from an absent header. User metadata may be
/// empty. If one of the others counted as absent, fewer checks would apply, or the request would be
/// another operation that could replace or delete an object; so its parser sees the empty value and
/// refuses it.
fn is_empty_significant(name: &str) -> bool {
    name.starts_with("x-amz-meta-")
        || is_checksum(name)
        || is_of_customer_key(name)
        || [
            "x-amz-copy-source",
            "x-amz-rename-source",
            "x-amz-write-offset-bytes",
            "x-amz-if-match-size",
            "x-amz-if-match-last-modified-time",
        ]
        .contains(&name)
}

/// Returns true if the header belongs to a key of the client for SSE-C. A program that sends one
/// has a key, and its object must not be stored without it.
fn is_of_customer_key(name: &str) -> bool {
    ["x-amz-server-side-encryption-customer-", "x-amz-copy-source-server-side-encryption-"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// Returns true if the header has a checksum of the sent content.
fn is_checksum(name: &str) -> bool {
    let kind = name.strip_prefix("x-amz-checksum-");
    kind.is_some_and(|kind| !["algorithm", "mode", "type"].contains(&kind))
}

/// Returns `InvalidArgument` with the name of the header or field.
pub(crate) fn invalid(name: &str, why: &'static str) -> Fault {
    Fault::because(Code::InvalidArgument, why).with("ArgumentName", name)
}

#[cfg(test)]
mod tests;

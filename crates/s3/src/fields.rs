//! Headers, and the query parameters that a presigned URL carries in their place.

use http::HeaderMap;

use crate::{Code, Fault};

/// The headers of a request, with those that a presigned URL moved into its query.
///
/// Names are given in lower case. A value is text: visible ASCII or UTF-8. A header with an empty value
/// counts as absent, as S3 has it: programs forward headers that nothing was filled into. For example,
/// `x-amz-acl:` asks for no list. `is_empty_significant` has the exceptions.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    headers: &'a HeaderMap,
    hoisted: &'a [(String, String)],
}

impl<'a> Fields<'a> {
    /// `hoisted` are the signed `x-amz-*` query parameters, names in lower case, values decoded.
    pub fn new(headers: &'a HeaderMap, hoisted: &'a [(String, String)]) -> Fields<'a> {
        Fields { headers, hoisted }
    }

    /// The only value of a header.
    ///
    /// Fault: `InvalidArgument` when it is given twice, is not UTF-8 or holds control characters.
    pub fn get(&self, name: &str) -> Result<Option<&'a str>, Fault> {
        let mut values = self.values(name);
        let first = values.next().transpose()?;
        if values.next().is_some() {
            return Err(invalid(name, "A header is given more than once."));
        }
        Ok(first)
    }

    /// All values of a header, joined by `,` as HTTP and signing have it. Faults as `get`.
    pub fn joined(&self, name: &str) -> Result<Option<String>, Fault> {
        join(self.values(name))
    }

    /// As [`Fields::joined`], with empty values: for conditions of writes. A condition that came out
    /// empty by mistake must not let the write through.
    pub(crate) fn joined_with_empty(&self, name: &str) -> Result<Option<String>, Fault> {
        join(self.all_values(name))
    }

    /// Whether a header is there and not empty.
    pub fn has(&self, name: &str) -> bool {
        // A value that cannot be read is there. Reading it fails.
        self.values(name).next().is_some()
    }

    /// Whether a header is there, even an empty one.
    pub(crate) fn is_sent(&self, name: &str) -> bool {
        self.all_values(name).next().is_some()
    }

    /// The distinct names of headers that begin with `prefix` and are not empty, sorted.
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

    fn values(&self, name: &str) -> impl Iterator<Item = Result<&'a str, Fault>> {
        let keeps_empty = is_empty_significant(name);
        self.all_values(name)
            .filter(move |value| keeps_empty || !value.as_ref().is_ok_and(|text| text.is_empty()))
    }

    fn all_values(&self, name: &str) -> impl Iterator<Item = Result<&'a str, Fault>> {
        let headers = self.headers.get_all(name).into_iter().map(http::HeaderValue::as_bytes);
        let hoisted = self.hoisted.iter().filter(move |(other, _)| other == name);
        let name = name.to_owned();
        headers.chain(hoisted.map(|(_, value)| value.as_bytes())).map(move |bytes| {
            let text = std::str::from_utf8(bytes)
                .map_err(|_| invalid(&name, "A header is not UTF-8."))?
                .trim_matches([' ', '\t']);
            if text.chars().any(|character| character.is_control() && character != '\t') {
                return Err(invalid(&name, "A header holds control characters."));
            }
            Ok(text)
        })
    }
}

fn join<'a>(values: impl Iterator<Item = Result<&'a str, Fault>>) -> Result<Option<String>, Fault> {
    let values = values.collect::<Result<Vec<_>, _>>()?;
    Ok((!values.is_empty()).then(|| values.join(",")))
}

/// Headers whose empty value is not the same as no header. Metadata may be empty. Without one of the
/// others less would be checked, or the request would be another one and could replace or delete an
/// object: an empty one is refused by its reader.
fn is_empty_significant(name: &str) -> bool {
    name.starts_with("x-amz-meta-")
        || is_checksum(name)
        || [
            "x-amz-copy-source",
            "x-amz-rename-source",
            "x-amz-write-offset-bytes",
            "x-amz-if-match-size",
            "x-amz-if-match-last-modified-time",
        ]
        .contains(&name)
}

/// Whether a header holds a checksum of bytes that were sent.
fn is_checksum(name: &str) -> bool {
    let kind = name.strip_prefix("x-amz-checksum-");
    kind.is_some_and(|kind| !["algorithm", "mode", "type"].contains(&kind))
}

pub(crate) fn invalid(name: &str, why: &'static str) -> Fault {
    Fault::because(Code::InvalidArgument, why).with("ArgumentName", name)
}

#[cfg(test)]
mod tests;

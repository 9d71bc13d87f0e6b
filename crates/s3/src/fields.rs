//! Headers, and the query parameters that a presigned URL carries in their place.

use http::HeaderMap;

use crate::{Code, Fault};

/// The headers of a request, with those that a presigned URL moved into its query.
///
/// Names are given in lower case. A value is text: visible ASCII or UTF-8.
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
        let values = self.values(name).collect::<Result<Vec<_>, _>>()?;
        Ok((!values.is_empty()).then(|| values.join(",")))
    }

    /// Whether a header is there.
    pub fn has(&self, name: &str) -> bool {
        self.headers.contains_key(name) || self.hoisted.iter().any(|(other, _)| other == name)
    }

    /// The distinct names of headers that begin with `prefix`, sorted.
    pub(crate) fn names(&self, prefix: &str) -> Vec<&'a str> {
        let mut names: Vec<&str> = self
            .headers
            .keys()
            .map(http::HeaderName::as_str)
            .chain(self.hoisted.iter().map(|(name, _)| name.as_str()))
            .filter(|name| name.starts_with(prefix))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn values(&self, name: &str) -> impl Iterator<Item = Result<&'a str, Fault>> {
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

pub(crate) fn invalid(name: &str, why: &'static str) -> Fault {
    Fault::because(Code::InvalidArgument, why).with("ArgumentName", name)
}

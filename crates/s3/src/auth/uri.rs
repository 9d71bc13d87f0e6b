//! Request targets in the canonical encoding over which signatures are computed.
//!
//! Clients escape different sets of characters. For example, `/a b` and `/%61%20b` have the same
//! canonical path `/a%20b`.

use std::borrow::Cow;

use http::HeaderName;
use percent_encoding::percent_decode_str;
use sigv4::uri::{self, BrokenEscape};

use crate::{Code, Fault};

/// The maximum number of parameters in the query string of a request. A request with more is
/// refused.
const PARAMETERS_MAX: usize = 256;

/// Returns the canonical form of a raw path: each byte is escaped exactly once, and slashes are
/// unchanged.
///
/// Fails with `InvalidURI` if a `%` is not followed by two hex digits.
pub(super) fn canonical_path(raw: &str) -> Result<String, Fault> {
    uri::canonical_path(raw).map_err(broken_escape)
}

/// The parameters of a query in canonical encoding, in the order of arrival.
#[derive(Clone, Debug)]
pub(super) struct Parameters {
    parameters: Vec<(String, String)>,
}

impl Parameters {
    /// Parses a raw query. Fails with `InvalidURI` for a malformed escape or for more than 256
    /// parameters.
    pub(super) fn parse(raw: &str) -> Result<Parameters, Fault> {
        let mut parameters = Vec::new();
        for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
            // Each parameter is escaped and sorted, so their number is limited.
            if parameters.len() == PARAMETERS_MAX {
                let why = "The query has too many parameters.";
                return Err(Fault::new(Code::InvalidURI).detail(why));
            }
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let canonical = |text| uri::canonical_query_part(text).map_err(broken_escape);
            parameters.push((canonical(name)?, canonical(value)?));
        }
        Ok(Parameters { parameters })
    }

    /// Returns names and values, still escaped.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the values of a parameter, still escaped. The case of the name is ignored.
    pub(super) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.iter()
            .filter(move |(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    /// Returns true if the query has the parameter.
    pub(super) fn has(&self, name: &str) -> bool {
        self.values(name).next().is_some()
    }

    /// Returns the canonical query of SigV4: sorted by name, then by value, without the signature
    /// itself.
    pub(super) fn canonical(&self) -> String {
        uri::canonical_query(self.iter().filter(|(name, _)| *name != "X-Amz-Signature"))
    }
}

/// Decodes an escaped value. Fails with `InvalidURI` if it is not UTF-8.
pub(super) fn decode(escaped: &str) -> Result<Cow<'_, str>, Fault> {
    percent_decode_str(escaped).decode_utf8().map_err(|_| {
        Fault::new(Code::InvalidURI).detail("The query does not decode to UTF-8 text.")
    })
}

/// Returns the header name of a decoded parameter name, in lower case. `None` if it is not a valid
/// header name: a name with a colon or a line feed could be read as the line of another header.
pub(super) fn header_name(name: &str) -> Option<String> {
    HeaderName::from_bytes(name.as_bytes()).ok().map(|name| name.as_str().to_owned())
}

fn broken_escape(_: BrokenEscape) -> Fault {
    Fault::new(Code::InvalidURI).detail("A % in the URI is not followed by two hex digits.")
}

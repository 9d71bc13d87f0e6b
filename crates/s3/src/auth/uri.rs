//! Request targets in the one spelling that signatures are computed over, whatever their clients
//! chose to escape.

use std::borrow::Cow;

use http::HeaderName;
use percent_encoding::percent_decode_str;
use sigv4::uri::{self, BrokenEscape};

use crate::{Code, Fault};

/// A query string may have this many parameters.
const PARAMETERS_MAX: usize = 256;

/// The canonical spelling of a raw path: each byte escaped once, slashes kept as they are.
///
/// Fault: `InvalidURI` when a `%` is not followed by two hex digits.
pub(super) fn canonical_path(raw: &str) -> Result<String, Fault> {
    uri::canonical_path(raw).map_err(broken_escape)
}

/// The parameters of a query, in canonical spelling, in the order in which they arrived.
#[derive(Clone, Debug)]
pub(super) struct Parameters {
    parameters: Vec<(String, String)>,
}

impl Parameters {
    /// Reads a raw query. Faults: `InvalidURI` for broken escapes or more than 256 parameters.
    pub(super) fn parse(raw: &str) -> Result<Parameters, Fault> {
        let mut parameters = Vec::new();
        for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
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

    /// Names and values, still escaped.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The values of a parameter, still escaped. Names are compared without regard to case.
    pub(super) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.iter()
            .filter(move |(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    /// Whether a parameter is there.
    pub(super) fn has(&self, name: &str) -> bool {
        self.values(name).next().is_some()
    }

    /// The canonical query of SigV4: sorted by name, then value; the signature itself is left out.
    pub(super) fn canonical(&self) -> String {
        uri::canonical_query(self.iter().filter(|(name, _)| *name != "X-Amz-Signature"))
    }
}

/// Decodes an escaped value. Fault: `InvalidURI` when it is not UTF-8.
pub(super) fn decode(escaped: &str) -> Result<Cow<'_, str>, Fault> {
    percent_decode_str(escaped).decode_utf8().map_err(|_| {
        Fault::new(Code::InvalidURI).detail("The query does not decode to UTF-8 text.")
    })
}

/// A decoded parameter's name as that of the header that it stands for, in lower case; `None` if no
/// header can have it. A name with a colon or a line feed could be read as another header's line.
pub(super) fn header_name(name: &str) -> Option<String> {
    HeaderName::from_bytes(name.as_bytes()).ok().map(|name| name.as_str().to_owned())
}

fn broken_escape(_: BrokenEscape) -> Fault {
    Fault::new(Code::InvalidURI).detail("A % in the URI is not followed by two hex digits.")
}

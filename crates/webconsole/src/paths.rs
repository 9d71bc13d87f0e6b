//! Escapes of paths and queries.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The characters that RFC 3986 leaves as they are.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The same, and the slash between the parts of a path.
const PATH: &AsciiSet = &UNRESERVED.remove(b'/');

/// Returns a text escaped for one part of a path, or for a value of a query.
pub(crate) fn escape(text: &str) -> String {
    utf8_percent_encode(text, UNRESERVED).to_string()
}

/// Returns a key escaped for the path of an S3 request: its slashes stay.
pub(crate) fn escape_key(key: &str) -> String {
    utf8_percent_encode(key, PATH).to_string()
}

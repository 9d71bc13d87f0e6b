//! Parameters of listing pages: the maximum number of entries, and the encoding of keys.

use super::Arguments;
use crate::{Code, Fault};

/// The maximum number of entries on a page of a listing. A request for more gets this number.
const PAGE_MAX: u32 = 1000;

/// Returns the maximum number of entries on the page of a listing, from the query parameter `name`:
/// the requested number, at most 1000, or 1000 by default. Fails with `InvalidArgument`.
pub(super) fn page(arguments: &Arguments<'_>, name: &'static str) -> Result<u32, Fault> {
    Ok(arguments.count(name)?.map_or(PAGE_MAX, |count| count.min(PAGE_MAX)))
}

/// Returns true if the request asks that the response percent-encodes keys (`encoding-type=url`).
/// Fails with `InvalidArgument`.
pub(super) fn url_encoded(arguments: &Arguments<'_>) -> Result<bool, Fault> {
    match arguments.query.get("encoding-type")? {
        None | Some("") => Ok(false),
        Some(text) if text.eq_ignore_ascii_case("url") => Ok(true),
        Some(text) => Err(Fault::because(
            Code::InvalidArgument,
            "Invalid Encoding Method specified in Request",
        )
        .with("ArgumentName", "encoding-type")
        .with("ArgumentValue", text)),
    }
}

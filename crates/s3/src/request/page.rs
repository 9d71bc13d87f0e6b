//! Pages of listings: how many entries they have, and how keys are encoded.

use super::Arguments;
use crate::{Code, Fault};

/// Entries on a page, at most.
const PAGE_MAX: u32 = 1000;

/// The number of entries that a page may have; the most if the request does not say. Fault:
/// `InvalidArgument`.
pub(super) fn page(arguments: &Arguments<'_>, name: &'static str) -> Result<u32, Fault> {
    Ok(arguments.count(name)?.map_or(PAGE_MAX, |count| count.min(PAGE_MAX)))
}

/// Whether keys are percent-encoded in the response. Fault: `InvalidArgument`.
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

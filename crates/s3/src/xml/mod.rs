//! XML as S3 uses it: documents of elements and text.
//!
//! The writer produces only well-formed documents, except for keys with characters that XML 1.0
//! cannot represent; see [`Writer::text`]. The reader accepts only elements and text, within
//! limits: no document types, no entity declarations, no deep nesting, no long attribute lists. For
//! example, a "billion laughs" document is refused at its document type.
//!
//! Neither knows the meaning of a document; `request` and `response` do.

mod read;
mod write;

#[cfg(test)]
mod tests;

pub use read::{Element, XmlLimits};
pub(crate) use read::{malformed, parse_time};
pub use write::{DECLARATION, Writer, format_time, url_encode};
pub(crate) use write::{is_writable, push_digits};

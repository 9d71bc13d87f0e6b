//! XML as S3 uses it: documents of elements and text.
//!
//! The writer cannot produce a document that a parser refuses, whatever the keys and names in it.
//! The reader accepts elements and text only, within limits: no document types, no entities of
//! the sender's own, no deep nesting, no long lists of attributes. Neither knows what a document
//! means: `request` and `response` do.

mod read;
mod write;

#[cfg(test)]
mod tests;

pub use read::{Element, XmlLimits};
pub(crate) use read::{malformed, parse_time};
pub(crate) use write::is_writable;
pub use write::{DECLARATION, Writer, format_time, url_encode};

//! Bodies that are stored in the record of their file, and the limit of their length.
//!
//! For example, a body of 3 KiB under the key of its object is encrypted as a whole for the record.

use record::{Content, InlineBytes};

use super::ContentWriter;
use super::whole::{WholeBody, whole_bytes_max};
use crate::object_cipher;

impl ContentWriter {
    /// Returns a body that was kept whole as content for the record.
    pub(super) fn inline(&self, whole: WholeBody) -> Content {
        let bytes = whole.into_bytes();
        let bytes = match &self.keys.object {
            Some(key) => object_cipher::inline(key, &bytes),
            None => bytes,
        };
        Content::Inline(InlineBytes::under(bytes, self.keys.ring))
    }

    /// Returns the length of the longest body that is kept whole, in bytes.
    pub(super) fn whole_bytes_max(&self) -> u32 {
        match self.keys.object {
            Some(_) => self.staging.inline_bytes_max,
            None => whole_bytes_max(&self.staging, &self.packer),
        }
    }
}

//! The response to an upload from a browser.

use crate::xml::Writer;

/// The response to `PostObject` when the form asks for status 201.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostObjectOutput {
    /// The object's URL.
    pub location: String,
    /// The bucket's name.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// The object's ETag, without quotes.
    pub etag: String,
}

impl PostObjectOutput {
    /// The document. Unlike all others it has no namespace.
    pub fn to_xml(&self) -> String {
        let mut out = Writer::document();
        out.element("PostResponse", |out| {
            out.text("Location", &self.location);
            out.text("Bucket", &self.bucket);
            out.text("Key", &self.key);
            super::etag(out, &self.etag);
        });
        out.finish()
    }
}

//! The response to an upload from a browser.

use crate::xml::Writer;

/// The response to `PostObject` for a form that requests status 201.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostObjectOutput {
    /// The URL of the object.
    pub location: String,
    /// The name of the bucket.
    pub bucket: String,
    /// The key of the object.
    pub key: String,
    /// The ETag of the object, without quotes.
    pub etag: String,
}

impl PostObjectOutput {
    /// Returns the response as an XML document. Like the error document, it has no namespace.
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

//! The error document.

use crate::Fault;
use crate::xml::Writer;

/// The maximum number of bytes of a request path that the error document repeats: a key and its
/// bucket, percent-encoded once.
const RESOURCE_BYTES_MAX: usize = 3 * (1024 + 64);

impl Fault {
    /// Returns the XML error document of the fault. Responses to HEAD and responses with 304 have
    /// no body.
    ///
    /// `resource` is the path as the client sent it, decoded once. A path that is longer than any
    /// bucket and key is cut.
    pub fn to_xml(&self, resource: &str, request_id: &str, host_id: &str) -> String {
        // A path can be much longer than a key, and error documents must stay small.
        let resource = &resource[..resource.floor_char_boundary(RESOURCE_BYTES_MAX)];
        let mut out = Writer::document();
        out.element("Error", |out| {
            self.write_fields(out);
            out.text("Resource", resource);
            out.text("RequestId", request_id);
            out.text("HostId", host_id);
        });
        out.finish()
    }

    /// Writes the elements of the fault (code, message and further ones) into the open element, as
    /// in a list of results.
    pub(crate) fn write_fields(&self, out: &mut Writer) {
        out.text("Code", self.code.as_str());
        out.text("Message", &self.message);
        for (element, text) in &self.extra {
            out.text(element, text);
        }
        // S3 has no element `Detail`; it holds the explanation in our own words.
        out.optional("Detail", self.detail.as_deref());
    }
}

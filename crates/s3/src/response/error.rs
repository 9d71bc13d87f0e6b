//! The error document.

use crate::Fault;
use crate::xml::Writer;

/// Bytes of a request's path that its error document repeats: those of a key and its bucket,
/// encoded once.
const RESOURCE_BYTES_MAX: usize = 3 * (1024 + 64);

impl Fault {
    /// The error document. Not sent with HEAD and 304, which have no body.
    ///
    /// `resource` is the path as the client sent it, decoded once; of one that is longer than
    /// a bucket and a key can be, only the beginning is repeated.
    pub fn to_xml(&self, resource: &str, request_id: &str, host_id: &str) -> String {
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

    /// Code, message and extras, as they also stand in a list of results.
    pub(crate) fn write_fields(&self, out: &mut Writer) {
        out.text("Code", self.code.as_str());
        out.text("Message", &self.message);
        for (element, text) in &self.extra {
            out.text(element, text);
        }
        out.optional("Detail", self.detail.as_deref());
    }
}

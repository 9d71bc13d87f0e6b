//! The response to `DeleteObjects`.

use crate::Fault;
use crate::xml::Writer;

/// The response to `DeleteObjects`; what succeeded is left out if the request was quiet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteObjectsOutput {
    /// What is gone, or was never there.
    pub deleted: Vec<DeletedObject>,
    /// What could not be deleted.
    pub errors: Vec<DeleteError>,
}

/// An object that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedObject {
    /// Its key.
    pub key: String,
    /// The version asked for.
    pub version: Option<String>,
    /// The delete marker that was made or removed: its version id.
    pub delete_marker: Option<String>,
}

/// An object that could not be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteError {
    /// Its key.
    pub key: String,
    /// The version asked for.
    pub version: Option<String>,
    /// Why.
    pub fault: Fault,
}

impl DeleteObjectsOutput {
    /// The document.
    pub fn to_xml(&self) -> String {
        let mut out = Writer::document();
        out.root("DeleteResult", |out| {
            for deleted in &self.deleted {
                out.element("Deleted", |out| {
                    out.text("Key", &deleted.key);
                    out.optional("VersionId", deleted.version.as_deref());
                    if let Some(marker) = &deleted.delete_marker {
                        out.flag("DeleteMarker", true);
                        out.text("DeleteMarkerVersionId", marker);
                    }
                });
            }
            for error in &self.errors {
                out.element("Error", |out| {
                    out.text("Key", &error.key);
                    out.optional("VersionId", error.version.as_deref());
                    out.text("Code", error.fault.code.as_str());
                    out.text("Message", &error.fault.message);
                });
            }
        });
        out.finish()
    }
}

//! The response to `DeleteObjects`.

use crate::Fault;
use crate::xml::Writer;

/// The response to `DeleteObjects`. It omits the deleted objects if the request has `Quiet`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteObjectsOutput {
    /// The objects that were deleted or did not exist.
    pub deleted: Vec<DeletedObject>,
    /// The objects that could not be deleted.
    pub errors: Vec<DeleteError>,
}

/// An object that `DeleteObjects` deleted, or that did not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedObject {
    /// The key of the object.
    pub key: String,
    /// The version id in the request; `None` if the request named no version.
    pub version: Option<String>,
    /// The version id of the delete marker that was created or removed; `None` if there was none.
    pub delete_marker: Option<String>,
}

/// An object that `DeleteObjects` could not delete, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteError {
    /// The key of the object.
    pub key: String,
    /// The version id in the request; `None` if the request named no version.
    pub version: Option<String>,
    /// The reason why the object was not deleted.
    pub fault: Fault,
}

impl DeleteObjectsOutput {
    /// Returns the response as an XML document.
    pub fn to_xml(&self) -> String {
        let mut out = Writer::document();
        out.root("DeleteResult", |out| {
            for deleted in &self.deleted {
                out.element("Deleted", |out| {
                    out.text("Key", &deleted.key);
                    out.optional("VersionId", deleted.version.as_deref());
                    // S3 sends both elements only if a delete marker was created or removed.
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

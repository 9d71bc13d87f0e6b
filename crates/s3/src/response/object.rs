//! Responses about one object.

use time::OffsetDateTime;

use super::{Checksum, PartEntry};
use crate::xml::Writer;

/// The response to `CopyObject`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyObjectOutput {
    /// The ETag of the copy, without quotes.
    pub etag: String,
    /// The creation time of the copy.
    pub last_modified: OffsetDateTime,
    /// The checksum of the copy.
    pub checksum: Option<Checksum>,
}

/// The response to `UploadPartCopy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyPartOutput {
    /// The ETag of the part, without quotes.
    pub etag: String,
    /// The creation time of the part.
    pub last_modified: OffsetDateTime,
    /// The checksum of the part.
    pub checksum: Option<Checksum>,
}

impl CopyObjectOutput {
    /// Returns the response as an XML document.
    pub fn to_xml(&self) -> String {
        copy("CopyObjectResult", &self.etag, self.last_modified, self.checksum.as_ref())
    }
}

impl CopyPartOutput {
    /// Returns the response as an XML document.
    pub fn to_xml(&self) -> String {
        copy("CopyPartResult", &self.etag, self.last_modified, self.checksum.as_ref())
    }
}

fn copy(root: &str, etag: &str, time: OffsetDateTime, checksum: Option<&Checksum>) -> String {
    let mut out = Writer::document();
    out.root(root, |out| {
        super::etag(out, etag);
        out.time("LastModified", time);
        if let Some(checksum) = checksum {
            checksum.write(out);
        }
    });
    out.finish()
}

/// The response to `GetObjectAttributes`. Each field is present if it was requested and exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetObjectAttributesOutput {
    /// The ETag. Only this document shows it without quotes.
    pub etag: Option<String>,
    /// The checksum of the object.
    pub checksum: Option<Checksum>,
    /// The parts of a multipart object.
    pub parts: Option<ObjectParts>,
    /// The storage class of the object.
    pub storage_class: Option<String>,
    /// The size in bytes.
    pub size: Option<u64>,
}

/// The parts of a multipart object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectParts {
    /// The total number of parts.
    pub total: u32,
    /// The part number marker in the request: the page lists only parts with higher numbers.
    pub part_marker: u32,
    /// The part number marker with which a request gets the next page; `None` if no page follows.
    pub next_part_marker: Option<u32>,
    /// The maximum number of entries on the page that was applied. It may be less than the request
    /// asked for.
    pub max_parts: u32,
    /// The parts on the page. S3 lists them only if they have checksums.
    pub parts: Vec<PartEntry>,
}

impl GetObjectAttributesOutput {
    /// Returns the response as an XML document.
    pub fn to_xml(&self) -> String {
        let mut out = Writer::document();
        out.root("GetObjectAttributesResponse", |out| {
            out.optional("ETag", self.etag.as_deref());
            if let Some(checksum) = &self.checksum {
                out.element("Checksum", |out| checksum.write(out));
            }
            if let Some(parts) = &self.parts {
                out.element("ObjectParts", |out| parts.write(out));
            }
            out.optional("StorageClass", self.storage_class.as_deref());
            if let Some(size) = self.size {
                out.number("ObjectSize", size);
            }
        });
        out.finish()
    }
}

impl ObjectParts {
    fn write(&self, out: &mut Writer) {
        // The API reference names this element `TotalPartsCount`, but S3 sends `PartsCount`.
        out.number("PartsCount", self.total.into());
        out.number("PartNumberMarker", self.part_marker.into());
        if let Some(next) = self.next_part_marker {
            out.number("NextPartNumberMarker", next.into());
        }
        out.number("MaxParts", self.max_parts.into());
        out.flag("IsTruncated", self.next_part_marker.is_some());
        for part in &self.parts {
            out.element("Part", |out| {
                out.number("PartNumber", part.number.into());
                out.number("Size", part.size);
                if let Some(checksum) = &part.checksum {
                    out.text(checksum.algorithm.element(), &checksum.value);
                }
            });
        }
    }
}

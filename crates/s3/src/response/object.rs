//! Responses about one object.

use time::OffsetDateTime;

use super::{Checksum, PartEntry};
use crate::xml::Writer;

/// The response to `CopyObject`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyObjectOutput {
    /// The copy's ETag, without quotes.
    pub etag: String,
    /// When the copy was made.
    pub last_modified: OffsetDateTime,
    /// The copy's checksum.
    pub checksum: Option<Checksum>,
}

/// The response to `UploadPartCopy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyPartOutput {
    /// The part's ETag, without quotes.
    pub etag: String,
    /// When the part was made.
    pub last_modified: OffsetDateTime,
    /// The part's checksum.
    pub checksum: Option<Checksum>,
}

impl CopyObjectOutput {
    /// The document.
    pub fn to_xml(&self) -> String {
        copy("CopyObjectResult", &self.etag, self.last_modified, self.checksum.as_ref())
    }
}

impl CopyPartOutput {
    /// The document.
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

/// The response to `GetObjectAttributes`; each field is there if it was asked for and exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetObjectAttributesOutput {
    /// The ETag, which stands without quotes here and nowhere else.
    pub etag: Option<String>,
    /// The checksum.
    pub checksum: Option<Checksum>,
    /// The parts of a multipart object.
    pub parts: Option<ObjectParts>,
    /// The storage class.
    pub storage_class: Option<String>,
    /// The size in bytes.
    pub size: Option<u64>,
}

/// The parts of a multipart object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectParts {
    /// How many there are in all.
    pub total: u32,
    /// The number asked to start after.
    pub part_marker: u32,
    /// Where to go on, if more follows.
    pub next_part_marker: Option<u32>,
    /// The page size in force.
    pub max_parts: u32,
    /// The parts on the page; S3 lists them only where they have checksums.
    pub parts: Vec<PartEntry>,
}

impl GetObjectAttributesOutput {
    /// The document.
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
        // The API reference calls it TotalPartsCount, the wire PartsCount.
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

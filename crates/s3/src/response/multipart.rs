//! Responses about multipart uploads.

use time::OffsetDateTime;

use super::{Checksum, Keys, Owner};
use crate::request::{ChecksumAlgorithm, ChecksumType};
use crate::xml::Writer;

/// The response to `CreateMultipartUpload`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateMultipartUploadOutput {
    /// The name of the bucket.
    pub bucket: String,
    /// The key of the object.
    pub key: String,
    /// The upload id.
    pub upload_id: String,
}

impl CreateMultipartUploadOutput {
    /// Returns the response as an XML document.
    pub fn to_xml(&self) -> String {
        let mut out = Writer::document();
        out.root("InitiateMultipartUploadResult", |out| {
            out.text("Bucket", &self.bucket);
            out.text("Key", &self.key);
            out.text("UploadId", &self.upload_id);
        });
        out.finish()
    }
}

/// The response to `CompleteMultipartUpload`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompleteMultipartUploadOutput {
    /// The URL of the object.
    pub location: String,
    /// The name of the bucket.
    pub bucket: String,
    /// The key of the object.
    pub key: String,
    /// The ETag of the object, without quotes.
    pub etag: String,
    /// The checksum of the object, if the upload has one.
    pub checksum: Option<Checksum>,
}

impl CompleteMultipartUploadOutput {
    /// Returns the response as an XML document.
    pub fn to_xml(&self) -> String {
        let mut out = Writer::document();
        out.root("CompleteMultipartUploadResult", |out| {
            out.text("Location", &self.location);
            out.text("Bucket", &self.bucket);
            out.text("Key", &self.key);
            super::etag(out, &self.etag);
            if let Some(checksum) = &self.checksum {
                checksum.write(out);
            }
        });
        out.finish()
    }
}

/// The response to `ListParts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPartsOutput {
    /// The name of the bucket.
    pub bucket: String,
    /// The key of the object.
    pub key: String,
    /// The upload id.
    pub upload_id: String,
    /// The initiator of the upload, who will own the object.
    pub owner: Owner,
    /// The part number marker in the request: the page lists only parts with higher numbers.
    pub part_marker: u32,
    /// The part number marker with which a request gets the next page; `None` if no page follows.
    pub next_part_marker: Option<u32>,
    /// The maximum number of entries on the page that was applied. It may be less than the request
    /// asked for.
    pub max_parts: u32,
    /// The parts, sorted by number.
    pub parts: Vec<PartEntry>,
    /// The checksum algorithm and type of the upload.
    pub checksum: Option<(ChecksumAlgorithm, ChecksumType)>,
    /// True if the key is percent-encoded.
    pub url_encoded: bool,
}

/// A part in `ListParts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartEntry {
    /// The part number.
    pub number: u32,
    /// The time when the part was uploaded.
    pub last_modified: OffsetDateTime,
    /// The ETag, without quotes.
    pub etag: String,
    /// The size in bytes.
    pub size: u64,
    /// The checksum.
    pub checksum: Option<Checksum>,
}

impl ListPartsOutput {
    /// Returns the response as an XML document.
    pub fn to_xml(&self) -> String {
        let keys = Keys { url_encoded: self.url_encoded };
        let mut out = Writer::document();
        out.root("ListPartsResult", |out| {
            out.text("Bucket", &self.bucket);
            keys.encoding_type(out);
            keys.text(out, "Key", &self.key);
            out.text("UploadId", &self.upload_id);
            // S3 distinguishes initiator and owner; here the initiator becomes the owner.
            self.owner.write(out, "Initiator");
            self.owner.write(out, "Owner");
            out.text("StorageClass", "STANDARD");
            out.number("PartNumberMarker", self.part_marker.into());
            if let Some(next) = self.next_part_marker {
                out.number("NextPartNumberMarker", next.into());
            }
            out.number("MaxParts", self.max_parts.into());
            out.flag("IsTruncated", self.next_part_marker.is_some());
            // S3 sends `null` for an upload without a checksum algorithm.
            let (algorithm, kind) = match self.checksum {
                Some((algorithm, kind)) => (algorithm.as_str(), kind.as_str()),
                None => ("null", "null"),
            };
            out.text("ChecksumAlgorithm", algorithm);
            out.text("ChecksumType", kind);
            for part in &self.parts {
                out.element("Part", |out| {
                    out.number("PartNumber", part.number.into());
                    out.time("LastModified", part.last_modified);
                    super::etag(out, &part.etag);
                    out.number("Size", part.size);
                    if let Some(checksum) = &part.checksum {
                        out.text(checksum.algorithm.element(), &checksum.value);
                    }
                });
            }
        });
        out.finish()
    }
}

/// The response to `ListMultipartUploads`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListMultipartUploadsOutput {
    /// The name of the bucket.
    pub bucket: String,
    /// The prefix in the request.
    pub prefix: String,
    /// The delimiter in the request, if any.
    pub delimiter: Option<String>,
    /// The key marker in the request.
    pub key_marker: String,
    /// The upload id marker in the request.
    pub upload_marker: String,
    /// The markers of the next page, key and upload id; `Some` if and only if another page follows.
    pub next: Option<(String, String)>,
    /// The maximum number of entries on the page that was applied. It may be less than the request
    /// asked for.
    pub max_uploads: u32,
    /// True if keys are percent-encoded.
    pub url_encoded: bool,
    /// The uploads, sorted by key and then by start time.
    pub uploads: Vec<UploadEntry>,
    /// The common prefixes in order: each replaces all uploads whose keys begin with it, up to the
    /// delimiter.
    pub common_prefixes: Vec<String>,
}

/// An upload in `ListMultipartUploads`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadEntry {
    /// The key of the object.
    pub key: String,
    /// The upload id.
    pub upload_id: String,
    /// The start time of the upload.
    pub initiated: OffsetDateTime,
    /// The initiator of the upload, who will own the object.
    pub owner: Owner,
    /// The checksum algorithm and type of the upload.
    pub checksum: Option<(ChecksumAlgorithm, ChecksumType)>,
}

impl ListMultipartUploadsOutput {
    /// Returns the response as an XML document.
    pub fn to_xml(&self) -> String {
        let keys = Keys { url_encoded: self.url_encoded };
        let mut out = Writer::document();
        out.root("ListMultipartUploadsResult", |out| {
            out.text("Bucket", &self.bucket);
            keys.text(out, "KeyMarker", &self.key_marker);
            out.text("UploadIdMarker", &self.upload_marker);
            if let Some((key, upload)) = &self.next {
                keys.text(out, "NextKeyMarker", key);
                out.text("NextUploadIdMarker", upload);
            }
            keys.text(out, "Prefix", &self.prefix);
            keys.optional(out, "Delimiter", self.delimiter.as_deref());
            out.number("MaxUploads", self.max_uploads.into());
            out.flag("IsTruncated", self.next.is_some());
            keys.encoding_type(out);
            for upload in &self.uploads {
                out.element("Upload", |out| {
                    keys.text(out, "Key", &upload.key);
                    out.text("UploadId", &upload.upload_id);
                    upload.owner.write(out, "Initiator");
                    upload.owner.write(out, "Owner");
                    out.text("StorageClass", "STANDARD");
                    out.time("Initiated", upload.initiated);
                    if let Some((algorithm, kind)) = upload.checksum {
                        out.text("ChecksumAlgorithm", algorithm.as_str());
                        out.text("ChecksumType", kind.as_str());
                    }
                });
            }
            keys.common_prefixes(out, &self.common_prefixes);
        });
        out.finish()
    }
}

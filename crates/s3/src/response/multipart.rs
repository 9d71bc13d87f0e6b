//! Responses about multipart uploads.

use time::OffsetDateTime;

use super::{Checksum, Keys, Owner};
use crate::request::{ChecksumAlgorithm, ChecksumType};
use crate::xml::Writer;

/// The response to `CreateMultipartUpload`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateMultipartUploadOutput {
    /// The bucket's name.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// The upload's id.
    pub upload_id: String,
}

impl CreateMultipartUploadOutput {
    /// The document.
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
    /// The object's URL.
    pub location: String,
    /// The bucket's name.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// The object's ETag, without quotes.
    pub etag: String,
    /// The object's checksum, if the upload has one.
    pub checksum: Option<Checksum>,
}

impl CompleteMultipartUploadOutput {
    /// The document.
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
    /// The bucket's name.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// The upload's id.
    pub upload_id: String,
    /// Who began and will own it.
    pub owner: Owner,
    /// The number asked to start after.
    pub part_marker: u32,
    /// Where to go on, if more follows.
    pub next_part_marker: Option<u32>,
    /// The page size in force.
    pub max_parts: u32,
    /// The parts, by number.
    pub parts: Vec<PartEntry>,
    /// The upload's checksum.
    pub checksum: Option<(ChecksumAlgorithm, ChecksumType)>,
    /// Whether the key is percent-encoded.
    pub url_encoded: bool,
}

/// A part in `ListParts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartEntry {
    /// Its number.
    pub number: u32,
    /// When it arrived.
    pub last_modified: OffsetDateTime,
    /// Its ETag, without quotes.
    pub etag: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its checksum.
    pub checksum: Option<Checksum>,
}

impl ListPartsOutput {
    /// The document.
    pub fn to_xml(&self) -> String {
        let keys = Keys { url_encoded: self.url_encoded };
        let mut out = Writer::document();
        out.root("ListPartsResult", |out| {
            out.text("Bucket", &self.bucket);
            keys.encoding_type(out);
            keys.text(out, "Key", &self.key);
            out.text("UploadId", &self.upload_id);
            self.owner.write(out, "Initiator");
            self.owner.write(out, "Owner");
            out.text("StorageClass", "STANDARD");
            out.number("PartNumberMarker", self.part_marker.into());
            if let Some(next) = self.next_part_marker {
                out.number("NextPartNumberMarker", next.into());
            }
            out.number("MaxParts", self.max_parts.into());
            out.flag("IsTruncated", self.next_part_marker.is_some());
            // S3 says so where the upload was begun without one.
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
    /// The bucket's name.
    pub bucket: String,
    /// The prefix asked for.
    pub prefix: String,
    /// The delimiter asked for.
    pub delimiter: Option<String>,
    /// The key asked to start after.
    pub key_marker: String,
    /// The upload asked to start after.
    pub upload_marker: String,
    /// Where to go on: key and upload; `Some` exactly if more follows.
    pub next: Option<(String, String)>,
    /// The page size in force.
    pub max_uploads: u32,
    /// Whether keys are percent-encoded.
    pub url_encoded: bool,
    /// The uploads, by key and then by start.
    pub uploads: Vec<UploadEntry>,
    /// The common prefixes, in order.
    pub common_prefixes: Vec<String>,
}

/// An upload in `ListMultipartUploads`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadEntry {
    /// Its key.
    pub key: String,
    /// Its id.
    pub upload_id: String,
    /// When it began.
    pub initiated: OffsetDateTime,
    /// Who began and will own it.
    pub owner: Owner,
    /// Its checksum.
    pub checksum: Option<(ChecksumAlgorithm, ChecksumType)>,
}

impl ListMultipartUploadsOutput {
    /// The document.
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

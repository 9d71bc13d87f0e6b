//! Listings of objects and versions.

use std::sync::Arc;

use time::OffsetDateTime;

use super::{Keys, Owner};
use crate::metadata::STANDARD;
use crate::request::{ChecksumAlgorithm, ChecksumType};
use crate::xml::Writer;

/// Returns the approximate size in bytes of a listing document with this number of entries, to
/// allocate its memory. Keys are rarely long.
fn page_bytes(entries: usize) -> usize {
    1_024 + 384 * entries
}

/// An object in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectEntry {
    /// The key of the object.
    pub key: String,
    /// The time when the content or the name last changed.
    pub last_modified: OffsetDateTime,
    /// The ETag of the object, without quotes.
    pub etag: String,
    /// The size of the object in bytes.
    pub size: u64,
    /// The algorithm and type of the checksum, if known.
    pub checksum: Option<(ChecksumAlgorithm, ChecksumType)>,
    /// The storage class of the object; `None` for `STANDARD`.
    pub storage_class: Option<&'static str>,
    /// The owner, if requested. Most entries of a listing have the same one.
    pub owner: Option<Arc<Owner>>,
}

impl ObjectEntry {
    fn write(&self, out: &mut Writer, keys: Keys) {
        // The markup between two values is one piece, because a page has up to 1,000 entries with
        // some fifteen tags each.
        out.literal("<Contents><Key>");
        keys.characters(out, &self.key);
        out.literal("</Key><LastModified>");
        out.time_characters(self.last_modified);
        out.literal("</LastModified><ETag>&quot;");
        out.characters(&self.etag);
        out.literal("&quot;</ETag>");
        write_checksum(out, self.checksum);
        out.literal("<Size>");
        out.digits(self.size);
        out.literal("</Size>");
        if let Some(owner) = &self.owner {
            owner.write(out, "Owner");
        }
        out.literal("<StorageClass>");
        out.characters(self.storage_class.unwrap_or(STANDARD));
        out.literal("</StorageClass></Contents>");
    }
}

fn write_checksum(out: &mut Writer, checksum: Option<(ChecksumAlgorithm, ChecksumType)>) {
    if let Some((algorithm, kind)) = checksum {
        out.text("ChecksumAlgorithm", algorithm.as_str());
        out.text("ChecksumType", kind.as_str());
    }
}

/// The response to `ListObjects`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListObjectsOutput {
    /// The name of the bucket.
    pub name: String,
    /// The prefix in the request, if any.
    pub prefix: Option<String>,
    /// The marker in the request, if any: the page lists only keys after it.
    pub marker: Option<String>,
    /// The delimiter in the request, if any.
    pub delimiter: Option<String>,
    /// The maximum number of entries on the page that was applied. It may be less than the request
    /// asked for.
    pub max_keys: u32,
    /// True if keys are percent-encoded.
    pub url_encoded: bool,
    /// True if another page follows.
    pub truncated: bool,
    /// The marker with which a request gets the next page; `None` if no page follows.
    pub next_marker: Option<String>,
    /// The objects, in key order.
    pub contents: Vec<ObjectEntry>,
    /// The common prefixes in order: each replaces all keys that begin with it, up to the
    /// delimiter.
    pub common_prefixes: Vec<String>,
}

impl ListObjectsOutput {
    /// Returns the response as an XML document.
    pub fn to_xml(&self) -> String {
        let keys = Keys { url_encoded: self.url_encoded };
        let mut out =
            Writer::with_capacity(page_bytes(self.contents.len() + self.common_prefixes.len()));
        out.root("ListBucketResult", |out| {
            out.text("Name", &self.name);
            keys.optional(out, "Prefix", self.prefix.as_deref());
            keys.optional(out, "Marker", self.marker.as_deref());
            keys.optional(out, "NextMarker", self.next_marker.as_deref());
            out.number("MaxKeys", self.max_keys.into());
            keys.optional(out, "Delimiter", self.delimiter.as_deref());
            out.flag("IsTruncated", self.truncated);
            keys.encoding_type(out);
            self.contents.iter().for_each(|object| object.write(out, keys));
            keys.common_prefixes(out, &self.common_prefixes);
        });
        out.finish()
    }
}

/// The response to `ListObjectsV2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListObjectsV2Output {
    /// The name of the bucket.
    pub name: String,
    /// The prefix in the request, if any.
    pub prefix: Option<String>,
    /// The delimiter in the request, if any.
    pub delimiter: Option<String>,
    /// The maximum number of entries on the page that was applied. It may be less than the request
    /// asked for.
    pub max_keys: u32,
    /// True if keys are percent-encoded.
    pub url_encoded: bool,
    /// The continuation token in the request, as sent.
    pub token: Option<String>,
    /// The token of the next page; `Some` if and only if another page follows.
    pub next_token: Option<String>,
    /// The key `start-after` in the request, if any.
    pub start_after: Option<String>,
    /// The objects, in key order.
    pub contents: Vec<ObjectEntry>,
    /// The common prefixes in order: each replaces all keys that begin with it, up to the
    /// delimiter.
    pub common_prefixes: Vec<String>,
}

impl ListObjectsV2Output {
    /// Returns the response as an XML document.
    pub fn to_xml(&self) -> String {
        let keys = Keys { url_encoded: self.url_encoded };
        let mut out =
            Writer::with_capacity(page_bytes(self.contents.len() + self.common_prefixes.len()));
        out.root("ListBucketResult", |out| {
            out.text("Name", &self.name);
            keys.optional(out, "Prefix", self.prefix.as_deref());
            out.optional("ContinuationToken", self.token.as_deref());
            out.optional("NextContinuationToken", self.next_token.as_deref());
            keys.optional(out, "StartAfter", self.start_after.as_deref());
            // S3 counts a common prefix as one key.
            out.number("KeyCount", (self.contents.len() + self.common_prefixes.len()) as u64);
            out.number("MaxKeys", self.max_keys.into());
            keys.optional(out, "Delimiter", self.delimiter.as_deref());
            out.flag("IsTruncated", self.next_token.is_some());
            keys.encoding_type(out);
            self.contents.iter().for_each(|object| object.write(out, keys));
            keys.common_prefixes(out, &self.common_prefixes);
        });
        out.finish()
    }
}

/// The response to `ListObjectVersions`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListObjectVersionsOutput {
    /// The name of the bucket.
    pub name: String,
    /// The prefix in the request.
    pub prefix: String,
    /// The key marker in the request.
    pub key_marker: String,
    /// The version marker in the request.
    pub version_marker: String,
    /// The delimiter in the request, if any.
    pub delimiter: Option<String>,
    /// The maximum number of entries on the page that was applied. It may be less than the request
    /// asked for.
    pub max_keys: u32,
    /// True if keys are percent-encoded.
    pub url_encoded: bool,
    /// True if another page follows.
    pub truncated: bool,
    /// The key marker of the next page: a key or a common prefix.
    pub next_key_marker: Option<String>,
    /// The version marker of the next page: a version of that key.
    pub next_version_marker: Option<String>,
    /// The versions and delete markers, sorted by key, newest first.
    pub versions: Vec<VersionEntry>,
    /// The common prefixes in order: each replaces all keys that begin with it, up to the
    /// delimiter.
    pub common_prefixes: Vec<String>,
}

/// An object version or a delete marker in a listing of versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionEntry {
    /// The key of the object.
    pub key: String,
    /// The version id; `null` in a bucket without versioning.
    pub version: String,
    /// True for the current version.
    pub is_latest: bool,
    /// The time when the content or the name last changed.
    pub last_modified: OffsetDateTime,
    /// The ETag without quotes, and the size in bytes; `None` for a delete marker.
    pub content: Option<(String, u64)>,
    /// The algorithm and type of the checksum, if known.
    pub checksum: Option<(ChecksumAlgorithm, ChecksumType)>,
    /// The storage class of the object; `None` for `STANDARD`.
    pub storage_class: Option<&'static str>,
    /// The owner of the object.
    pub owner: Owner,
}

impl ListObjectVersionsOutput {
    /// Returns the response as an XML document.
    pub fn to_xml(&self) -> String {
        let keys = Keys { url_encoded: self.url_encoded };
        let mut out =
            Writer::with_capacity(page_bytes(self.versions.len() + self.common_prefixes.len()));
        out.root("ListVersionsResult", |out| {
            out.text("Name", &self.name);
            keys.text(out, "Prefix", &self.prefix);
            keys.text(out, "KeyMarker", &self.key_marker);
            out.text("VersionIdMarker", &self.version_marker);
            keys.optional(out, "NextKeyMarker", self.next_key_marker.as_deref());
            out.optional("NextVersionIdMarker", self.next_version_marker.as_deref());
            out.number("MaxKeys", self.max_keys.into());
            keys.optional(out, "Delimiter", self.delimiter.as_deref());
            out.flag("IsTruncated", self.truncated);
            keys.encoding_type(out);
            self.versions.iter().for_each(|version| version.write(out, keys));
            keys.common_prefixes(out, &self.common_prefixes);
        });
        out.finish()
    }
}

impl VersionEntry {
    fn write(&self, out: &mut Writer, keys: Keys) {
        // A delete marker has no ETag, size or storage class.
        let element = if self.content.is_some() { "Version" } else { "DeleteMarker" };
        out.element(element, |out| {
            keys.text(out, "Key", &self.key);
            out.text("VersionId", &self.version);
            out.flag("IsLatest", self.is_latest);
            out.time("LastModified", self.last_modified);
            if let Some((etag, size)) = &self.content {
                super::etag(out, etag);
                write_checksum(out, self.checksum);
                out.number("Size", *size);
                out.text("StorageClass", self.storage_class.unwrap_or(STANDARD));
            }
            self.owner.write(out, "Owner");
        });
    }
}

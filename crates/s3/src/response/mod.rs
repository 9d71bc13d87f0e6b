//! Response documents: plain values that are written as XML.
//!
//! An `ETag` in these values has no quotes; the writers add them. For example, `CopyObjectOutput {
//! etag: "9e10…", .. }` is written as `<ETag>&quot;9e10…&quot;</ETag>`.
//!
//! Invariant: each document begins with `xml::DECLARATION`. A slow operation can therefore send the
//! declaration first, then white space as a keep-alive, and the document when it is complete.

mod acl;
mod bucket;
mod delete;
mod error;
mod list;
mod multipart;
mod object;
mod post;

pub use acl::AccessControlPolicy;
pub use bucket::{
    BucketEntry, ListBucketsOutput, LocationConstraint, ownership_controls, policy_status,
    public_access_block,
};
pub use delete::{DeleteError, DeleteObjectsOutput, DeletedObject};
pub use list::{
    ListObjectVersionsOutput, ListObjectsOutput, ListObjectsV2Output, ObjectEntry, VersionEntry,
};
pub use multipart::{
    CompleteMultipartUploadOutput, CreateMultipartUploadOutput, ListMultipartUploadsOutput,
    ListPartsOutput, PartEntry, UploadEntry,
};
pub use object::{CopyObjectOutput, CopyPartOutput, GetObjectAttributesOutput, ObjectParts};
pub use post::PostObjectOutput;

use crate::request::{ChecksumAlgorithm, ChecksumType};
use crate::xml::Writer;

/// The owner of a bucket or object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The canonical id.
    pub id: String,
    /// The display name.
    pub display_name: String,
}

/// A checksum in a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// The algorithm.
    pub algorithm: ChecksumAlgorithm,
    /// The value in base64, with `-N` for a composite checksum of N parts.
    pub value: String,
    /// The type of the checksum, if the response has an element for it.
    pub kind: Option<ChecksumType>,
}

impl Owner {
    pub(crate) fn write(&self, out: &mut Writer, element: &str) {
        out.element(element, |out| {
            out.text("ID", &self.id);
            out.text("DisplayName", &self.display_name);
        });
    }
}

impl Checksum {
    fn write(&self, out: &mut Writer) {
        out.text(self.algorithm.element(), &self.value);
        out.optional("ChecksumType", self.kind.map(ChecksumType::as_str));
    }
}

/// Writes the element `ETag` with quotes around the value.
fn etag(out: &mut Writer, etag: &str) {
    out.quoted("ETag", etag);
}

/// The encoding of keys in a listing.
#[derive(Clone, Copy, Debug)]
struct Keys {
    url_encoded: bool,
}

impl Keys {
    fn text(self, out: &mut Writer, element: &str, key: &str) {
        if self.url_encoded {
            out.url_encoded(element, key);
        } else {
            out.text(element, key);
        }
    }

    /// Writes a key directly into the open element.
    fn characters(self, out: &mut Writer, key: &str) {
        if self.url_encoded {
            out.url_characters(key);
        } else {
            out.characters(key);
        }
    }

    fn optional(self, out: &mut Writer, element: &str, key: Option<&str>) {
        if let Some(key) = key {
            self.text(out, element, key);
        }
    }

    fn common_prefixes(self, out: &mut Writer, prefixes: &[String]) {
        for prefix in prefixes {
            out.element("CommonPrefixes", |out| self.text(out, "Prefix", prefix));
        }
    }

    fn encoding_type(self, out: &mut Writer) {
        if self.url_encoded {
            out.text("EncodingType", "url");
        }
    }
}

//! The documents of responses. Each is a plain value that can be written as XML.
//!
//! An ETag comes without quotes and gets them here. A document always begins with the declaration
//! `xml::DECLARATION`, so that a response that takes long can send it first and white space after
//! it until the rest is known.

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

/// Who owns a bucket or an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The id.
    pub id: String,
    /// The name for people.
    pub display_name: String,
}

/// A checksum as responses show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// Its algorithm.
    pub algorithm: ChecksumAlgorithm,
    /// Its value in base64, with `-N` if it is composite.
    pub value: String,
    /// Its type, if the response states it.
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

/// Writes an ETag with its quotes.
fn etag(out: &mut Writer, etag: &str) {
    out.quoted("ETag", etag);
}

/// How keys are encoded in a listing.
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

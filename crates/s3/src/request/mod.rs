//! What each operation asks for, parsed once from query, headers and body.
//!
//! A request is a plain value, and nothing else of the HTTP request is needed to carry it out. What
//! S3 knows and we do not serve is refused here, never ignored: a client that asked for encryption
//! or a lock must not believe that it got one.

mod bucket;
mod checksum;
mod delete;
mod list;
mod multipart;
mod page;
mod read;
mod token;
mod unserved;
mod write;

pub use bucket::{CreateBucket, parse_acl};
pub use checksum::{ChecksumAlgorithm, ChecksumType};
pub use delete::{DeleteObject, DeleteObjects, Deletion};
pub use list::{ListBuckets, ListMultipartUploads, ListObjectVersions, ListObjects, ListObjectsV2};
pub use multipart::{
    AbortMultipartUpload, CompleteMultipartUpload, CompletedPart, CreateMultipartUpload, ListParts,
    PartNumber, UploadIdText, UploadPart, UploadPartCopy,
};
pub use read::{GetObject, GetObjectAttributes, ObjectAttribute};
pub use token::ContinuationToken;
pub use write::{CopyObject, Directive, PutObject};

pub use crate::fields::Fields;
use crate::fields::invalid;
use crate::name::VersionId;
pub use crate::query::Query;
use crate::{Code, Fault};

/// What a request says besides its method and resource.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    /// The query string.
    pub query: &'a Query,
    /// The headers, hoisted ones included.
    pub fields: Fields<'a>,
    /// Whether the request is anonymous.
    pub anonymous: bool,
}

impl Arguments<'_> {
    /// The version that the request names. Faults: as `VersionId::parse`.
    pub fn version(&self) -> Result<Option<VersionId>, Fault> {
        self.query.get("versionId")?.map(VersionId::parse).transpose()
    }

    /// A count from the query: `None` if absent or empty.
    fn count(&self, name: &'static str) -> Result<Option<u32>, Fault> {
        match self.query.get(name)? {
            None | Some("") => Ok(None),
            Some(text) => parse_count(name, text).map(Some),
        }
    }
}

/// A count as S3 takes it: digits, at most 2^31 - 1.
fn parse_count(name: &str, text: &str) -> Result<u32, Fault> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<i32>() {
        Ok(count) if digits => Ok(count.unsigned_abs()),
        _ => Err(Fault::because(Code::InvalidArgument, "An argument is not a count.")
            .with("ArgumentName", name)
            .with("ArgumentValue", text)),
    }
}

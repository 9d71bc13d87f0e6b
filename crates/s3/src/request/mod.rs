//! Requests as values: each operation's query, headers and body, parsed once.
//!
//! Invariant: the value holds everything that the operation needs from the HTTP request. A feature
//! of S3 that the gateway does not implement is refused here and never ignored, because a client
//! that requested encryption or a lock must not believe that it was applied. For example, a PUT
//! with `x-amz-server-side-encryption: aws:kms:dsse` fails with `NotImplemented`.

mod bucket;
mod checksum;
mod delete;
mod list;
mod multipart;
mod page;
mod post;
mod read;
mod rename;
mod token;
mod unserved;
mod write;

use std::borrow::Cow;

pub use bucket::{
    CreateBucket, OwnershipRule, PublicAccessBlockConfiguration, PutAcl, parse_ownership_controls,
};
pub use checksum::{ChecksumAlgorithm, ChecksumType, FinalChecksum};
pub use delete::{DeleteObject, DeleteObjects, Deletion};
pub use list::{ListBuckets, ListMultipartUploads, ListObjectVersions, ListObjects, ListObjectsV2};
pub use multipart::{
    AbortMultipartUpload, CompleteMultipartUpload, CompletedPart, CreateMultipartUpload, ListParts,
    PartNumber, UploadIdText, UploadPart, UploadPartCopy,
};
pub use post::PostObject;
pub use read::{GetObject, GetObjectAttributes, ObjectAttribute};
pub use rename::RenameObject;
pub use token::ContinuationToken;
pub(crate) use write::append_at;
pub use write::{CopyLabels, CopyObject, Directive, PutObject};

pub use crate::fields::Fields;
use crate::fields::invalid;
use crate::name::VersionId;
pub use crate::query::Query;
use crate::{Code, Fault};

/// The arguments of an operation: the query and the headers of a request.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    /// The query string.
    pub query: &'a Query,
    /// The headers, and the query parameters of a presigned URL that replace headers.
    pub fields: Fields<'a>,
    /// True if the request is anonymous.
    pub anonymous: bool,
}

impl Arguments<'_> {
    /// Returns the object version that the query names; `None` for the current version. Fails as
    /// `VersionId::parse`.
    pub fn version(&self) -> Result<Option<VersionId>, Fault> {
        self.query.get("versionId")?.map(VersionId::parse).transpose()
    }

    /// Returns a number of entries from a query parameter; `None` if the parameter is absent or
    /// empty.
    fn count(&self, name: &'static str) -> Result<Option<u32>, Fault> {
        match self.query.get(name)? {
            None | Some("") => Ok(None),
            Some(text) => parse_count(name, text).map(Some),
        }
    }
}

/// Parses a count as S3 does: only digits, at most 2^31 - 1.
fn parse_count(name: &str, text: &str) -> Result<u32, Fault> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<i32>() {
        // `i32::from_str` also accepts a plus sign, so the digits are checked separately.
        Ok(count) if digits => Ok(count.unsigned_abs()),
        // S3 has different messages for a negative number and for text that is not a number or is
        // out of range.
        Ok(_) if text.starts_with('-') => Err(invalid_argument(
            name,
            text,
            format!("Argument {text} must be an integer between 0 and 2147483647"),
        )),
        _ => Err(invalid_argument(
            name,
            text,
            format!("Provided {text} not an integer or within integer range"),
        )),
    }
}

/// The header that turns a `PutObject` into an append.
pub(crate) const WRITE_OFFSET: &str = "x-amz-write-offset-bytes";

/// Returns `InvalidArgument` with the argument's name and value.
fn invalid_argument(name: &str, value: &str, why: impl Into<Cow<'static, str>>) -> Fault {
    Fault::because(Code::InvalidArgument, why)
        .with("ArgumentName", name)
        .with("ArgumentValue", value)
}

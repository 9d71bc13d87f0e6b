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
pub use write::{CopyLabels, CopyObject, Directive, PutObject};

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
        // A number that is negative is told apart from what is none, or does not fit.
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

/// The header that makes a `PutObject` append.
pub(crate) const WRITE_OFFSET: &str = "x-amz-write-offset-bytes";

/// `InvalidArgument`, with the argument's name and value.
fn invalid_argument(name: &str, value: &str, why: impl Into<Cow<'static, str>>) -> Fault {
    Fault::because(Code::InvalidArgument, why)
        .with("ArgumentName", name)
        .with("ArgumentValue", value)
}

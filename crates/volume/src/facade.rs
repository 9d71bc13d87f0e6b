//! The operations that views call, as methods of [`crate::Volume`].
//!
//! Each method runs one operation of the namespace. It stages blocks before the operation, or reads
//! them after it. For example, `object.rs` has PUT, GET and HEAD, and `node.rs` has the operations
//! of a mount.

mod access;
mod append;
mod bucket;
mod copy;
mod copy_part;
mod delete;
mod detach;
mod expected;
mod fork;
mod listing;
mod locks;
mod map_pages;
mod multipart;
mod new_file;
mod node;
mod object;
mod object_mode;
mod randomness;
mod ranges;
mod rename;
mod staging;
mod trash;
mod tries;
mod uploads;
mod versions;
mod writers;

use record::AccountId;

pub use bucket::{BucketStat, NewBucket};
pub use copy::CopyChanges;
pub use expected::ObjectExpectation;
pub use fork::{ForkWatch, Forked, OMITTED_PATHS_MAX};
pub use multipart::{
    CompletePart, CompleteUpload, Completed, NewUpload, OBJECT_BYTES_MAX, ObjectDigests,
    PART_BYTES_MIN, PartStat, PartsPage, UploadId, UploadIdError,
};
pub use new_file::PlannedFile;
pub use node::{BodyRun, Creator, FileWrite, Journaled, OpenNode, Resize, empty_file};
pub use object::{NewObject, Object, PublishedObject, size_and_tag};
pub use object_mode::{ObjectMode, WrongCustomerKey};
pub use randomness::opaque_tag;
pub use ranges::SeekTarget;
pub use rename::RenameConditions;
pub use trash::Trashed;
pub use tries::ObjectTries;
pub use uploads::{UploadsEntry, UploadsPage, UploadsQuery};
pub use versions::{ListedAs, VersionsEntry, VersionsListing, VersionsQuery};

/// The owner of a new file, as S3 and as a mount show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOwner {
    /// The access key that creates it.
    pub access_key: String,
    /// The account of that access key.
    pub account: AccountId,
    /// The account that owns the object; `None` if it is the bucket's owner.
    pub writer: Option<AccountId>,
    /// The user id of the new file.
    pub uid: u32,
    /// The group id of the new file.
    pub gid: u32,
    /// Permission bits that the file does not get.
    pub umask: u32,
}

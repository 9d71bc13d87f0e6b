//! The file system as a service: what views call.
//!
//! Each method is one operation of the namespace, run against the store, with the blocks that it
//! needs laid down before or read after. A view never sees a record's key, a plan or a block.

mod access;
mod append;
mod bucket;
mod copy;
mod delete;
mod detach;
mod expected;
mod fork;
mod listing;
mod locks;
mod map_pages;
mod multipart;
mod node;
mod object;
mod ranges;
mod rename;
mod staging;
mod trash;
mod uploads;
mod versions;

use record::AccountId;

pub use bucket::{BucketStat, NewBucket};
pub use copy::CopyChanges;
pub use expected::ExpectedObject;
pub use fork::{ForkWatch, Forked, OMITTED_PATHS_MAX};
pub use multipart::{
    CompletePart, CompleteUpload, Completed, NewUpload, OBJECT_BYTES_MAX, ObjectDigests,
    PART_BYTES_MIN, PartStat, PartsPage, UploadId, UploadIdError,
};
pub use node::{BodyRun, Creator, FileWrite, Journaled, OpenNode, Resize, empty_file};
pub use object::{NewObject, Object, PublishedObject, opaque_tag, s3_file_of, size_and_tag};
pub use ranges::SeekTarget;
pub use rename::RenameConditions;
pub use trash::Trashed;
pub use uploads::{UploadsEntry, UploadsPage, UploadsQuery};
pub use versions::{ListedAs, VersionsEntry, VersionsListing, VersionsQuery};

/// Whom a new file belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOwner {
    /// The access key that makes it.
    pub access_key: String,
    /// The account of that access key.
    pub account: AccountId,
    /// The account that it belongs to, where that is not the one that the bucket belongs to.
    pub writer: Option<AccountId>,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Permissions that it is not made with.
    pub umask: u32,
}

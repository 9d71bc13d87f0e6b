//! The file system as a service: what views call.
//!
//! Each method is one operation of the namespace, run against the store, with the blocks that it
//! needs laid down before or read after. A view never sees a record's key, a plan or a block.

mod access;
mod bucket;
mod copy;
mod delete;
mod listing;
mod locks;
mod map_pages;
mod multipart;
mod node;
mod object;
mod ranges;
mod staging;
mod uploads;

pub use bucket::BucketStat;
pub use delete::Deleted;
pub use multipart::{
    CompletePart, CompleteUpload, Completed, Finished, NewUpload, OBJECT_BYTES_MAX, PART_BYTES_MIN,
    PartStat, PartsPage, UploadId, UploadIdError,
};
pub use node::{BodyRun, FileWrite, Maker, OnBehalf, OpenNode, Reshape, empty_file};
pub use object::{NewObject, Object, PublishedObject, file_of, opaque_tag, size_and_tag};
pub use ranges::Sought;
pub use uploads::{UploadsEntry, UploadsPage, UploadsQuery};

/// Whom a new file or bucket belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOwner {
    /// The access key that makes it.
    pub access_key: String,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Permissions that it is not made with.
    pub umask: u32,
}

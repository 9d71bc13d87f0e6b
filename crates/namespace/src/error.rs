//! Errors of namespace operations.
//!
//! A variant describes the state of the namespace. The views translate it: the mount into an errno,
//! the gateway into an S3 error code. For example, `NoSuchKey` becomes `ENOENT` and the S3 code
//! `NoSuchKey`.

use record::{DecodeError, Timestamp, VersionRef};
use store::Key;

/// The error of a namespace operation. Views translate it into an errno or an S3 code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum FsError {
    /// There is no bucket of this name.
    #[error("no such bucket")]
    NoSuchBucket,
    /// There is a bucket of this name.
    #[error("the bucket exists")]
    BucketExists,
    /// The bucket cannot be deleted, because it has files or directories.
    #[error("the bucket is not empty")]
    BucketNotEmpty,
    /// The bucket cannot be deleted, because it has objects, noncurrent versions (earlier versions
    /// of objects) or delete markers.
    #[error("the bucket has versions of objects")]
    VersionsLeft,
    /// The bucket cannot be deleted, or its trash cannot be removed, because the trash has items:
    /// objects that were deleted or replaced and can be restored.
    #[error("the bucket's trash is not empty")]
    TrashLeft,
    /// The bucket has a trash, so it cannot have versions.
    #[error("the bucket has a trash")]
    HasTrash,
    /// The bucket has no trash.
    #[error("the bucket has no trash")]
    HasNoTrash,
    /// The name or key is not bound to any node.
    #[error("no such file or object")]
    NoSuchKey,
    /// No object has the key, because its newest version is a delete marker. The value is the
    /// version id of that marker.
    #[error("no such object: it was deleted")]
    Deleted(VersionRef),
    /// The object has no version of this id.
    #[error("no such version")]
    NoSuchVersion,
    /// The requested version is a delete marker. The values are its version id and the time of its
    /// creation.
    #[error("the version is a delete marker")]
    IsMarker(VersionRef, Timestamp),
    /// The operation does not work in a bucket that keeps versions.
    #[error("the bucket keeps versions")]
    KeepsVersions,
    /// The file is a noncurrent version of an object or an item of a trash: version records bind
    /// it, in addition to names or in their place. So it must not change. The caller runs
    /// [`crate::DetachVersions`], which moves the versions to a copy, and tries again.
    #[error("the file is a noncurrent version of an object, or in the trash")]
    NotCurrent,
    /// The content of the file is encrypted under a key of the client (SSE-C), so only a
    /// request with that key can replace it, and no program can change it.
    #[error("the content is encrypted under a key of the client")]
    NeedsCustomerKey,
    /// Headers and user metadata of a noncurrent version or of an item of a trash do not change.
    #[error("a noncurrent version keeps its headers and user metadata")]
    VersionKept,
    /// Object lock needs a bucket with versions.
    #[error("the bucket does not keep versions")]
    KeepsNoVersions,
    /// The operation would exceed the quota of the bucket.
    #[error("the bucket's quota is exceeded")]
    QuotaExceeded,
    /// A retention or a legal hold (S3 object lock) protects the object. Also for a change of
    /// versioning in a bucket with object lock, which needs enabled versioning.
    #[error("the object is locked")]
    Locked,
    /// A condition of the request does not hold.
    #[error("a condition does not hold")]
    PreconditionFailed,
    /// There is no such multipart upload, or it is not open any more.
    #[error("no such upload")]
    NoSuchUpload,
    /// The part of this number does not exist, or has another entity tag or checksum than the
    /// client lists. The number is 0 if the client lists no part.
    #[error("a listed part does not exist as listed")]
    InvalidPart(u16),
    /// The client has sent this part of an upload [`crate::TRANSMISSIONS_MAX`] times before. The
    /// new transmission is not recorded.
    #[error("the part was sent too many times")]
    TooManyTransmissions,
    /// The list of parts is not in ascending order.
    #[error("the parts are not in ascending order")]
    InvalidPartOrder,
    /// A part that is not the last is smaller than the minimum.
    #[error("a part is too small")]
    PartTooSmall {
        /// The number of the part.
        number: u16,
        /// The size of the part in bytes.
        bytes: u64,
    },
    /// The parts together have another size than the client announced, or exceed the largest file.
    #[error("the size is not the announced one, or exceeds the limit")]
    WrongSize,
    /// The source of the copy was changed or removed after the caller read it. The caller reads it
    /// again.
    #[error("the source changed meanwhile")]
    SourceChanged,
    /// The name is bound to a node already.
    #[error("the name exists")]
    NameExists,
    /// The node is not a directory, and the operation needs one.
    #[error("not a directory")]
    NotADirectory,
    /// The node is a directory, and the operation needs another kind.
    #[error("is a directory")]
    IsADirectory,
    /// The directory has names.
    #[error("the directory is not empty")]
    DirectoryNotEmpty,
    /// The directory would move below itself.
    #[error("a directory cannot be moved below itself")]
    BelowItself,
    /// The two names are in different buckets, or a directory would be moved in a bucket with
    /// object lock.
    #[error("a name cannot be moved or linked to another bucket")]
    OtherBucket,
    /// The operation would change a name directly below the root. Only buckets are there, and they
    /// are not renamed.
    #[error("only buckets are directly below the root")]
    OnlyBuckets,
    /// The operation would give a directory a second name.
    #[error("a directory cannot have a second name")]
    LinkedDirectory,
    /// The file of a bucket with versions or a trash has [`crate::VERSIONED_LINKS_MAX`] hard links.
    #[error("the file has as many hard links as a file of this bucket may have")]
    TooManyLinks,
    /// The inode number belongs to no node any more, or the name does not lead to the expected node
    /// any more. The caller looks the name up again.
    #[error("the name does not lead to the same file any more")]
    Stale,
    /// The client has used the token of this request for another request before.
    #[error("the client token was used for another request before")]
    OtherRequest,
    /// The path has more directories than the limit, or a rename would create and remove so many
    /// directories that its plan would be too large.
    #[error("the path has too many directories")]
    TooDeep,
    /// The content is not in the form or data version for which the change was made. For example,
    /// it is inline in the inode's record, and the change writes slices of blocks. The caller reads
    /// the file and makes the change again.
    #[error("the content was changed or moved meanwhile")]
    ContentReplaced,
    /// The file would reference a block that it has released before, and the reaper, which deletes
    /// unused blocks, has not processed that release yet. The caller waits or copies the data.
    #[error("the file has released this block, and the release is not complete")]
    BlockReleasePending,
    /// There is no extended attribute of this name.
    #[error("no such attribute")]
    NoSuchAttribute,
    /// There is an extended attribute of this name.
    #[error("the attribute exists")]
    AttributeExists,
    /// The names of the extended attributes would exceed the longest list of them.
    #[error("too many extended attributes")]
    TooManyAttributes,
    /// A symbolic link has no access control list.
    #[error("a symbolic link has no access control list")]
    NoAcl,
    /// Only a directory has a default access control list.
    #[error("only a directory has a default access control list")]
    NoDefaultAcl,
    /// Only a file has S3 metadata.
    #[error("only a file has S3 metadata")]
    NoObject,
    /// The content headers or the user metadata of the object would exceed the limits of S3.
    #[error("the metadata of the object is too large")]
    MetadataTooLarge,
    /// The object would have more than [`crate::OBJECT_TAGS_MAX`] tags.
    #[error("the object has too many tags")]
    TooManyTags,
    /// An inode number that the store has leased to this session is in use. This happens if the
    /// metadata store was restored to a state before an earlier lease of the number. The caller
    /// uses other numbers.
    #[error("a leased number is in use already")]
    InodeNumberInUse,
    /// The key has another object than the caller has checked, or that object has another owner, or
    /// other tags, grants or locks. The caller checks permissions again.
    #[error("the key has another object than the one that was checked")]
    OtherObject,
    /// Other writers changed records of the plan at each try, until the deadline. Nothing was
    /// written.
    #[error("too much contention")]
    Contended,
}

/// The reason why a planning pass, which is one call of a planner, stopped without a plan or a
/// result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// A record that the pass has requested is not known yet. The driver reads it and calls the
    /// planner again.
    Need,
    /// The operation has this error as its answer.
    Fail(FsError),
    /// The record of this key does not decode, for this reason. The store has damage.
    Corrupt(Key, DecodeError),
}

impl From<FsError> for Halt {
    fn from(error: FsError) -> Halt {
        Halt::Fail(error)
    }
}

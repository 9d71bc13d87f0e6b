//! What an operation may answer instead of succeeding.

use record::{DecodeError, Timestamp, VersionRef};
use store::Key;

/// An answer of the namespace that is not a success. Views translate it: an errno, an S3 code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum FsError {
    /// No bucket of this name.
    #[error("no such bucket")]
    NoSuchBucket,
    /// The bucket's name is taken.
    #[error("the bucket exists")]
    BucketExists,
    /// Something is left in the bucket.
    #[error("the bucket is not empty")]
    BucketNotEmpty,
    /// Versions, or markers, are left in the bucket.
    #[error("the bucket has versions of objects")]
    VersionsLeft,
    /// Something is left in the bucket's trash.
    #[error("the bucket's trash is not empty")]
    TrashLeft,
    /// The bucket has a trash, and so no versions.
    #[error("the bucket has a trash")]
    HasTrash,
    /// The bucket has no trash.
    #[error("the bucket has no trash")]
    HasNoTrash,
    /// Nothing is bound to the name.
    #[error("no such file or object")]
    NoSuchKey,
    /// Nothing is bound to the name, because it was deleted: this marker says so.
    #[error("no such object: it was deleted")]
    Deleted(VersionRef),
    /// The object has no version of this name.
    #[error("no such version")]
    NoSuchVersion,
    /// The version is a delete marker, made at that time.
    #[error("the version is a delete marker")]
    IsMarker(VersionRef, Timestamp),
    /// What is asked for changes an object, and the bucket keeps each as it was.
    #[error("the bucket keeps versions")]
    KeepsVersions,
    /// Version records bind the file, so it must not change. [`crate::DetachVersions`] gives the
    /// versions an inode of their own; then the change is tried again.
    #[error("the file is a noncurrent version of an object, or in the trash")]
    NotCurrent,
    /// A noncurrent version and an item of a trash keep their headers and user metadata.
    #[error("a noncurrent version keeps its headers and user metadata")]
    VersionKept,
    /// Objects are locked only where versions are kept.
    #[error("the bucket keeps no versions")]
    KeepsNoVersions,
    /// The bucket may not hold as much as it would then.
    #[error("the bucket's quota is exceeded")]
    QuotaExceeded,
    /// A retention or a legal hold keeps the object as it is.
    #[error("the object is locked")]
    Locked,
    /// A condition of the request does not hold.
    #[error("a condition does not hold")]
    PreconditionFailed,
    /// The bucket refuses overlaps, and a component of the key is bound to a file.
    #[error("a key above this one exists")]
    OverlapsFile,
    /// The bucket refuses overlaps, and a directory has the key's name.
    #[error("a key below this one exists")]
    OverlapsDirectory,
    /// No such multipart upload, or it is no longer open.
    #[error("no such upload")]
    NoSuchUpload,
    /// The part of this number was never uploaded, or not as listed. 0 if none is listed at all.
    #[error("a listed part does not exist as listed")]
    InvalidPart(u16),
    /// A part was sent more often than [`crate::TRANSMISSIONS_MAX`].
    #[error("the part was sent too often")]
    TooManyTransmissions,
    /// The list of parts is not in ascending order.
    #[error("the parts are not in ascending order")]
    InvalidPartOrder,
    /// A part that is not the last is too small.
    #[error("a part is too small")]
    PartTooSmall {
        /// Its number.
        number: u16,
        /// Its bytes.
        bytes: u64,
    },
    /// The parts are together not as long as the client said, or longer than a file may be.
    #[error("the size is not as announced, or beyond the limit")]
    WrongSize,
    /// The object that is copied changed, or went, meanwhile.
    #[error("the source changed meanwhile")]
    SourceChanged,
    /// Something is bound to the name already.
    #[error("the name exists")]
    NameExists,
    /// A directory was wanted, and this is none.
    #[error("not a directory")]
    NotADirectory,
    /// Anything but a directory was wanted, and this is one.
    #[error("a directory")]
    IsADirectory,
    /// Something is left in the directory.
    #[error("the directory is not empty")]
    DirectoryNotEmpty,
    /// A directory would come to be below itself.
    #[error("a directory cannot be moved below itself")]
    BelowItself,
    /// The two names are in two buckets.
    #[error("nothing is moved or linked from one bucket to another")]
    OtherBucket,
    /// Only buckets stand directly below the root, and they are not renamed.
    #[error("only buckets stand directly below the root")]
    OnlyBuckets,
    /// A directory has one name.
    #[error("a directory has one name")]
    LinkedDirectory,
    /// A file of a bucket with versions or a trash has as many hard links as it may have.
    #[error("the file has as many hard links as a file of this bucket may have")]
    TooManyLinks,
    /// The file or directory is gone, or the name does not lead to it any more: it is to be looked
    /// up again.
    #[error("the name leads elsewhere by now")]
    Stale,
    /// What a request is called by was said of another one before.
    #[error("another request was called the same")]
    OtherRequest,
    /// There are too many directories above.
    #[error("too many directories above each other")]
    TooDeep,
    /// The content has another form than the change was made for, which is to be made again.
    #[error("the content has changed its form")]
    ContentReplaced,
    /// The file has let go of a block that it would be given again, and may still be read there.
    #[error("what the file has let go of is not gone yet")]
    BlockReleasePending,
    /// There is no extended attribute of this name.
    #[error("no such attribute")]
    NoSuchAttribute,
    /// There is an extended attribute of this name.
    #[error("the attribute exists")]
    AttributeExists,
    /// The names of the extended attributes would be longer than a list of them may be.
    #[error("too many extended attributes")]
    TooManyAttributes,
    /// A symbolic link has no access control lists.
    #[error("a symbolic link has no access control list")]
    NoAcl,
    /// Only a directory has a default access control list.
    #[error("only a directory has a default access control list")]
    NoDefaultAcl,
    /// S3 keeps nothing with anything but a file.
    #[error("only a file has what S3 keeps with an object")]
    NoObject,
    /// The headers or the user metadata of an object would be longer than S3 keeps them.
    #[error("the metadata of the object is too large")]
    MetadataTooLarge,
    /// An object would have more tags than it may.
    #[error("the object has too many tags")]
    TooManyTags,
    /// A number that was leased is in use already: the store has forgotten who leased it.
    #[error("a leased number is in use already")]
    InodeNumberInUse,
    /// The key has another object than the one that the caller looked at, or that object has other
    /// tags, another list, lock or owner. The caller looks again.
    #[error("the key has another object by now")]
    OtherObject,
    /// Other writers changed what the plan relies on until the deadline. Nothing happened.
    #[error("too much contention")]
    Contended,
}

/// Why planning stopped before it had a plan or an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// Something that was asked for is not known yet.
    Need,
    /// The answer is an error.
    Fail(FsError),
    /// A record does not decode.
    Corrupt(Key, DecodeError),
}

impl From<FsError> for Halt {
    fn from(error: FsError) -> Halt {
        Halt::Fail(error)
    }
}

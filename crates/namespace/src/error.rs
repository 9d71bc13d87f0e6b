//! What an operation may answer instead of succeeding.

use record::DecodeError;
use store::Key;

/// An answer of the namespace that is not a success. Views translate it: an errno, an S3 code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
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
    /// Nothing is bound to the name.
    #[error("no such file or object")]
    NoSuchKey,
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
    /// A part of the list was never uploaded, or under another entity tag.
    #[error("a listed part does not exist as listed")]
    InvalidPart,
    /// A part was sent more often than [`crate::TRANSMISSIONS_MAX`].
    #[error("the part was sent too often")]
    TooManyTransmissions,
    /// The list of parts is not in ascending order.
    #[error("the parts are not in ascending order")]
    InvalidPartOrder,
    /// A part that is not the last is too small.
    #[error("a part is too small")]
    PartTooSmall,
    /// The parts are together not as long as the client said, or longer than a file may be.
    #[error("the size is not as announced, or beyond the limit")]
    WrongSize,
    /// The object that is copied changed, or went, meanwhile.
    #[error("the source changed meanwhile")]
    SourceChanged,
    /// A number that was leased is in use already: the store has forgotten who leased it.
    #[error("a leased number is in use already")]
    NumberTaken,
    /// What the plan relies on changed so often that it is not tried again.
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

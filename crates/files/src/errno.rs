//! What a program is told when something fails.

use rustix::io::Errno;
use tracing::warn;
use volume::{FsError, VolumeError};

/// The error number of a failed operation.
pub(crate) fn errno(error: &VolumeError) -> Errno {
    match error {
        VolumeError::Fs(error) => of_namespace(*error),
        VolumeError::Overloaded => Errno::NOMEM,
        VolumeError::Fenced => Errno::IO,
        VolumeError::Full(why) => {
            warn!(why, "there is no room for what was written");
            Errno::NOSPC
        }
        error => {
            warn!(%error, "an operation on files failed");
            Errno::IO
        }
    }
}

fn of_namespace(error: FsError) -> Errno {
    match error {
        FsError::NoSuchKey | FsError::NoSuchBucket => Errno::NOENT,
        FsError::NameExists
        | FsError::BucketExists
        | FsError::OverlapsFile
        | FsError::OverlapsDirectory
        | FsError::AttributeExists => Errno::EXIST,
        FsError::NotADirectory => Errno::NOTDIR,
        FsError::IsADirectory => Errno::ISDIR,
        FsError::DirectoryNotEmpty
        | FsError::BucketNotEmpty
        | FsError::VersionsLeft
        | FsError::TrashLeft => Errno::NOTEMPTY,
        FsError::BelowItself => Errno::INVAL,
        FsError::OtherBucket => Errno::XDEV,
        FsError::OnlyBuckets
        | FsError::LinkedDirectory
        | FsError::Locked
        | FsError::NotCurrent
        | FsError::VersionKept => Errno::PERM,
        FsError::TooManyLinks => Errno::MLINK,
        FsError::Stale => Errno::STALE,
        FsError::TooDeep => Errno::NAMETOOLONG,
        FsError::NoSuchAttribute => Errno::NODATA,
        FsError::TooManyAttributes | FsError::TooManyTags => Errno::NOSPC,
        FsError::MetadataTooLarge => Errno::TOOBIG,
        FsError::QuotaExceeded => Errno::DQUOT,
        FsError::WrongSize => Errno::FBIG,
        FsError::NoAcl | FsError::NoObject => Errno::OPNOTSUPP,
        FsError::NoDefaultAcl => Errno::ACCESS,
        error => {
            warn!(%error, "an operation on files failed");
            Errno::IO
        }
    }
}

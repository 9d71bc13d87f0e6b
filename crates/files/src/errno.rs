//! Error numbers for errors of the volume.

use rustix::io::Errno;
use tracing::warn;
use volume::{FsError, ProtectionError, ProtectionErrorKind, VolumeError};

/// Returns the error number that a program gets for an error of the volume. Logs errors that have
/// no exact number, which become `EIO`, and a full volume.
pub(crate) fn errno(error: &VolumeError) -> Errno {
    match error {
        VolumeError::Fs(error) => of_namespace(*error),
        VolumeError::Overloaded => Errno::NOMEM,
        VolumeError::Fenced => Errno::IO,
        VolumeError::Full(why) => {
            warn!(why, "the volume is full; dirty data stays in memory");
            Errno::NOSPC
        }
        VolumeError::Encryption(ProtectionError { kind: ProtectionErrorKind::Refused, .. }) => {
            warn!(%error, "a file operation failed with EACCES");
            Errno::ACCESS
        }
        VolumeError::Encryption(_)
        | VolumeError::Unavailable(_)
        | VolumeError::Unknown(_)
        | VolumeError::Corrupt(_)
        | VolumeError::Refused(_) => {
            warn!(%error, "a file operation failed with EIO");
            Errno::IO
        }
    }
}

fn of_namespace(error: FsError) -> Errno {
    match error {
        FsError::NoSuchKey | FsError::NoSuchBucket => Errno::NOENT,
        FsError::NameExists | FsError::BucketExists | FsError::AttributeExists => Errno::EXIST,
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
        FsError::NoDefaultAcl | FsError::NeedsCustomerKey => Errno::ACCESS,
        // Only operations of S3, of the trash or of versions return these errors, or the caller
        // handles them before.
        FsError::HasTrash
        | FsError::HasNoTrash
        | FsError::Deleted(..)
        | FsError::NoSuchVersion
        | FsError::IsMarker(..)
        | FsError::KeepsVersions
        | FsError::KeepsNoVersions
        | FsError::PreconditionFailed
        | FsError::NoSuchUpload
        | FsError::InvalidPart(..)
        | FsError::TooManyTransmissions
        | FsError::InvalidPartOrder
        | FsError::PartTooSmall { .. }
        | FsError::SourceChanged
        | FsError::OtherRequest
        | FsError::ContentReplaced
        | FsError::BlockReleasePending
        | FsError::InodeNumberInUse
        | FsError::OtherObject
        | FsError::Contended => {
            warn!(%error, "a file operation failed with EIO");
            Errno::IO
        }
    }
}

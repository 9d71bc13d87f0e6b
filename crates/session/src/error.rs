//! Why an operation on a volume failed, by what the caller answers.

use block::BlockError;
use content::{ContentError, Overloaded};
use namespace::FsError;
use record::DecodeError;
use store::{Key, StoreError, StoreErrorKind};

/// Why an operation failed: an answer of the namespace, or trouble behind it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeError {
    /// The namespace's answer.
    #[error(transparent)]
    Fs(#[from] FsError),
    /// The metadata store or the blocks cannot be reached, or answer too late. Nothing happened.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// The metadata store or the block store is out of space. Nothing happened.
    #[error("no room: {0}")]
    Full(String),
    /// Whether a change happened was not known in time: nothing may be assumed.
    #[error("outcome unknown: {0}")]
    Unknown(String),
    /// The byte budget was not granted in time: the load is beyond what fits into memory.
    #[error("overloaded: no memory within the deadline")]
    Overloaded,
    /// A record or block is not what was written. A person must look.
    #[error("corrupt: {0}")]
    Corrupt(String),
    /// The volume is not opened as it was asked for. A person must ask otherwise.
    #[error("{0}")]
    Refused(String),
    /// This session has ended; another may have taken over.
    #[error("the session has ended")]
    Fenced,
}

impl From<ContentError> for VolumeError {
    fn from(error: ContentError) -> VolumeError {
        match error {
            ContentError::Unavailable(why) => VolumeError::Unavailable(why),
            ContentError::Full(why) => VolumeError::Full(why),
            ContentError::Overloaded => VolumeError::Overloaded,
            ContentError::Corrupt(why) => VolumeError::Corrupt(why),
        }
    }
}

impl From<Overloaded> for VolumeError {
    fn from(overloaded: Overloaded) -> VolumeError {
        ContentError::from(overloaded).into()
    }
}

impl From<BlockError> for VolumeError {
    fn from(error: BlockError) -> VolumeError {
        ContentError::from(error).into()
    }
}

impl From<StoreError> for VolumeError {
    fn from(error: StoreError) -> VolumeError {
        match error.kind() {
            StoreErrorKind::Unavailable => VolumeError::Unavailable(error.to_string()),
            StoreErrorKind::Full => VolumeError::Full(error.to_string()),
            StoreErrorKind::Unknown => VolumeError::Unknown(error.to_string()),
            StoreErrorKind::Corrupt | StoreErrorKind::Malformed => {
                VolumeError::Corrupt(error.to_string())
            }
        }
    }
}

/// A record that cannot be read.
pub fn corrupt(key: &Key, error: &DecodeError) -> VolumeError {
    VolumeError::Corrupt(format!("the record {key:?} cannot be read: {error}"))
}

/// Why nothing new is begun.
pub fn closing() -> VolumeError {
    VolumeError::Unavailable("the volume is closing".to_owned())
}

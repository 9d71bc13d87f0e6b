//! Errors of operations on a volume, grouped by what the caller answers to its client.

use block::BlockError;
use keyring::{ProtectionError, ProtectionErrorKind, RingError, RingErrorKind};
use namespace::FsError;
use publication::{ContentError, Overloaded};
use record::DecodeError;
use store::{Key, StoreError, StoreErrorKind};

/// The reason for which an operation failed: an answer of the namespace, or a failure below it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum VolumeError {
    /// The namespace refused the operation. For example, the key does not exist.
    #[error(transparent)]
    Fs(#[from] FsError),
    /// A store cannot be reached, or answered too late. Nothing was changed, so the caller may
    /// retry.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// The metadata store or the block store is out of space. Nothing was changed.
    #[error("out of space: {0}")]
    Full(String),
    /// The outcome of a change was not known in time. The change may have been committed, or may be
    /// committed later.
    #[error("outcome unknown: {0}")]
    Unknown(String),
    /// No memory was granted in time: more request and response bodies are in flight than fit into
    /// the byte budget. Nothing was changed; the caller may retry later.
    #[error("overloaded: no memory within the deadline")]
    Overloaded,
    /// Content cannot be encrypted or decrypted, because its key is not usable. The kind determines
    /// the answer.
    #[error(transparent)]
    Encryption(#[from] ProtectionError),
    /// A record or a block is damaged. A retry gives the same error; an operator must look.
    #[error("corrupt: {0}")]
    Corrupt(String),
    /// The volume was not opened, because the options do not fit the stores. The text gives the
    /// operator the reason and the cure.
    #[error("{0}")]
    Refused(String),
    /// The session is fenced: another process has ended it, or the store has lost its records. No
    /// further change is acknowledged; only a new process can serve.
    #[error("the session has ended")]
    Fenced,
}

impl From<ContentError> for VolumeError {
    fn from(error: ContentError) -> VolumeError {
        match error {
            ContentError::Unavailable(why) => VolumeError::Unavailable(why),
            ContentError::Full(why) => VolumeError::Full(why),
            ContentError::Overloaded => VolumeError::Overloaded,
            ContentError::KeyRefused(cause) => {
                ProtectionError { kind: ProtectionErrorKind::Refused, cause }.into()
            }
            ContentError::Corrupt(why) => VolumeError::Corrupt(why),
            ContentError::NeedsCustomerKey => FsError::NeedsCustomerKey.into(),
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

impl From<RingError> for VolumeError {
    fn from(error: RingError) -> VolumeError {
        let of_kind = |kind| ProtectionError { kind, cause: error.to_string() }.into();
        match error.kind {
            // The text names the number of the key.
            RingErrorKind::Unknown | RingErrorKind::Foreign => {
                VolumeError::Corrupt(error.to_string())
            }
            RingErrorKind::Refused => of_kind(ProtectionErrorKind::Refused),
            RingErrorKind::Unavailable => of_kind(ProtectionErrorKind::Unavailable),
        }
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

/// Returns the error for a record that cannot be decoded.
pub fn corrupt(key: &Key, error: &DecodeError) -> VolumeError {
    VolumeError::Corrupt(format!("the record {key:?} cannot be read: {error}"))
}

/// Returns the error for work that is not begun because the volume is closing.
pub fn closing() -> VolumeError {
    VolumeError::Unavailable("the volume is closing".to_owned())
}

//! The errors of a key store.

use keyring::{ProtectionError, ProtectionErrorKind, RingError, RingErrorKind};

use kms::{KmsError, KmsErrorKind, KmsKeyName, KmsKeyNameError};
use record::{DecodeError, KeyFingerprint, RingNumber};
use store::StoreError;

/// The reason why the key store cannot do its work. `Display` is a text for the operator, without
/// secrets.
#[derive(Clone, Debug, thiserror::Error)]
pub enum KeyStoreError {
    /// The metadata store failed. If its kind is `Unknown`, a later call finds out what happened.
    #[error("{0}")]
    Store(StoreError),
    /// A record of the ring does not decode.
    #[error("a record of the ring is damaged: {0}")]
    Record(DecodeError),
    /// The KMS failed.
    #[error("{0}")]
    Kms(KmsError),
    /// The name is not one of a key in a KMS.
    #[error("{0}")]
    KeyName(KmsKeyNameError),
    /// A key of a KMS is needed, and no KMS is configured.
    #[error("KMS key {0}: no KMS is configured; set --kms")]
    NoKms(KmsKeyName),
    /// A ring key cannot be used.
    #[error("{0}")]
    Ring(RingError),
    /// This machine has no randomness.
    #[error("this machine has no randomness for a new key")]
    Randomness,
    /// The record changed with each attempt, because other processes change the ring, too.
    #[error("other processes change the ring at the same time; try again")]
    Contended,
    /// All numbers of ring keys are used.
    #[error("the ring has no free number for another key")]
    Full,
    /// The ring has no key with this number.
    #[error("there is no ring key {0}")]
    NoSuchKey(RingNumber),
    /// New content is encrypted under this key, so it cannot be retired.
    #[error("ring key {0} is in use for new content: rotate it first")]
    Current(RingNumber),
    /// The volume has secrets under a master key that was not given.
    #[error(
        "the volume has secrets under the master key with the fingerprint {needed}, and the given \
         key has {given}; give the right key with --master-key-file, or both with \
         --old-master-key-file"
    )]
    OtherMasterKey {
        /// The fingerprint of the key that is needed.
        needed: KeyFingerprint,
        /// The fingerprint of the key that was given.
        given: KeyFingerprint,
    },
    /// A change of the master key is not complete, and needs both keys.
    #[error(
        "a change of the master key from {from} to {to} is not complete: give the new key with \
         --master-key-file and the old one with --old-master-key-file, and run ashlar ring rewrap"
    )]
    Rewrapping {
        /// The fingerprint of the old key.
        from: KeyFingerprint,
        /// The fingerprint of the new key.
        to: KeyFingerprint,
    },
    /// A key of the volume is needed, and this process has no master key.
    #[error("this process has no master key; give it with --master-key-file")]
    NoMasterKey,
    /// A change of the master key was asked for without the old key.
    #[error("a change of the master key needs the old key: give --old-master-key-file")]
    NoOldKey,
    /// A user's secret opens under neither master key.
    #[error("the secret of access key {access_key:?} cannot be sealed again: {cause}")]
    Secret {
        /// The access key.
        access_key: String,
        /// The cause, without secrets.
        cause: String,
    },
}

impl From<StoreError> for KeyStoreError {
    fn from(error: StoreError) -> KeyStoreError {
        KeyStoreError::Store(error)
    }
}

impl From<DecodeError> for KeyStoreError {
    fn from(error: DecodeError) -> KeyStoreError {
        KeyStoreError::Record(error)
    }
}

impl From<KmsError> for KeyStoreError {
    fn from(error: KmsError) -> KeyStoreError {
        KeyStoreError::Kms(error)
    }
}

impl KeyStoreError {
    /// Returns the error for content that cannot be protected.
    pub(crate) fn of_protection(&self) -> ProtectionError {
        let kind = match self {
            KeyStoreError::Kms(error) => match error.kind {
                KmsErrorKind::NotFound => ProtectionErrorKind::NoSuchKey,
                KmsErrorKind::Refused | KmsErrorKind::Invalid => ProtectionErrorKind::Refused,
                KmsErrorKind::Unavailable => ProtectionErrorKind::Unavailable,
            },
            KeyStoreError::Ring(error) => match error.kind {
                RingErrorKind::Refused => ProtectionErrorKind::Refused,
                RingErrorKind::Unavailable => ProtectionErrorKind::Unavailable,
                RingErrorKind::Unknown | RingErrorKind::Foreign => {
                    ProtectionErrorKind::NotConfigured
                }
            },
            KeyStoreError::KeyName(_) | KeyStoreError::NoSuchKey(_) => {
                ProtectionErrorKind::NoSuchKey
            }
            KeyStoreError::Store(_) | KeyStoreError::Randomness | KeyStoreError::Contended => {
                ProtectionErrorKind::Unavailable
            }
            KeyStoreError::Record(_)
            | KeyStoreError::NoKms(_)
            | KeyStoreError::Full
            | KeyStoreError::Current(_)
            | KeyStoreError::OtherMasterKey { .. }
            | KeyStoreError::Rewrapping { .. }
            | KeyStoreError::NoMasterKey
            | KeyStoreError::NoOldKey
            | KeyStoreError::Secret { .. } => ProtectionErrorKind::NotConfigured,
        };
        ProtectionError { kind, cause: self.to_string() }
    }
}

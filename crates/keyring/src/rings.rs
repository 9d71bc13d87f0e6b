//! The choice of the ring key for new content.
//!
//! For example, the current key of [`Protection::S3`] is the newest key of the volume. A rotation
//! makes a newer one, and content that is written later gets that.

use std::fmt;

use async_trait::async_trait;
use record::RingNumber;

use crate::{FixedRing, RingKeys};

/// The keys that protect a new content.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Protection {
    /// None was requested: the volume's key if the volume encrypts everything, else none.
    Volume,
    /// The volume's key (SSE-S3).
    S3,
    /// The key of a key management service with this name (SSE-KMS).
    Kms(String),
}

/// The reason why no ring key can be given for new content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProtectionErrorKind {
    /// The process has no master key or no key management service. The operator must configure it.
    NotConfigured,
    /// The key management service has no key of this name.
    NoSuchKey,
    /// The key management service refuses the key, for example because it was disabled there.
    Refused,
    /// The key management service, or the store of the ring keys, does not answer. The call may be
    /// repeated.
    Unavailable,
}

/// No ring key can be given for new content: the kind, and the cause as text for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtectionError {
    /// The kind of the error, which determines the next step.
    pub kind: ProtectionErrorKind,
    /// The cause, as text for the operator. It names no secret.
    pub cause: String,
}

impl fmt::Display for ProtectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            ProtectionErrorKind::NotConfigured => "encryption is not configured",
            ProtectionErrorKind::NoSuchKey => "the key does not exist",
            ProtectionErrorKind::Refused => "the key is refused",
            ProtectionErrorKind::Unavailable => "the key is unavailable",
        };
        write!(f, "{what}: {}", self.cause)
    }
}

impl std::error::Error for ProtectionError {}

/// The ring keys of a volume, and the current one for each protection.
#[async_trait]
pub trait Rings: RingKeys {
    /// Returns the number of the ring key under which new content is encrypted; `None` if it is not
    /// encrypted. The first call for a protection may create the key.
    ///
    /// # Errors
    /// See [`ProtectionErrorKind`].
    async fn current(&self, of: &Protection) -> Result<Option<RingNumber>, ProtectionError>;
}

/// The volume never encrypts everything, and its current key is the one with the highest number.
#[async_trait]
impl Rings for FixedRing {
    async fn current(&self, of: &Protection) -> Result<Option<RingNumber>, ProtectionError> {
        let missing = |cause: &str| ProtectionError {
            kind: ProtectionErrorKind::NotConfigured,
            cause: cause.to_owned(),
        };
        match of {
            Protection::Volume => Ok(None),
            Protection::S3 => match self.highest() {
                Some(number) => Ok(Some(number)),
                None => Err(missing("the volume has no ring key")),
            },
            Protection::Kms(_) => Err(missing("there is no key management service")),
        }
    }
}

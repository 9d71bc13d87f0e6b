//! The kinds of ring keys.

use kms::KmsKeyName;

/// The kind of a ring key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RingKind {
    /// Wrapped by the master key: for the volume and SSE-S3.
    Volume,
    /// Wrapped by this key of the KMS.
    Kms(KmsKeyName),
}

//! The errors of a KMS.

use crate::key_name::KmsKeyName;

/// The caller's next step after an error of a KMS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KmsErrorKind {
    /// The KMS has no key of this name. Another request fails in the same way until an operator
    /// creates the key.
    NotFound,
    /// The KMS refuses the request: the key is disabled, or the login of this process is not valid
    /// or has no permission. Plain keys that the caller has from before must not be used any more.
    Refused,
    /// The KMS does not answer, answers that it cannot work now, or answers something that is not
    /// of a KMS. A later request can succeed.
    Unavailable,
    /// The wrapped key was not made by this key of this KMS, or was changed.
    Invalid,
}

/// The error of a request to a KMS. `Display` is a sentence for the operator, without secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("KMS key {name}: {cause}")]
pub struct KmsError {
    /// The name of the key in the request.
    pub name: KmsKeyName,
    /// The caller's next step.
    pub kind: KmsErrorKind,
    /// The cause, as a text for the operator.
    pub cause: String,
}

impl KmsError {
    pub(crate) fn new(name: &KmsKeyName, kind: KmsErrorKind, cause: impl Into<String>) -> KmsError {
        KmsError { name: name.clone(), kind, cause: cause.into() }
    }
}

/// The reason why the settings of a KMS cannot be used, as a text for the operator. It contains no
/// secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KmsSettingsError(pub(crate) String);

impl KmsSettingsError {
    pub(crate) fn new(text: impl Into<String>) -> KmsSettingsError {
        KmsSettingsError(text.into())
    }
}

//! Names of keys in a KMS.

use std::fmt;
use std::str::FromStr;

/// The limit of a key's name in bytes.
pub const KMS_KEY_NAME_BYTES_MAX: usize = 128;

/// The prefix that clients of AWS put before a name. MinIO ignores it, too.
const ARN_PREFIX: &str = "arn:aws:kms:";

/// The name of a key in a KMS: 1 to 128 letters, digits and `- _ .`, of which the first is not a
/// dot. So a name is one segment of a URL's path, and `..` is not a name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KmsKeyName(String);

/// The error for a text that is not the name of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the name of a KMS key is 1 to 128 letters, digits and - _ . and does not begin with a dot"
)]
pub struct KmsKeyNameError;

impl KmsKeyName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for KmsKeyName {
    type Err = KmsKeyNameError;

    /// Parses a name. The prefix `arn:aws:kms:`, which some clients send, is removed.
    fn from_str(text: &str) -> Result<KmsKeyName, KmsKeyNameError> {
        let name = text.strip_prefix(ARN_PREFIX).unwrap_or(text);
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let fits = (1..=KMS_KEY_NAME_BYTES_MAX).contains(&name.len());
        if fits && !name.starts_with('.') && name.bytes().all(is_part) {
            Ok(KmsKeyName(name.to_owned()))
        } else {
            Err(KmsKeyNameError)
        }
    }
}

impl fmt::Display for KmsKeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for KmsKeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

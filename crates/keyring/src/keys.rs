//! The contract of the stores that know ring keys by their numbers.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use record::RingNumber;

use crate::{KEY_BYTES, RingKey};

/// Ring keys by their numbers. Callers ask for each block, so an implementation remembers the keys
/// that it has unwrapped.
#[async_trait]
pub trait RingKeys: Debug + Send + Sync + 'static {
    /// Returns the key with this number.
    ///
    /// # Errors
    /// See [`RingErrorKind`].
    async fn key(&self, number: RingNumber) -> Result<Arc<RingKey>, RingError>;

    /// Returns the key with this number to encrypt new bytes under it. A ring key is *closed*
    /// before it is removed, and then content under it can only be read.
    ///
    /// # Errors
    /// As [`key`](RingKeys::key), and with `Unavailable` for a closed key: a caller that repeats
    /// the whole request gets another key.
    async fn key_to_write(&self, number: RingNumber) -> Result<Arc<RingKey>, RingError> {
        self.key(number).await
    }
}

/// The reason why a ring key cannot be used, by the operator's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RingErrorKind {
    /// The volume has no key with this number. The metadata must be restored.
    Unknown,
    /// The key's record was written under another master key, or was changed. The operator must
    /// give the right master key.
    Foreign,
    /// The KMS refuses the key, for example because it was disabled there.
    Refused,
    /// The KMS, or the store with the key's record, does not answer. The call may be repeated.
    Unavailable,
}

/// A ring key that cannot be used: its number, the kind, and the cause.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ring key {number} {}: {cause}", self.kind.described())]
pub struct RingError {
    /// The number of the key.
    pub number: RingNumber,
    /// The kind of the error, which determines the next step.
    pub kind: RingErrorKind,
    /// The cause, as text for the operator.
    pub cause: String,
}

impl RingErrorKind {
    fn described(self) -> &'static str {
        match self {
            RingErrorKind::Unknown => "does not exist",
            RingErrorKind::Foreign => "cannot be unwrapped",
            RingErrorKind::Refused => "is refused",
            RingErrorKind::Unavailable => "is unavailable",
        }
    }
}

/// Ring keys from a fixed list. For tests, and for a volume without ring keys: an empty list.
#[derive(Debug, Default)]
pub struct FixedRing(BTreeMap<RingNumber, Arc<RingKey>>);

impl FixedRing {
    /// Creates a ring of these keys.
    pub fn new(keys: impl IntoIterator<Item = (RingNumber, [u8; KEY_BYTES])>) -> FixedRing {
        let keyed = |(number, bytes)| (number, Arc::new(RingKey::new(bytes)));
        FixedRing(keys.into_iter().map(keyed).collect())
    }

    /// Returns the highest number of a key; `None` if there is no key.
    pub(crate) fn highest(&self) -> Option<RingNumber> {
        self.0.keys().next_back().copied()
    }
}

#[async_trait]
impl RingKeys for FixedRing {
    async fn key(&self, number: RingNumber) -> Result<Arc<RingKey>, RingError> {
        self.0.get(&number).cloned().ok_or_else(|| RingError {
            number,
            kind: RingErrorKind::Unknown,
            cause: "it is not in the volume's ring".to_owned(),
        })
    }
}

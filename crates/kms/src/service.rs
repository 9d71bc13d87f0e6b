//! The contract of a KMS.

use std::fmt::{self, Debug};

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use crate::error::KmsError;
use crate::key_name::KmsKeyName;

/// The limit of a wrapped data key in bytes. A KMS that returns more is refused, because a record
/// holds it.
pub const WRAPPED_BYTES_MAX: usize = 4 << 10;

/// A key of 32 bytes in the clear. It is never printed, and erased when it is dropped.
pub struct PlainKey(Zeroizing<[u8; PlainKey::BYTES]>);

impl PlainKey {
    /// The size of a key in bytes.
    pub const BYTES: usize = 32;

    /// Wraps 32 bytes as a key.
    pub fn new(bytes: [u8; PlainKey::BYTES]) -> PlainKey {
        PlainKey(Zeroizing::new(bytes))
    }

    /// Decodes a key in base64; `None` for other texts and lengths.
    pub(crate) fn from_base64(text: &str) -> Option<PlainKey> {
        let bytes = Zeroizing::new(STANDARD.decode(text).ok()?);
        <[u8; PlainKey::BYTES]>::try_from(&bytes[..]).map(PlainKey::new).ok()
    }

    /// Returns the bytes. The caller must neither log nor store them.
    pub fn expose(&self) -> &[u8; PlainKey::BYTES] {
        &self.0
    }
}

impl Debug for PlainKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlainKey(…)")
    }
}

/// A new data key.
#[derive(Debug)]
pub struct DataKey {
    /// The key in the clear.
    pub plain: PlainKey,
    /// The key in the form that [`Kms::decrypt`] takes, at most [`WRAPPED_BYTES_MAX`] bytes. It
    /// reveals nothing.
    pub wrapped: Vec<u8>,
}

/// A key management service.
///
/// A caller may drop the future of any call: none of them changes anything in the KMS.
#[async_trait]
pub trait Kms: Debug + Send + Sync + 'static {
    /// Returns a new data key that the named key wraps.
    ///
    /// # Errors
    /// Any kind of `KmsError` except `Invalid`.
    async fn generate(&self, name: &KmsKeyName) -> Result<DataKey, KmsError>;

    /// Returns the data key that [`Kms::generate`] wrapped under the named key.
    ///
    /// # Errors
    /// Any kind of `KmsError`.
    async fn decrypt(&self, name: &KmsKeyName, wrapped: &[u8]) -> Result<PlainKey, KmsError>;

    /// Succeeds if the named key exists and can wrap data keys now.
    ///
    /// # Errors
    /// Any kind of `KmsError` except `Invalid`.
    async fn describe(&self, name: &KmsKeyName) -> Result<(), KmsError>;

    /// Keeps the login of this process valid, also while no key is in use. It never returns, so the
    /// caller drops the future at shutdown.
    async fn keep_login(&self);
}

//! The encryption of a new object: its mode, and the key that a client's key protects (SSE-C).
//!
//! For example, a PUT with a key of the client gets a new object key. The record of the object has
//! it sealed under the client's key, and the writer encrypts the body under it.

use std::sync::Arc;

use keyring::{KEY_BYTES, ObjectEncryptionKey};
use record::Encryption;

use super::randomness::random;
use crate::VolumeError;

/// The mode of new content, with the key of the object in the mode [`Encryption::Customer`].
#[derive(Clone, Debug, Default)]
pub struct ObjectMode {
    encryption: Option<Encryption>,
    /// Present if and only if the mode is `Customer`.
    key: Option<Arc<ObjectEncryptionKey>>,
}

/// The error for a key of the client that is not the one under which the content was encrypted, or
/// that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the key of the client under which the content was encrypted")]
pub struct WrongCustomerKey;

impl ObjectMode {
    /// Returns a mode without a key of the client: `None` for content whose request and bucket name
    /// no mode.
    ///
    /// # Errors
    /// Fails with `WrongCustomerKey` for the mode `Customer`, which needs a key.
    pub fn without_key(encryption: Option<Encryption>) -> Result<ObjectMode, WrongCustomerKey> {
        match encryption {
            Some(Encryption::Customer(_)) => Err(WrongCustomerKey),
            encryption => Ok(ObjectMode { encryption, key: None }),
        }
    }

    /// Returns the mode of a new object under this key of a client, with a new object key.
    ///
    /// # Errors
    /// Fails with `Unavailable` if the machine gives no random numbers.
    pub fn of_customer(customer: &[u8; KEY_BYTES]) -> Result<ObjectMode, VolumeError> {
        ObjectMode::sealed(Arc::new(ObjectEncryptionKey::new(&random()?.into())), customer)
    }

    /// Returns the mode of a copy under this key of a client, with the object key of its source. So
    /// the copy may reference the blocks of the source.
    ///
    /// # Errors
    /// Fails with `Unavailable` if the machine gives no random numbers.
    pub fn sealed(
        key: Arc<ObjectEncryptionKey>,
        customer: &[u8; KEY_BYTES],
    ) -> Result<ObjectMode, VolumeError> {
        let seal = key.seal(customer, random()?);
        Ok(ObjectMode { encryption: Some(Encryption::Customer(Box::new(seal))), key: Some(key) })
    }

    /// Returns the mode that a record has, for example that of an upload. `customer` is the key
    /// that the request has; modes other than `Customer` do not use it.
    ///
    /// # Errors
    /// Fails with `WrongCustomerKey` if the mode is `Customer` and the key is missing or another
    /// one.
    pub fn opened(
        encryption: Option<&Encryption>,
        customer: Option<&[u8; KEY_BYTES]>,
    ) -> Result<ObjectMode, WrongCustomerKey> {
        let key = match encryption {
            Some(Encryption::Customer(seal)) => {
                let customer = customer.ok_or(WrongCustomerKey)?;
                let key =
                    ObjectEncryptionKey::open(seal, customer).map_err(|_| WrongCustomerKey)?;
                Some(Arc::new(key))
            }
            None | Some(Encryption::S3 | Encryption::Kms(_)) => None,
        };
        Ok(ObjectMode { encryption: encryption.cloned(), key })
    }

    /// The mode, as the record of the object has it.
    pub fn encryption(&self) -> Option<&Encryption> {
        self.encryption.as_ref()
    }

    /// The key of the object in the mode `Customer`, else `None`.
    pub(crate) fn key(&self) -> Option<&Arc<ObjectEncryptionKey>> {
        self.key.as_ref()
    }

    /// Returns true if content in this mode may reference the blocks and the inline bytes of
    /// content in that mode, which has this object key.
    pub(super) fn may_share(
        &self,
        encryption: Option<&Encryption>,
        key: Option<&Arc<ObjectEncryptionKey>>,
    ) -> bool {
        match (&self.key, key) {
            // Each object key has one value in this process, because each request opens it anew.
            (Some(own), Some(key)) => Arc::ptr_eq(own, key),
            (None, None) => self.encryption() == encryption,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
}

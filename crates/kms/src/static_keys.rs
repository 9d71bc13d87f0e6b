//! Keys that the operator gives to this process, for installations without a KMS of their own.
//!
//! A wrapped key is a format byte, 12 bytes of nonce, and the ciphertext with its tag, by
//! AES-256-GCM. The name of the key is bound to it. For example, a wrapped key of `payroll` does
//! not open as one of `photos`, even if both names have the same 32 bytes.

use std::collections::BTreeMap;
use std::fmt;

use async_trait::async_trait;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::rand::fill;
use zeroize::Zeroizing;

use crate::error::{KmsError, KmsErrorKind, KmsSettingsError};
use crate::key_name::KmsKeyName;
use crate::service::{DataKey, Kms, PlainKey};

/// The first byte of a wrapped key.
const FORMAT: u8 = 1;

/// A KMS of keys in the memory of this process.
pub struct StaticKms {
    keys: BTreeMap<KmsKeyName, LessSafeKey>,
}

impl StaticKms {
    /// Returns a KMS of the given keys.
    ///
    /// # Errors
    /// Fails if two keys have one name.
    pub fn new(
        keys: impl IntoIterator<Item = (KmsKeyName, PlainKey)>,
    ) -> Result<StaticKms, KmsSettingsError> {
        let mut known = BTreeMap::new();
        for (name, key) in keys {
            let cipher = UnboundKey::new(&AES_256_GCM, key.expose()).expect("a key of 32 bytes");
            if known.insert(name.clone(), LessSafeKey::new(cipher)).is_some() {
                return Err(KmsSettingsError(format!("two static keys have the name {name}")));
            }
        }
        Ok(StaticKms { keys: known })
    }

    /// Parses `NAME:KEY`, in which the key is 32 bytes in base64, as the variable
    /// `MINIO_KMS_SECRET_KEY` of MinIO has it.
    ///
    /// # Errors
    /// Fails if the text has another form. The error does not contain the key.
    pub fn parse_pair(text: &str) -> Result<(KmsKeyName, PlainKey), KmsSettingsError> {
        let form = || KmsSettingsError::new("a static key is NAME:KEY, with 32 bytes in base64");
        let (name, key) = text.trim().split_once(':').ok_or_else(form)?;
        let name = name.parse().map_err(|error| KmsSettingsError(format!("{error}")))?;
        Ok((name, StaticKms::parse_key(key)?))
    }

    /// Parses a key: 32 bytes in base64 or as 64 hexadecimal digits, with optional white space
    /// around them.
    ///
    /// # Errors
    /// Fails if the text has another form. The error does not contain the key.
    pub fn parse_key(text: &str) -> Result<PlainKey, KmsSettingsError> {
        let text = text.trim();
        let bytes = Zeroizing::new(hex::decode(text).unwrap_or_default());
        let key = <[u8; PlainKey::BYTES]>::try_from(&bytes[..]).map(PlainKey::new).ok();
        key.or_else(|| PlainKey::from_base64(text)).ok_or_else(|| {
            KmsSettingsError::new("a static key is 32 bytes, in base64 or as 64 hexadecimal digits")
        })
    }

    fn key(&self, name: &KmsKeyName) -> Result<&LessSafeKey, KmsError> {
        self.keys.get(name).ok_or_else(|| {
            KmsError::new(name, KmsErrorKind::NotFound, "no static key has this name")
        })
    }
}

#[async_trait]
impl Kms for StaticKms {
    async fn generate(&self, name: &KmsKeyName) -> Result<DataKey, KmsError> {
        let cipher = self.key(name)?;
        let mut plain = Zeroizing::new([0; PlainKey::BYTES]);
        let mut nonce = [0; NONCE_LEN];
        let random = fill(&mut plain[..]).and_then(|()| fill(&mut nonce));
        random.map_err(|_| {
            KmsError::new(name, KmsErrorKind::Unavailable, "this machine has no randomness")
        })?;
        let mut sealed = plain.to_vec();
        cipher
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(name.as_str()),
                &mut sealed,
            )
            .expect("AES-GCM seals up to 64 GiB");
        let wrapped = [&[FORMAT][..], &nonce, &sealed].concat();
        Ok(DataKey { plain: PlainKey::new(*plain), wrapped })
    }

    async fn decrypt(&self, name: &KmsKeyName, wrapped: &[u8]) -> Result<PlainKey, KmsError> {
        let cipher = self.key(name)?;
        let invalid = || {
            let cause = "the wrapped key was made with another static key, or was changed";
            KmsError::new(name, KmsErrorKind::Invalid, cause)
        };
        let rest = wrapped.strip_prefix(&[FORMAT]).ok_or_else(invalid)?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>().ok_or_else(invalid)?;
        let mut sealed = Zeroizing::new(sealed.to_vec());
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let plain = cipher.open_in_place(nonce, Aad::from(name.as_str()), &mut sealed);
        let plain = plain.map_err(|_| invalid())?;
        <[u8; PlainKey::BYTES]>::try_from(&*plain).map(PlainKey::new).map_err(|_| invalid())
    }

    async fn describe(&self, name: &KmsKeyName) -> Result<(), KmsError> {
        self.key(name).map(|_| ())
    }

    async fn keep_login(&self) {
        std::future::pending::<()>().await;
    }
}

/// Omits the keys.
impl fmt::Debug for StaticKms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticKms").field("names", &self.keys.keys()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

//! Secret keys, and their encryption in the metadata store.
//!
//! A secret key is sealed with AES-256-GCM under the master key, which only gateways have. The seal
//! is bound to the access key. For example, a record that an attacker copies to another access key
//! does not open. No type here shows a secret through `Debug` or `Display`.

use std::fmt;

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Key, Nonce};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use record::KeyFingerprint;
use sha2::Sha256;

/// A secret key. It is never printed; code must call [`Secret::expose`] for the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text as a secret.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// Returns the text. The caller must not log it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The reason why a master key or a sealed secret cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The text is not 32 bytes in hexadecimal or Base64.
    #[error("a master key is 32 bytes, written as 64 hexadecimal digits or in base64")]
    MasterKey,
    /// A newer release sealed the secret in a format, with this number, that this release does not
    /// know.
    #[error("the secret was sealed in format {0}, which this release does not know")]
    Format(u8),
    /// The secret was sealed under another master key or for another access key, or it was changed.
    #[error("the secret does not open: it was sealed under another master key, or was changed")]
    Foreign,
}

/// The first byte of a sealed secret. 12 bytes of nonce follow, then the ciphertext with its tag.
const FORMAT: u8 = 1;

/// The master key, with which gateways encrypt the secrets of access keys and the session tokens.
///
/// While an operator changes the master key, it also has the old one, which opens secrets and seals
/// none.
#[derive(Clone, PartialEq, Eq)]
pub struct MasterKey {
    key: [u8; MasterKey::BYTES],
    old: Option<[u8; MasterKey::BYTES]>,
}

impl MasterKey {
    /// The size of a master key in bytes.
    pub const BYTES: usize = 32;

    /// The size in bytes of the nonce for [`MasterKey::seal`].
    pub const NONCE_BYTES: usize = 12;

    /// Wraps random bytes as a master key.
    pub fn new(bytes: [u8; MasterKey::BYTES]) -> MasterKey {
        MasterKey { key: bytes, old: None }
    }

    /// Returns this key, with which secrets that another one has sealed open, too.
    #[must_use]
    pub fn with_old(self, old: &MasterKey) -> MasterKey {
        MasterKey { old: Some(old.key), ..self }
    }

    /// Returns the old key alone; `None` if there is none.
    pub fn old(&self) -> Option<MasterKey> {
        self.old.map(MasterKey::new)
    }

    /// Returns a public name of this key, which reveals nothing about it.
    pub fn fingerprint(&self) -> KeyFingerprint {
        let mut fingerprint = [0; KeyFingerprint::BYTES];
        let derived = self.derive("fingerprint");
        fingerprint.iter_mut().zip(derived).for_each(|(to, from)| *to = from);
        KeyFingerprint(fingerprint)
    }

    /// Parses 64 hexadecimal digits or Base64, with optional white space around them.
    pub fn parse(text: &str) -> Result<MasterKey, SealError> {
        let text = text.trim();
        let bytes = hex::decode(text).or_else(|_| STANDARD.decode(text));
        let bytes = bytes.map_err(|_| SealError::MasterKey)?;
        bytes.try_into().map(MasterKey::new).map_err(|_| SealError::MasterKey)
    }

    /// Returns the key as 64 hexadecimal digits, for a file that only its owner can read.
    pub fn expose(&self) -> String {
        hex::encode(self.key)
    }

    /// Returns a key that is derived from this one for a single purpose. Other purposes have other
    /// keys, and no key reveals the master key.
    pub fn derive(&self, purpose: &str) -> [u8; MasterKey::BYTES] {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.key).expect("HMAC takes keys of any size");
        mac.update(purpose.as_bytes());
        mac.finalize().into_bytes().into()
    }

    /// Seals a secret for an access key, that is, encrypts it so that it opens only with this
    /// master key and this access key. The nonce must be random, and no other seal may use it.
    pub fn seal(
        &self,
        access_key: &str,
        secret: &Secret,
        nonce: [u8; MasterKey::NONCE_BYTES],
    ) -> Vec<u8> {
        let payload = Payload { msg: secret.expose().as_bytes(), aad: access_key.as_bytes() };
        let sealed = cipher(self.key)
            .encrypt(&Nonce::from(nonce), payload)
            .expect("AES-GCM seals up to 64 GiB, and a secret is shorter");
        [&[FORMAT][..], &nonce, &sealed].concat()
    }

    /// Decrypts a secret that [`MasterKey::seal`] sealed for the same access key, with this key or
    /// the old one. Fails with `Format` if a newer release sealed it, and with `Foreign` if the
    /// keys or the bytes do not match.
    pub fn open(&self, access_key: &str, sealed: &[u8]) -> Result<Secret, SealError> {
        let opened = open(self.key, access_key, sealed);
        match (opened, self.old) {
            (Err(SealError::Foreign), Some(old)) => open(old, access_key, sealed),
            (opened, _) => opened,
        }
    }

    /// Seals a secret again that the old key has sealed; `None` if this key has sealed it. The
    /// nonce must be random, and no other seal may use it. Fails as [`MasterKey::open`] does.
    pub fn reseal(
        &self,
        access_key: &str,
        sealed: &[u8],
        nonce: [u8; MasterKey::NONCE_BYTES],
    ) -> Result<Option<Vec<u8>>, SealError> {
        if open(self.key, access_key, sealed).is_ok() {
            return Ok(None);
        }
        let secret = self.open(access_key, sealed)?;
        Ok(Some(self.seal(access_key, &secret, nonce)))
    }

    /// Returns true if these bytes are this secret, sealed for this access key.
    pub fn is_sealed(&self, access_key: &str, secret: &str, sealed: &[u8]) -> bool {
        self.open(access_key, sealed).is_ok_and(|opened| opened.expose() == secret)
    }
}

/// Decrypts a secret with one key.
fn open(key: [u8; MasterKey::BYTES], access_key: &str, sealed: &[u8]) -> Result<Secret, SealError> {
    let (&format, rest) = sealed.split_first().ok_or(SealError::Foreign)?;
    // The format comes first, so that an operator sees a newer release and not a wrong key.
    if format != FORMAT {
        return Err(SealError::Format(format));
    }
    let (nonce, msg) =
        rest.split_first_chunk::<{ MasterKey::NONCE_BYTES }>().ok_or(SealError::Foreign)?;
    let opened = cipher(key)
        .decrypt(&Nonce::from(*nonce), Payload { msg, aad: access_key.as_bytes() })
        .map_err(|_| SealError::Foreign)?;
    String::from_utf8(opened).map(Secret).map_err(|_| SealError::Foreign)
}

fn cipher(key: [u8; MasterKey::BYTES]) -> Aes256Gcm {
    Aes256Gcm::new(&Key::<Aes256Gcm>::from(key))
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey(…)")
    }
}

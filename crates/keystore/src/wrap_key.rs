//! The keys that wrap ring keys: they are derived from master keys.
//!
//! A wrapped ring key is 12 bytes of nonce, and the ciphertext of 32 bytes with its tag, by
//! AES-256-GCM. The volume and the number are bound to it. For example, a record that is copied
//! from another volume, or to another number, does not open.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::rand::fill;
use keyring::KEY_BYTES;
use record::{KeyFingerprint, RingNumber};
use zeroize::Zeroizing;

use crate::error::KeyStoreError;

/// The first bytes of the associated data.
const PURPOSE: &[u8] = b"ring";

/// A key that wraps ring keys, and the fingerprint of the master key from which it is derived.
#[derive(Clone)]
pub struct WrapKey {
    bytes: Zeroizing<[u8; KEY_BYTES]>,
    fingerprint: KeyFingerprint,
}

/// The wrap key for new records, and, during a change of the master key, the earlier one.
#[derive(Clone, Debug)]
pub struct WrapKeys {
    /// The key that wraps new records.
    pub new: WrapKey,
    /// The key of the earlier master key; `None` if it is not given.
    pub old: Option<WrapKey>,
}

impl WrapKey {
    /// Returns a key. `bytes` and the fingerprint are derived from the master key for these
    /// purposes alone.
    pub fn new(bytes: [u8; KEY_BYTES], fingerprint: KeyFingerprint) -> WrapKey {
        WrapKey { bytes: Zeroizing::new(bytes), fingerprint }
    }

    /// Returns the fingerprint of the master key.
    pub fn fingerprint(&self) -> KeyFingerprint {
        self.fingerprint
    }

    /// Wraps a ring key.
    pub(crate) fn wrap(
        &self,
        volume: [u8; 16],
        number: RingNumber,
        key: &[u8; KEY_BYTES],
    ) -> Result<Vec<u8>, KeyStoreError> {
        let mut nonce = [0; NONCE_LEN];
        fill(&mut nonce).map_err(|_| KeyStoreError::Randomness)?;
        let mut sealed = Zeroizing::new(key.to_vec());
        let tag = self
            .cipher()
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                associated(volume, number),
                &mut sealed,
            )
            .expect("AES-GCM seals up to 64 GiB");
        Ok([&nonce[..], &sealed, tag.as_ref()].concat())
    }

    /// Unwraps a ring key; `None` if another key wrapped it, or if it was changed.
    pub(crate) fn unwrap(
        &self,
        volume: [u8; 16],
        number: RingNumber,
        wrapped: &[u8],
    ) -> Option<Zeroizing<[u8; KEY_BYTES]>> {
        let (nonce, sealed) = wrapped.split_first_chunk::<NONCE_LEN>()?;
        let mut sealed = Zeroizing::new(sealed.to_vec());
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let plain = self.cipher().open_in_place(nonce, associated(volume, number), &mut sealed);
        plain.ok().and_then(|plain| (&*plain).try_into().ok()).map(Zeroizing::new)
    }

    fn cipher(&self) -> LessSafeKey {
        let key = UnboundKey::new(&AES_256_GCM, &self.bytes[..]).expect("a key of 32 bytes");
        LessSafeKey::new(key)
    }
}

impl WrapKeys {
    /// Returns the key of the master key with this fingerprint.
    pub(crate) fn of(&self, fingerprint: KeyFingerprint) -> Option<&WrapKey> {
        [Some(&self.new), self.old.as_ref()]
            .into_iter()
            .flatten()
            .find(|key| key.fingerprint == fingerprint)
    }
}

/// Omits the key.
impl fmt::Debug for WrapKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WrapKey").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}

fn associated(volume: [u8; 16], number: RingNumber) -> Aad<Vec<u8>> {
    Aad::from([PURPOSE, &volume[..], &number.0.to_be_bytes()].concat())
}

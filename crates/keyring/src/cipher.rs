//! The cipher of the units of one block, or of one inline content: AES-256-GCM.

use std::fmt;

use aws_lc_rs::aead::{Aad, LessSafeKey, NONCE_LEN, Nonce};

/// The bytes of the tag that authenticates a unit.
pub const TAG_BYTES: usize = 16;

/// AES-256-GCM under one key, for numbered units. The nonce of a unit is its number as a big-endian
/// integer of 96 bits.
pub struct UnitCipher(LessSafeKey);

/// The error for bytes that were not encrypted by this cipher as this unit, or that were changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are not authentic")]
pub struct NotAuthentic;

impl UnitCipher {
    pub(crate) fn new(key: LessSafeKey) -> UnitCipher {
        UnitCipher(key)
    }

    /// Encrypts a unit in place and returns its tag. `associated` is not encrypted; the tag
    /// authenticates it too.
    ///
    /// The caller encrypts at most one plaintext for each unit: a second one would reveal both.
    ///
    /// # Panics
    /// If the unit is longer than 64 GiB, the limit of AES-GCM.
    pub fn seal(&self, unit: u32, associated: &[u8], bytes: &mut [u8]) -> [u8; TAG_BYTES] {
        let sealed = self.0.seal_in_place_separate_tag(nonce(unit), Aad::from(associated), bytes);
        let sealed = sealed.expect("a unit is shorter than 64 GiB");
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(sealed.as_ref());
        tag
    }

    /// Decrypts a unit in place, and verifies it with its tag.
    ///
    /// # Errors
    /// Fails with `NotAuthentic` if the bytes, the tag, `associated`, the unit's number or the key
    /// differ from those of the encryption. The bytes are undefined then.
    pub fn open(
        &self,
        unit: u32,
        associated: &[u8],
        bytes: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> Result<(), NotAuthentic> {
        let associated = Aad::from(associated);
        match self.0.open_in_place_separate_tag(nonce(unit), associated, tag, bytes) {
            Ok(_) => Ok(()),
            Err(_) => Err(NotAuthentic),
        }
    }
}

fn nonce(unit: u32) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    let (_, number) = nonce.split_at_mut(NONCE_LEN - size_of::<u32>());
    number.copy_from_slice(&unit.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

impl fmt::Debug for UnitCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UnitCipher(…)")
    }
}

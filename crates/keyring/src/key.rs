//! A ring key, and the keys that follow from it.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Okm, Salt};
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use zeroize::Zeroizing;

use crate::UnitCipher;

/// The length of a ring key in bytes.
pub const KEY_BYTES: usize = 32;

/// The length of a [`mac`](RingKey::mac) in bytes.
pub const MAC_BYTES: usize = 32;

/// A ring key: 32 secret bytes, which are overwritten in memory when the value is dropped. No
/// method returns them; all use is through keys that are derived by HKDF-SHA256.
pub struct RingKey(Box<Zeroizing<[u8; KEY_BYTES]>>);

impl RingKey {
    /// Creates a key from its bytes. The caller overwrites its own copy of them.
    pub fn new(bytes: [u8; KEY_BYTES]) -> RingKey {
        // In a box, so that a move of the key leaves no copy on the stack.
        RingKey(Box::new(Zeroizing::new(bytes)))
    }

    /// Returns the cipher that follows from this key, a purpose and a salt. For example, a block's
    /// cipher has the purpose `block` and the block's id as salt. The same arguments give the same
    /// cipher.
    ///
    /// The caller encrypts at most one plaintext for each purpose, salt and unit.
    pub fn cipher(&self, purpose: &'static str, salt: &[u8]) -> UnitCipher {
        let derive = |okm: Okm<'_, _>| UnboundKey::from(okm);
        UnitCipher::new(LessSafeKey::new(self.derived(purpose, salt, &AES_256_GCM, derive)))
    }

    /// Returns HMAC-SHA256 of several parts, under the key that follows from this key and a
    /// purpose. The length of each part counts too: `ab`, `c` and `a`, `bc` give different results.
    pub fn mac(&self, purpose: &'static str, parts: &[&[u8]]) -> [u8; MAC_BYTES] {
        let key = self.derived(purpose, &[], HMAC_SHA256, |okm| hmac::Key::from(okm));
        let mut context = hmac::Context::with_key(&key);
        for part in parts {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let mut mac = [0; MAC_BYTES];
        mac.copy_from_slice(context.sign().as_ref());
        mac
    }

    pub(crate) fn derived<L: KeyType, K>(
        &self,
        purpose: &'static str,
        salt: &[u8],
        length: L,
        key: impl FnOnce(Okm<'_, L>) -> K,
    ) -> K {
        let extracted = Salt::new(HKDF_SHA256, salt).extract(self.0.as_slice());
        let info = [purpose.as_bytes()];
        let expanded = extracted.expand(&info, length);
        key(expanded.expect("HKDF-SHA256 gives keys of 32 bytes"))
    }
}

impl fmt::Debug for RingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RingKey(…)")
    }
}

//! The key of one object whose client sends a key with each request (SSE-C).
//!
//! Each object has a random key of its own. The record of the object has this key only as a
//! [`CustomerSeal`], which the client's key opens. For example, a copy to another client's key
//! seals the same object key again, and moves no byte of the content.

use std::fmt;

use aws_lc_rs::cipher::{AES_256, EncryptingKey, EncryptionContext, UnboundCipherKey};
use aws_lc_rs::iv::FixedLength;
use record::{BlockId, CustomerSeal};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::{KEY_BYTES, NotAuthentic, RingKey};

/// The bytes of a block of AES, and of a step of its counter.
const AES_BLOCK_BYTES: usize = 16;

/// The key of one object: 32 secret bytes, which are overwritten in memory when the value is
/// dropped.
pub struct ObjectEncryptionKey {
    derive: RingKey,
    /// Kept beside `derive`, which never returns its bytes, because a copy seals them again.
    bytes: Zeroizing<[u8; KEY_BYTES]>,
}

/// The cipher of the bytes of one block, or of the inline bytes of one object: AES-256 in counter
/// mode. It does not change lengths and positions, so a range of bytes can be decrypted alone. It
/// does not authenticate the bytes.
pub struct PositionCipher(EncryptingKey);

impl ObjectEncryptionKey {
    /// Creates a key from random bytes.
    pub fn new(bytes: &Zeroizing<[u8; KEY_BYTES]>) -> ObjectEncryptionKey {
        ObjectEncryptionKey { derive: RingKey::new(**bytes), bytes: bytes.clone() }
    }

    /// Seals this key under the key of a client. `salt` is random, and new for each call.
    pub fn seal(&self, customer: &[u8; KEY_BYTES], salt: [u8; 16]) -> CustomerSeal {
        let customer = RingKey::new(*customer);
        let mut sealed = self.bytes.clone();
        let tag = customer.cipher("object key", &salt).seal(0, b"", &mut sealed[..]);
        let mut wrapped = [0; KEY_BYTES + crate::TAG_BYTES];
        wrapped[..KEY_BYTES].copy_from_slice(&sealed[..]);
        wrapped[KEY_BYTES..].copy_from_slice(&tag);
        CustomerSeal { salt, wrapped, check: check(&customer, &salt) }
    }

    /// Opens a seal with the key of a client.
    ///
    /// # Errors
    /// Fails with `NotAuthentic` if it is not the key under which the object key was sealed, or if
    /// the seal was changed.
    pub fn open(
        seal: &CustomerSeal,
        customer: &[u8; KEY_BYTES],
    ) -> Result<ObjectEncryptionKey, NotAuthentic> {
        let customer = RingKey::new(*customer);
        // AES-GCM alone does not exclude a ciphertext that two keys open. The check does.
        if !bool::from(check(&customer, &seal.salt).ct_eq(&seal.check)) {
            return Err(NotAuthentic);
        }
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        let mut tag = [0; crate::TAG_BYTES];
        bytes.copy_from_slice(&seal.wrapped[..KEY_BYTES]);
        tag.copy_from_slice(&seal.wrapped[KEY_BYTES..]);
        customer.cipher("object key", &seal.salt).open(0, b"", &mut bytes[..], &tag)?;
        Ok(ObjectEncryptionKey::new(&bytes))
    }

    /// Returns the cipher of the content of a block. A block is written once and its id is never
    /// used again, so no two plaintexts meet the same bytes of the cipher.
    pub fn of_block(&self, block: BlockId) -> PositionCipher {
        self.cipher("object block", &block.0)
    }

    /// Returns the cipher of the inline bytes of the object. An object key encrypts one inline
    /// content at most: the content of its object never changes.
    pub fn of_inline(&self) -> PositionCipher {
        self.cipher("object inline", b"")
    }

    fn cipher(&self, purpose: &'static str, salt: &[u8]) -> PositionCipher {
        let key = self.derive.derived(purpose, salt, &AES_256, |okm| UnboundCipherKey::from(okm));
        PositionCipher(EncryptingKey::ctr(key).expect("a key of 32 bytes fits AES-256"))
    }
}

impl PositionCipher {
    /// Encrypts or decrypts bytes in place: both are the same. `position` is the position of their
    /// first byte in the content of the block.
    pub fn apply(&self, position: u64, bytes: &mut [u8]) {
        let step = AES_BLOCK_BYTES as u64;
        let (mut counter, within) = (position / step, position % step);
        let mut rest = bytes;
        if within > 0 && !rest.is_empty() {
            // The bytes begin inside a block of AES, so they get the last bytes of its key stream.
            let within = usize::try_from(within).unwrap_or_default();
            let mut block = [0; AES_BLOCK_BYTES];
            let (head, tail) = rest.split_at_mut(rest.len().min(AES_BLOCK_BYTES - within));
            let place = &mut block[within..within + head.len()];
            place.copy_from_slice(head);
            self.apply_blocks(counter, &mut block);
            head.copy_from_slice(&block[within..within + head.len()]);
            (counter, rest) = (counter + 1, tail);
        }
        if !rest.is_empty() {
            self.apply_blocks(counter, rest);
        }
    }

    fn apply_blocks(&self, counter: u64, bytes: &mut [u8]) {
        let iv = FixedLength::from(u128::from(counter).to_be_bytes());
        let done = self.0.less_safe_encrypt(bytes, EncryptionContext::Iv128(iv));
        done.expect("counter mode takes bytes of each length");
    }
}

fn check(customer: &RingKey, salt: &[u8; 16]) -> [u8; 16] {
    let mac = customer.mac("object key check", &[salt]);
    std::array::from_fn(|index| mac[index])
}

impl fmt::Debug for ObjectEncryptionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ObjectEncryptionKey(…)")
    }
}

impl fmt::Debug for PositionCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PositionCipher(…)")
    }
}

#[cfg(test)]
mod tests;

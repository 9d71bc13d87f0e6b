//! The conversion of one record between its readable and its sealed form.
//!
//! ```text
//! salt    HMAC-SHA256(ring key, record key ‖ head ‖ fields), the first 16 bytes
//! cipher  AES-256-GCM under HKDF-SHA256(ring key, salt), nonce 0,
//!         associated data: the record's key, the number of the ring key, the head
//! ```
//!
//! The salt depends on the plaintext. So two different records never have one key and nonce, and a
//! record that is written twice has the same bytes. An observer of the store learns from that only
//! that a record returned to earlier content.

use keyring::{RingKey, TAG_BYTES, UnitCipher};
use record::{DecodeError, OpenInode, RingNumber, SALT_BYTES, SealedInode};
use store::{Key, Value};

/// The purposes of the keys that are derived from a ring key here. They are part of the format.
const SALT_PURPOSE: &str = "inode salt";
const CONTENT_PURPOSE: &str = "inode content";

/// A record has one plaintext for each salt, so it needs one nonce.
const UNIT: u32 = 0;

/// Returns the sealed form of a readable record. `ring_key` is the key that the record names.
pub fn seal(key: &Key, open: &OpenInode<'_>, ring_key: &RingKey) -> Value {
    let mac = ring_key.mac(SALT_PURPOSE, &[key.as_bytes(), open.head, open.fields]);
    let mut salt = [0; SALT_BYTES];
    salt.iter_mut().zip(mac).for_each(|(to, from)| *to = from);
    let cipher = ring_key.cipher(CONTENT_PURPOSE, &salt);
    let mut sealed = Vec::with_capacity(open.fields.len() + TAG_BYTES);
    sealed.extend_from_slice(open.fields);
    let tag = cipher.seal(UNIT, &associated(key, open.ring, open.head), &mut sealed);
    sealed.extend_from_slice(&tag);
    open.seal(key, salt, &sealed)
}

/// Returns the readable form of a sealed record. `ring_key` is the key that the record names.
///
/// # Errors
/// Fails with `Sealed` if the record was sealed under another key, for another record, or was
/// changed.
pub fn open(key: &Key, sealed: &SealedInode<'_>, ring_key: &RingKey) -> Result<Value, DecodeError> {
    let foreign = DecodeError::Sealed(sealed.ring);
    let (fields, tag) = sealed.sealed.split_last_chunk::<TAG_BYTES>().ok_or(foreign)?;
    let cipher: UnitCipher = ring_key.cipher(CONTENT_PURPOSE, &sealed.salt);
    let mut fields = fields.to_vec();
    let associated = associated(key, sealed.ring, sealed.head);
    cipher.open(UNIT, &associated, &mut fields, tag).map_err(|_| foreign)?;
    Ok(sealed.open(key, &fields))
}

/// The associated data. Each part has a length of its own: the key's is fixed by its space, the
/// number has four bytes, and the head begins with its length.
fn associated(key: &Key, ring: RingNumber, head: &[u8]) -> Vec<u8> {
    [key.as_bytes(), &ring.0.to_be_bytes(), head].concat()
}

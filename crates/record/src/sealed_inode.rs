//! The two forms of an inode's record whose content is inline and encrypted in the store.
//!
//! - The *open* form is readable. Planners write and read it, and it never reaches a store.
//! - The *sealed* form is in the store. Its head is readable, so that listings need no key, and the
//!   rest is encrypted under a ring key.
//!
//! A layer over the metadata store converts them. This module takes records apart and puts them
//! together, and does no cryptography. For example, the open record of `a.txt` with 100 bytes
//! becomes a sealed record that is 32 bytes longer: a salt, and the tag of the encryption.

use store::{Key, Value};

use crate::codec::{CRC_BYTES, DecodeError, Reader, Writer};
use crate::inode::Inode;
use crate::ring::RingNumber;

/// The parts of a record in the open form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenInode<'a> {
    /// The length and the bytes of the head, without its checksum. They are the same in both forms.
    pub head: &'a [u8],
    /// The ring key under which the fields are encrypted in the store.
    pub ring: RingNumber,
    /// The fields behind the head: the content, the S3 metadata and the extended attributes.
    pub fields: &'a [u8],
}

/// The parts of a record in the sealed form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedInode<'a> {
    /// The length and the bytes of the head, without its checksum. They are the same in both forms.
    pub head: &'a [u8],
    /// The ring key under which the fields are encrypted.
    pub ring: RingNumber,
    /// The salt from which the key of this record was derived, together with the ring key.
    pub salt: [u8; SALT_BYTES],
    /// The encrypted fields, with the tag of the encryption.
    pub sealed: &'a [u8],
}

/// The length in bytes of the salt of a sealed record.
pub const SALT_BYTES: usize = 16;

/// Returns true if these bytes of an inode's record begin a record in the open form.
pub fn is_open_inode(value: &[u8]) -> bool {
    value.first() == Some(&Inode::OPEN_FORMAT)
}

/// Returns true if these bytes of an inode's record begin a record in the sealed form.
pub fn is_sealed_inode(value: &[u8]) -> bool {
    value.first() == Some(&Inode::SEALED_FORMAT)
}

impl<'a> OpenInode<'a> {
    /// Takes a record in the open form apart.
    ///
    /// # Errors
    /// Fails if the bytes are not such a record.
    pub fn of(key: &Key, value: &'a Value) -> Result<OpenInode<'a>, DecodeError> {
        let (head, mut rest) = parts(key, value, Inode::OPEN_FORMAT)?;
        let ring = rest.ring_number()?;
        Ok(OpenInode { head, ring, fields: rest.rest() })
    }

    /// Returns the record in the sealed form. `sealed` are the encrypted fields with their tag.
    pub fn seal(&self, key: &Key, salt: [u8; SALT_BYTES], sealed: &[u8]) -> Value {
        let mut to = Writer::new(Inode::SEALED_FORMAT);
        to.fixed(self.head).end_head(key);
        to.fixed(&self.ring.0.to_be_bytes()).fixed(&salt).fixed(sealed);
        to.finish(key)
    }
}

impl<'a> SealedInode<'a> {
    /// Takes a record in the sealed form apart.
    ///
    /// # Errors
    /// Fails if the bytes are not such a record.
    pub fn of(key: &Key, value: &'a Value) -> Result<SealedInode<'a>, DecodeError> {
        let (head, mut rest) = parts(key, value, Inode::SEALED_FORMAT)?;
        let ring = rest.ring_number()?;
        let salt = rest.fixed("salt")?;
        Ok(SealedInode { head, ring, salt, sealed: rest.rest() })
    }

    /// Returns the record in the open form. `fields` are the decrypted fields.
    pub fn open(&self, key: &Key, fields: &[u8]) -> Value {
        let mut to = Writer::new(Inode::OPEN_FORMAT);
        to.fixed(self.head).end_head(key);
        to.fixed(&self.ring.0.to_be_bytes()).fixed(fields);
        to.finish(key)
    }
}

/// Returns the head of a record of this format, with its length and without its checksum, and a
/// reader of the bytes behind the checksum.
fn parts<'a>(
    key: &Key,
    value: &'a Value,
    format: u8,
) -> Result<(&'a [u8], Reader<'a>), DecodeError> {
    let mut rest = Reader::new(key, value, format)?;
    if !rest.since(format) {
        return Err(DecodeError::Field("format"));
    }
    let before = rest.remaining();
    rest.bytes("head")?;
    let head_bytes = before - rest.remaining();
    rest.fixed::<CRC_BYTES>("head")?;
    // The head follows the format byte.
    let head = value.get(1..=head_bytes).ok_or(DecodeError::Field("head"))?;
    Ok((head, rest))
}

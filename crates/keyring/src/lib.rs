//! Ring keys: the keys under which a volume encrypts its blocks and inline content.
//!
//! - A [`RingKey`] is one key of 32 bytes. From it follow keys for each block and each purpose.
//! - A [`UnitCipher`] encrypts and decrypts the units of one block, or one inline content.
//! - An [`ObjectEncryptionKey`] is the key of one object whose client sends a key with each
//!   request.
//! - [`RingKeys`] is the contract of the stores that know the keys by their numbers.
//!
//! **Invariant.** No key encrypts two plaintexts under one nonce. Each block has a key of its own,
//! because its id is never used again, and each of its units has the nonce of its index.
//!
//! For example, unit 3 of a block is encrypted under the key that follows from ring key 1 and the
//! block's id, with the nonce 3. A repeated put sends the same bytes.
//!
//! The crate does no I/O. It knows neither records nor the master key that protects ring keys.

mod cipher;
mod key;
mod keys;
mod object_key;
mod rings;

pub use cipher::{NotAuthentic, TAG_BYTES, UnitCipher};
pub use key::{KEY_BYTES, MAC_BYTES, RingKey};
pub use keys::{FixedRing, RingError, RingErrorKind, RingKeys};
pub use object_key::{ObjectEncryptionKey, PositionCipher};
pub use record::RingNumber;
pub use rings::{Protection, ProtectionError, ProtectionErrorKind, Rings};

#[cfg(test)]
mod tests;

//! The ring keys of a volume, and their protection.
//!
//! A [`KeyStore`] reads the records of the ring from the metadata store, unwraps the keys, and
//! gives them to the layers that encrypt blocks and inline content. It makes the first key when
//! content is to be encrypted, and a new one at each rotation. Keys of the volume are wrapped by
//! the master key; keys of objects with SSE-KMS are wrapped by a key management service.
//!
//! Invariants: a number never names two keys, also if two gateways make a key at the same time. No
//! key is stored, logged or printed in the clear. A key that the KMS refuses is used for at most
//! [`KMS_KEY_AGE_MAX`] after its last unwrapping.
//!
//! For example, two gateways get the first PUT with SSE-S3 at the same time. Both draw a key and
//! send a plan that makes it number 1. One plan is committed; the other gateway reads the record
//! and uses the key of the first.
//!
//! The crate knows neither the content that is encrypted, nor the clients that ask for it.

mod error;
mod key_store;
mod making;
mod rewrap;
mod ring;
mod ring_kind;
mod unwrapping;
mod wrap_key;

pub use error::KeyStoreError;
pub use key_store::KeyStore;
pub use rewrap::{ResealSecret, Rewrapped};
pub use ring::RingEntry;
pub use ring_kind::RingKind;
pub use unwrapping::{KMS_FAILURE_AGE_MAX, KMS_KEY_AGE_MAX};
pub use wrap_key::{WrapKey, WrapKeys};

#[cfg(test)]
mod tests;

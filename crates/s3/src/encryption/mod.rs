//! Server-side encryption as requests, answers and bucket configurations name it.
//!
//! S3 has three modes. SSE-S3 (`AES256`) encrypts under a key of the volume, SSE-KMS (`aws:kms`)
//! under a key of a key management service, and SSE-C under a key that the client sends with each
//! request. [`RequestedEncryption`] is the mode that a request names for a new object or for a
//! part, [`CustomerKey`] the client's key, [`AppliedEncryption`] the headers of an answer, and
//! [`BucketEncryption`] the default of a bucket.
//!
//! For example, a PUT with `x-amz-server-side-encryption: AES256` requests
//! `RequestedEncryption::S3`, and each answer about the object has the same header.
//!
//! Invariant: a header of encryption is parsed or refused, and never ignored. A client must not
//! believe that the gateway encrypts an object, if it does not.
//!
//! The module encrypts nothing. It does not know which keys exist, and if the key of a client is
//! the right one for an object.

mod applied;
mod bucket;
mod customer_key;
mod fault;
mod headers;
mod requested;
#[cfg(test)]
mod tests;

pub use applied::{AppliedEncryption, EncryptionMode};
pub use bucket::{BucketEncryption, DefaultEncryption};
pub use customer_key::{CustomerKey, check_read};
pub use fault::{
    insecure_customer_key, missing_customer_key, other_customer_key, unknown_kms_key,
    wrong_customer_key,
};
pub use requested::RequestedEncryption;

//! Checksums: they are computed in one pass over a body, compared with the client's values, and
//! combined.
//!
//! Roles: an [`Expectation`] holds the checksums that a request announces. A [`BodyHasher`]
//! computes the digests that the expectation needs, and `Expectation::verify` compares them.
//! [`combine()`] and [`composite`] compute the checksum of a multipart object from the checksums of
//! its parts.
//!
//! Invariant: the CRC-64 of each body is computed, even if the client does not request it. For
//! example, a multipart object without requested checksums still gets a full-object CRC-64 from its
//! parts.

mod combine;
mod expect;
mod hasher;
mod sum_hasher;
#[cfg(test)]
mod tests;
mod verify;

pub use combine::{Combined, combine, composite};
pub use expect::Expectation;
pub use hasher::{BodyHasher, Digests};
pub(crate) use hashing::Md5;
pub use sum_hasher::SumHasher;
pub use verify::checksum_mismatch;

//! Checksums: computed in one pass over a body, compared with what the client sent, combined.
//!
//! What a request states about the bytes of its body is an [`Expectation`]. It says what a
//! [`BodyHasher`] must compute, and verifies the result. A CRC-64 is computed of every body,
//! whether it was asked for or not.

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

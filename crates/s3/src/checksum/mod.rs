//! Checksums: computed in one pass over a body, compared with what the client sent, combined.
//!
//! What a request states about the bytes of its body is an [`Expectation`]. It says what a
//! [`BodyHasher`] must compute, and verifies the result. A CRC-64 is computed of every body,
//! whether it was asked for or not.

mod combine;
mod expect;
mod hasher;
#[cfg(test)]
mod tests;
mod verify;

pub use combine::{Combined, combine, composite};
pub use expect::Expectation;
pub use hasher::{BodyHasher, Digests};
pub(crate) use hashing::Md5;

use crate::request::ChecksumAlgorithm;

/// How many bytes a checksum has.
pub const fn sum_bytes(algorithm: ChecksumAlgorithm) -> usize {
    match algorithm {
        ChecksumAlgorithm::Crc32 | ChecksumAlgorithm::Crc32c => 4,
        ChecksumAlgorithm::Crc64Nvme => 8,
        ChecksumAlgorithm::Sha1 => 20,
        ChecksumAlgorithm::Sha256 => 32,
    }
}

/// Decodes a checksum from base64; `None` if it has not as many bytes as the algorithm's have.
pub fn decode_sum(algorithm: ChecksumAlgorithm, text: &str) -> Option<Vec<u8>> {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).ok()?;
    (bytes.len() == sum_bytes(algorithm)).then_some(bytes)
}

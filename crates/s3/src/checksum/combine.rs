//! The checksum of an object, computed from the checksums of its parts without reading content.

use hashing::{Crc, CrcCombiner};

use super::SumHasher;
use crate::request::ChecksumAlgorithm;

/// The checksum and the length of a piece of an object, such as a part of a multipart upload.
#[derive(Clone, Copy, Debug)]
pub struct Combined<'a> {
    /// The checksum of the piece, as big-endian bytes.
    pub sum: &'a [u8],
    /// The length of the piece in bytes.
    pub length: u64,
}

/// Returns the CRC of the concatenated pieces, in this order; without pieces, the CRC of no bytes.
///
/// `None` for hashes, which cannot be combined, or if a sum has the wrong length.
pub fn combine<'a>(
    algorithm: ChecksumAlgorithm,
    pieces: impl IntoIterator<Item = Combined<'a>>,
) -> Option<Vec<u8>> {
    let crc = crc(algorithm)?;
    let bytes = algorithm.sum_bytes();
    // Each of the three CRCs of no bytes is zero.
    let mut total = 0;
    // The combination factor depends only on the length, and most parts have the length of the
    // previous part.
    let mut combiner = CrcCombiner::new(crc, 0);
    for piece in pieces {
        if piece.sum.len() != bytes {
            return None;
        }
        // The three CRCs have 4 or 8 bytes, so each fits into 64 bits.
        let sum = piece.sum.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        if combiner.bytes() != piece.length {
            combiner = CrcCombiner::new(crc, piece.length);
        }
        total = combiner.combine(total, sum);
    }
    Some(total.to_be_bytes().iter().skip(8 - bytes).copied().collect())
}

/// Returns the composite checksum of a multipart object: the checksum of the concatenated checksums
/// of the parts. On the wire a `-` and the number of parts follow it.
pub fn composite<'a>(
    algorithm: ChecksumAlgorithm,
    sums: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<u8> {
    let mut hasher = SumHasher::new(algorithm);
    for sum in sums {
        hasher.update(sum);
    }
    hasher.finish()
}

/// Returns the CRC of an algorithm; `None` if the algorithm is a hash.
fn crc(algorithm: ChecksumAlgorithm) -> Option<Crc> {
    match algorithm {
        ChecksumAlgorithm::Crc32 => Some(Crc::Crc32),
        ChecksumAlgorithm::Crc32c => Some(Crc::Crc32c),
        ChecksumAlgorithm::Crc64Nvme => Some(Crc::Crc64Nvme),
        ChecksumAlgorithm::Md5
        | ChecksumAlgorithm::Sha1
        | ChecksumAlgorithm::Sha256
        | ChecksumAlgorithm::Sha512
        | ChecksumAlgorithm::Xxhash64
        | ChecksumAlgorithm::Xxhash3
        | ChecksumAlgorithm::Xxhash128 => None,
    }
}

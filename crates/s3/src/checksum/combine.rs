//! The checksum of an object from the checksums of its parts. No content is read.

use hashing::{Crc, CrcCombiner};

use super::SumHasher;
use crate::request::ChecksumAlgorithm;

/// A piece of a whole: its checksum and its length.
#[derive(Clone, Copy, Debug)]
pub struct Combined<'a> {
    /// The checksum, big-endian.
    pub sum: &'a [u8],
    /// Bytes of content.
    pub length: u64,
}

/// The CRC of pieces in this order, put together; that of no bytes if there are no pieces.
///
/// `None` for hashes, which cannot be combined, and when a sum has the wrong length.
pub fn combine<'a>(
    algorithm: ChecksumAlgorithm,
    pieces: impl IntoIterator<Item = Combined<'a>>,
) -> Option<Vec<u8>> {
    let crc = crc(algorithm)?;
    let bytes = algorithm.sum_bytes();
    // All three CRCs of no bytes are zero.
    let mut whole = 0;
    // The factor depends on the length alone, and most parts have the length of the one before.
    let mut behind = CrcCombiner::new(crc, 0);
    for piece in pieces {
        if piece.sum.len() != bytes {
            return None;
        }
        let sum = piece.sum.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        if behind.bytes() != piece.length {
            behind = CrcCombiner::new(crc, piece.length);
        }
        whole = behind.combine(whole, sum);
    }
    Some(whole.to_be_bytes().iter().skip(8 - bytes).copied().collect())
}

/// The checksum of the parts' checksums. On the wire a `-` and the number of parts follow it.
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

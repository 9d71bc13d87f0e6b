//! Checksums of S3 clients. For example, an upload with `x-amz-checksum-crc32c` stores a `Crc32c`
//! over the full object.

use crate::codec::{DecodeError, Reader, Writer};

/// The most checksums in the head of an inode's record, the part that a listing reads. It is the
/// number of algorithms, because a file has at most one checksum of each.
pub(crate) const HEAD_SUMS_MAX: usize = 10;

/// The input of an object's checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumKind {
    /// All bytes of the object.
    FullObject = 0,
    /// The checksums of the parts of a multipart upload, concatenated.
    Composite = 1,
}

impl SumKind {
    pub(crate) fn read(from: &mut Reader<'_>) -> Result<SumKind, DecodeError> {
        SumKind::of(from.u8("checksum kind")?)
    }

    /// Reads algorithm and kind from one byte, as in the head of an inode.
    pub(crate) fn read_with_algorithm(
        from: &mut Reader<'_>,
    ) -> Result<(SumAlgorithm, SumKind), DecodeError> {
        let mark = from.u8("checksum")?;
        Ok((SumAlgorithm::of(mark & 0x0f)?, SumKind::of(mark >> 4)?))
    }

    fn of(number: u8) -> Result<SumKind, DecodeError> {
        match number {
            0 => Ok(SumKind::FullObject),
            1 => Ok(SumKind::Composite),
            _ => Err(DecodeError::Field("checksum kind")),
        }
    }
}

/// A checksum algorithm of S3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SumAlgorithm {
    /// CRC-32, 4 bytes.
    Crc32 = 1,
    /// CRC-32C, 4 bytes.
    Crc32c = 2,
    /// CRC-64/NVME, 8 bytes.
    Crc64Nvme = 3,
    /// SHA-1, 20 bytes.
    Sha1 = 4,
    /// SHA-256, 32 bytes.
    Sha256 = 5,
    /// SHA-512, 64 bytes.
    Sha512 = 6,
    /// MD5, 16 bytes.
    Md5 = 7,
    /// XXH64 with seed 0, 8 bytes.
    Xxhash64 = 8,
    /// XXH3 with seed 0, 8 bytes.
    Xxhash3 = 9,
    /// XXH128 with seed 0, 16 bytes.
    Xxhash128 = 10,
}

// An inode's head has four bits for the algorithm.
const _: () = assert!((SumAlgorithm::Xxhash128 as u8) < 16);

impl SumAlgorithm {
    /// The length of a checksum, in bytes.
    pub const fn length(self) -> usize {
        match self {
            SumAlgorithm::Crc32 | SumAlgorithm::Crc32c => 4,
            SumAlgorithm::Crc64Nvme | SumAlgorithm::Xxhash64 | SumAlgorithm::Xxhash3 => 8,
            SumAlgorithm::Md5 | SumAlgorithm::Xxhash128 => 16,
            SumAlgorithm::Sha1 => 20,
            SumAlgorithm::Sha256 => 32,
            SumAlgorithm::Sha512 => 64,
        }
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<SumAlgorithm, DecodeError> {
        SumAlgorithm::of(from.u8("checksum algorithm")?)
    }

    fn of(number: u8) -> Result<SumAlgorithm, DecodeError> {
        Ok(match number {
            1 => SumAlgorithm::Crc32,
            2 => SumAlgorithm::Crc32c,
            3 => SumAlgorithm::Crc64Nvme,
            4 => SumAlgorithm::Sha1,
            5 => SumAlgorithm::Sha256,
            6 => SumAlgorithm::Sha512,
            7 => SumAlgorithm::Md5,
            8 => SumAlgorithm::Xxhash64,
            9 => SumAlgorithm::Xxhash3,
            10 => SumAlgorithm::Xxhash128,
            _ => return Err(DecodeError::Field("checksum algorithm")),
        })
    }
}

/// A checksum of an object's content, as a client sent or requested it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    /// The algorithm.
    pub algorithm: SumAlgorithm,
    /// The input of the checksum: the object's bytes, or the checksums of its parts.
    pub kind: SumKind,
    /// The checksum, [`SumAlgorithm::length`] bytes.
    pub bytes: Vec<u8>,
}

pub(crate) fn write_sums(to: &mut Writer, sums: &[Sum]) {
    for sum in sums {
        // The length is not written, because the algorithm has it.
        assert_eq!(sum.bytes.len(), sum.algorithm.length(), "a sum has its algorithm's length");
        to.u8(sum.algorithm as u8).u8(sum.kind as u8).fixed(&sum.bytes);
    }
}

pub(crate) fn read_sums(from: &mut Reader<'_>) -> Result<Vec<Sum>, DecodeError> {
    let mut sums = Vec::new();
    while !from.is_empty() {
        let algorithm = SumAlgorithm::read(from)?;
        let kind = SumKind::read(from)?;
        let bytes = from.take(algorithm.length(), "checksum")?.to_vec();
        sums.push(Sum { algorithm, kind, bytes });
    }
    Ok(sums)
}

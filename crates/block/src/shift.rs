//! The CRC-32C of content that arrives in runs.
//!
//! A CRC-32C is linear: the CRC of two adjacent runs is the CRC of the first one, shifted by the
//! length of the second, XOR the CRC of the second. So the CRC of a run follows from the CRCs of
//! its pieces, without reading them again. For example, the CRC of a block follows from those of
//! its 256 sub-blocks. The shift by a full sub-block is computed at compile time.

use crc_fast::{CrcAlgorithm, Digest};
use hashing::{Crc, CrcCombiner};

use crate::SUB_BLOCK_BYTES;

const SUB_BLOCK: CrcCombiner = CrcCombiner::new(Crc::Crc32c, SUB_BLOCK_BYTES as u64);

/// Returns the CRC-32C of content with CRC `crc`, followed by `more`.
pub(crate) fn extend_crc(crc: u32, more: &[u8]) -> u32 {
    // The state of a CRC is its complement.
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!crc));
    digest.update(more);
    low_half(digest.finalize())
}

/// Returns the part that a run of content with CRC-32C `crc` has in the CRC of itself and `length`
/// bytes that follow it. The CRC of both is this value XOR the CRC of the second run.
pub(crate) fn shift_crc(crc: u32, length: u32) -> u32 {
    let combiner = if length == SUB_BLOCK_BYTES {
        SUB_BLOCK
    } else {
        CrcCombiner::new(Crc::Crc32c, u64::from(length))
    };
    low_half(combiner.combine(u64::from(crc), 0))
}

/// Returns the lower half of a 64-bit value that contains a CRC of 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "the other half is empty")]
fn low_half(crc: u64) -> u32 {
    crc as u32
}

#[cfg(test)]
mod tests;

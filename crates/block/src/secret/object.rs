//! The format of the object of a secret block: its header, and the arithmetic of its units.
//!
//! ```text
//! offset  bytes  header
//!      0      4  "ASHE"
//!      4      1  format: 1
//!      5      1  cipher: 1, AES-256-GCM
//!      6      2  reserved: 0
//!      8     16  block id
//!     24      4  number of the ring key
//!     28      4  CRC-32C of the 28 bytes before
//!
//!                then units, each followed by its tag of 16 bytes:
//!                unit 0      the header of the sealed block
//!                unit i ≥ 1  sub-block i - 1 of the sealed block with its checksum
//! ```
//!
//! For example, the sealed bytes 65,570 to 65,580 of a block are in its sub-block 0 (until 65,572)
//! and 1, so they need units 1 and 2: the bytes 80 to 131,192 of the object.

use std::ops::Range;

use bytes::BufMut;
use crc32c::crc32c;
use keyring::TAG_BYTES;
use record::{BlockId, RingNumber};

use crate::BLOCK_BYTES_MAX;
use crate::sealed::{self, CHECKSUM_BYTES, HEADER_BYTES, SEALED_SUB_BLOCK_BYTES};

/// The length of the object's header in bytes.
pub(super) const PREFIX_BYTES: usize = 32;

/// The length of the part of the object that comes before unit 1, in bytes: the header, and unit 0
/// with its tag.
const FIRST_UNIT_PLACE: u64 = PREFIX_BYTES as u64 + HEADER_BYTES as u64 + TAG_BYTES as u64;

/// The length in bytes of a full unit after unit 0, with its tag.
const UNIT_BYTES: u64 = SEALED_SUB_BLOCK_BYTES + TAG_BYTES as u64;

const MAGIC: [u8; 4] = *b"ASHE";
const FORMAT: u8 = 1;
const CIPHER_AES_256_GCM: u8 = 1;
/// The bytes of the header that its checksum covers.
const PREFIX_BODY_BYTES: usize = 28;

/// Returns the header of the object of a block that is encrypted under this ring key.
pub(super) fn prefix(id: BlockId, ring: RingNumber) -> [u8; PREFIX_BYTES] {
    let mut prefix = [0; PREFIX_BYTES];
    let mut fields: &mut [u8] = &mut prefix;
    fields.put_slice(&MAGIC);
    fields.put_u8(FORMAT);
    fields.put_u8(CIPHER_AES_256_GCM);
    fields.put_u16(0);
    fields.put_slice(&id.0);
    fields.put_u32(ring.0);
    let (body, place) = prefix.split_at_mut(PREFIX_BODY_BYTES);
    place.copy_from_slice(&crc32c(body).to_be_bytes());
    prefix
}

/// Returns the number of the ring key in the header of the object of a block. An error is a
/// description of the damage.
pub(super) fn ring_of(id: BlockId, found: &[u8]) -> Result<RingNumber, String> {
    let number = found.get(PREFIX_BODY_BYTES - size_of::<u32>()..).and_then(<[u8]>::first_chunk);
    let Some(number) = number else {
        return Err(format!("the object has only {} bytes", found.len()));
    };
    let ring = RingNumber(u32::from_be_bytes(*number));
    // All other fields follow from the id and the number, so one comparison verifies them.
    if found == prefix(id, ring) {
        Ok(ring)
    } else {
        Err("the header of the encrypted object is damaged, or another block's".to_owned())
    }
}

/// Returns the sealed size in bytes of a block whose object has this size in bytes; `None` if no
/// block can have such an object.
pub(super) fn sealed_size(object: u64) -> Option<u64> {
    let (full, last) = {
        let units = object.checked_sub(FIRST_UNIT_PLACE)?;
        (units / UNIT_BYTES, units % UNIT_BYTES)
    };
    let tag = TAG_BYTES as u64;
    let last = match last.checked_sub(tag + u64::from(CHECKSUM_BYTES)) {
        // The last unit is full.
        None if last == 0 && full > 0 => 0,
        // A sub-block has at least one byte of content.
        None | Some(0) => return None,
        Some(_) => last - tag,
    };
    let size = u64::from(HEADER_BYTES) + full * SEALED_SUB_BLOCK_BYTES + last;
    (size <= sealed::sealed_bytes(BLOCK_BYTES_MAX)).then_some(size)
}

/// The units that contain a range of sealed bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnitSpan {
    /// The range of the object to request: whole units, and also the object's header if unit 0 is
    /// among them.
    pub(super) bytes: Range<u64>,
    /// The index of the first unit.
    pub(super) first: u32,
    /// The sealed bytes of the first unit that are before the range.
    pub(super) skip: u64,
    /// The length of the range in bytes.
    pub(super) length: u64,
}

/// Returns the units that contain a range of sealed bytes, at least one byte. The range may extend
/// beyond the end of the block, and begin behind it.
pub(super) fn units_of(range: Range<u64>) -> UnitSpan {
    // No block has a byte from here on. A range beyond it becomes one byte behind the end.
    let end = sealed::sealed_bytes(BLOCK_BYTES_MAX) + 1;
    let start = range.start.min(end - 1);
    let last = range.end.clamp(start + 1, end) - 1;
    let (first, last_unit) = (unit_at(start), unit_at(last));
    UnitSpan {
        bytes: place(first)..place(last_unit + 1),
        // At most 257, because the range was cut.
        first: u32::try_from(first).unwrap_or(u32::MAX),
        skip: start - sealed_place(first),
        length: last + 1 - start,
    }
}

/// Returns the length in bytes of a full unit as it is in the object, with its tag. Unit 0 includes
/// the object's header.
pub(super) fn unit_bytes(unit: u32) -> usize {
    let bytes = if unit == 0 { FIRST_UNIT_PLACE } else { UNIT_BYTES };
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Returns the unit that contains the sealed byte at a position.
fn unit_at(sealed: u64) -> u64 {
    match sealed.checked_sub(u64::from(HEADER_BYTES)) {
        None => 0,
        Some(behind_header) => 1 + behind_header / SEALED_SUB_BLOCK_BYTES,
    }
}

/// Returns the position in the object at which a unit begins. Unit 0 includes the object's header.
fn place(unit: u64) -> u64 {
    unit.checked_sub(1).map_or(0, |full| FIRST_UNIT_PLACE + full * UNIT_BYTES)
}

/// Returns the position among the sealed bytes at which a unit begins.
fn sealed_place(unit: u64) -> u64 {
    unit.checked_sub(1).map_or(0, |full| u64::from(HEADER_BYTES) + full * SEALED_SUB_BLOCK_BYTES)
}

#[cfg(test)]
mod tests;

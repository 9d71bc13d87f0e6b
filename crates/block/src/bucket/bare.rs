//! Bare blocks: blocks whose objects are their content alone.
//!
//! A bucket computes the MD5 of each object that is put. If an object is exactly the content of a
//! block, the entity tag that S3 returns is the MD5 of the content, and no other component needs to
//! compute it. So the rest of a sealed block is kept outside of a *bare* object: the header follows
//! from id and length, and the checksums are in the object's metadata. The checksums of 16 MiB in
//! base64 have 1,368 bytes of the 2,048 that S3 permits.
//!
//! For example, a PUT of 5 MiB becomes one bare block. Its object has 5 MiB, its metadata 80
//! checksums, and the entity tag of the bucket's response becomes the ETag of the client's object.
//!
//! A bucket may lose its metadata: [`recomputed`](super::recomputed) handles such blocks.
//!
//! Outside of this directory, a bare block is a block like any other: a [`Zipper`] puts content and
//! checksums together again, and the reader verifies the result. The id of a block shows that it is
//! bare.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hashing::Md5;
use http::{HeaderMap, HeaderName};

use crate::sealed::{CHECKSUM_BYTES, HEADER_BYTES, SEALED_SUB_BLOCK_BYTES, header, sealed_bytes};
use crate::{BLOCK_BYTES_MAX, BlockId, SUB_BLOCK_BYTES, SealedBlock};

/// The header with the checksums: the sealed CRC-32C of each sub-block in order, four bytes
/// big-endian each, in base64.
pub(super) const SUMS: HeaderName = HeaderName::from_static(SUMS_NAME);

/// The name of the header.
pub(super) const SUMS_NAME: &str = "x-amz-meta-ashlar-sums";

const ENCRYPTED: HeaderName = HeaderName::from_static("x-amz-server-side-encryption");
const ENCRYPTED_FOR_CLIENT: HeaderName =
    HeaderName::from_static("x-amz-server-side-encryption-customer-algorithm");

/// The encryption with which an entity tag is still the MD5 of the object.
const ENCRYPTED_BY_BUCKET: &str = "AES256";

const _: () = assert!(
    (BLOCK_BYTES_MAX / SUB_BLOCK_BYTES * CHECKSUM_BYTES).div_ceil(3) * 4 + 32 <= 2_048,
    "S3 allows 2 KiB of metadata"
);

/// Returns the value of the header [`SUMS`] for a bare block (its object is its content alone): the
/// checksums of its sub-blocks in base64.
pub(super) fn sums(block: &SealedBlock) -> String {
    STANDARD.encode(sum_bytes(block))
}

/// Returns the checksums of a block's sub-blocks in order, four bytes each, before their encoding
/// for the header.
pub(super) fn sum_bytes(block: &SealedBlock) -> Vec<u8> {
    block.sub_blocks().flat_map(|it| it.checksum.to_be_bytes()).collect()
}

/// Returns the checksums of sub-blocks in an object's metadata; `None` if there are none, and an
/// empty list if they cannot be decoded.
pub(super) fn stored_sums(headers: &HeaderMap) -> Option<Bytes> {
    let sums = headers.get(SUMS)?;
    Some(STANDARD.decode(sums.as_bytes()).unwrap_or_default().into())
}

/// Returns the MD5 of the stored object if the response has it: if its entity tag is that of a
/// single object whose encryption does not hide the MD5.
pub(super) fn reported_md5(headers: &HeaderMap) -> Option<[u8; 16]> {
    // With other encryptions the entity tag is not the MD5 of the object.
    let hidden = headers.contains_key(ENCRYPTED_FOR_CLIENT)
        || headers.get(ENCRYPTED).is_some_and(|how| how != ENCRYPTED_BY_BUCKET);
    let tag = headers.get(http::header::ETAG).filter(|_| !hidden)?.to_str().ok()?;
    let mut md5 = [0; 16];
    hex::decode_to_slice(tag.trim_matches('"'), &mut md5).ok()?;
    Some(md5)
}

/// Returns true if this is the MD5 of these bytes.
pub(super) fn is_md5_of(md5: Option<[u8; 16]>, bytes: &[u8]) -> bool {
    let mut own = Md5::new();
    own.update(bytes);
    md5 == Some(own.finish())
}

/// Returns the range of a bare block's content (its object) from which the range `sealed` of sealed
/// bytes is made: whole sub-blocks, and at least one.
pub(super) fn span(sealed: &Range<u64>) -> Range<u64> {
    let behind_header = |at: u64| at.saturating_sub(u64::from(HEADER_BYTES));
    let first = behind_header(sealed.start) / SEALED_SUB_BLOCK_BYTES;
    // At least one sub-block, because S3 has no empty ranges.
    let end = behind_header(sealed.end).div_ceil(SEALED_SUB_BLOCK_BYTES).max(first + 1);
    let place = |index: u64| index.saturating_mul(u64::from(SUB_BLOCK_BYTES));
    place(first)..place(end)
}

/// Returns the sealed size (header, content and checksums) of a bare block whose object has this
/// many bytes; `None` if no block can have them.
pub(super) fn sealed_size(bytes: u64) -> Option<u64> {
    let length = u32::try_from(bytes).ok().filter(|length| *length <= BLOCK_BYTES_MAX)?;
    Some(sealed_bytes(length))
}

/// Combines the content of a bare block (its object) and its separate checksums into the sealed
/// bytes of a range.
#[derive(Debug)]
pub(super) struct Zipper {
    /// Content bytes of the whole block.
    length: u32,
    checksums: Bytes,
    /// The position in the block's content of the next byte that is added.
    next: u32,
    /// The position in the block's sealed bytes of the next byte that is made.
    at: u64,
    wanted: Range<u64>,
    /// The block's header, until the first content arrives.
    header: Option<Bytes>,
}

impl Zipper {
    /// Creates a zipper for the sealed bytes `wanted`. Its input is the content in the range
    /// [`span`]`(wanted)`. `bytes` is the size of the object, and `checksums` are those of its
    /// sub-blocks.
    ///
    /// # Errors
    /// Fails with a description if an object of `bytes` bytes cannot have these checksums.
    pub(super) fn new(
        id: BlockId,
        bytes: u64,
        checksums: Bytes,
        wanted: Range<u64>,
    ) -> Result<Zipper, String> {
        let length = u32::try_from(bytes).ok().filter(|length| *length <= BLOCK_BYTES_MAX);
        let length = length.ok_or_else(|| format!("its object has {bytes} bytes"))?;
        // A copied object may have the metadata of another one.
        if checksums.len() as u64 != u64::from(length.div_ceil(SUB_BLOCK_BYTES) * CHECKSUM_BYTES) {
            return Err("its object has a wrong number of checksums".to_owned());
        }
        let next = u32::try_from(span(&wanted).start).unwrap_or(u32::MAX);
        let first = next == 0;
        let at = if first {
            0
        } else {
            let sub_blocks = u64::from(next / SUB_BLOCK_BYTES);
            u64::from(HEADER_BYTES) + sub_blocks * SEALED_SUB_BLOCK_BYTES
        };
        let header = first.then(|| Bytes::copy_from_slice(&header(id, length)));
        Ok(Zipper { length, checksums, next, at, wanted, header })
    }

    /// Adds the next content, and passes the wanted part of the sealed bytes that it completes to
    /// `give`.
    pub(super) fn push(&mut self, mut content: Bytes, mut give: impl FnMut(Bytes)) {
        if let Some(header) = self.header.take() {
            self.give(header, &mut give);
        }
        while !content.is_empty() {
            let rest = SUB_BLOCK_BYTES - self.next % SUB_BLOCK_BYTES;
            let piece = content.split_to(content.len().min(rest as usize));
            self.next = self.next.saturating_add(u32::try_from(piece.len()).unwrap_or(rest));
            self.give(piece, &mut give);
            // A sub-block is complete, so its checksum follows.
            if self.next.is_multiple_of(SUB_BLOCK_BYTES) || self.next == self.length {
                let place = ((self.next - 1) / SUB_BLOCK_BYTES * CHECKSUM_BYTES) as usize;
                let place = place.min(self.checksums.len());
                let end = (place + CHECKSUM_BYTES as usize).min(self.checksums.len());
                self.give(self.checksums.slice(place..end), &mut give);
            }
        }
    }

    /// Passes the wanted part of these sealed bytes to `give`.
    fn give(&mut self, mut bytes: Bytes, give: &mut impl FnMut(Bytes)) {
        let (start, end) = (self.at, self.at + bytes.len() as u64);
        self.at = end;
        let cut = |at: u64| usize::try_from(at.saturating_sub(start)).unwrap_or(usize::MAX);
        bytes.truncate(cut(self.wanted.end));
        let bytes = bytes.split_off(cut(self.wanted.start).min(bytes.len()));
        if !bytes.is_empty() {
            give(bytes);
        }
    }
}

#[cfg(test)]
mod tests;

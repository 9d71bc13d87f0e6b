//! Blocks whose objects are their content alone.
//!
//! A bucket computes the MD5 of each object that is put, whether anybody wants it or not. If an
//! object is exactly a block's content, that is the MD5 which S3 gives out as an entity tag, and
//! nobody needs to compute it a second time. So what a sealed block has besides its content, its
//! header and checksums, stands beside a *bare* object, in its metadata: the header follows from the
//! id and the length, and the checksums of 16 MiB, in base64, have 1,368 bytes of the 2,048 that S3
//! allows.
//!
//! A bucket may lose its metadata: [`learned`](super::learned) says what becomes of a block then.
//!
//! Everywhere else a bare block is what it always was: a [`Zipper`] puts content and checksums
//! together again, and whoever reads verifies what comes out. The block's id says that it is bare.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hashing::Md5;
use http::{HeaderMap, HeaderName};

use crate::sealed::{CHECKSUM_BYTES, HEADER_BYTES, SEALED_SUB_BLOCK_BYTES, header, sealed_bytes};
use crate::{BLOCK_BYTES_MAX, BlockId, SUB_BLOCK_BYTES, SealedBlock};

/// The header that carries the checksums: the CRC-32C of each sub-block in order, as sealed, four
/// bytes big-endian each, in base64.
pub(super) const SUMS: HeaderName = HeaderName::from_static(SUMS_NAME);

/// As it is written.
pub(super) const SUMS_NAME: &str = "x-amz-meta-ashlar-sums";

const ENCRYPTED: HeaderName = HeaderName::from_static("x-amz-server-side-encryption");
const ENCRYPTED_FOR_CLIENT: HeaderName =
    HeaderName::from_static("x-amz-server-side-encryption-customer-algorithm");

/// The encryption under which an entity tag is still the MD5 of what was put.
const ENCRYPTED_BY_BUCKET: &str = "AES256";

const _: () = assert!(
    (BLOCK_BYTES_MAX / SUB_BLOCK_BYTES * CHECKSUM_BYTES).div_ceil(3) * 4 + 32 <= 2_048,
    "S3 allows 2 KiB of metadata"
);

/// What stands in [`SUMS`] beside a block's content.
pub(super) fn sums(block: &SealedBlock) -> String {
    STANDARD.encode(sum_bytes(block))
}

/// The same before it is text.
pub(super) fn sum_bytes(block: &SealedBlock) -> Vec<u8> {
    block.sub_blocks().flat_map(|it| it.checksum.to_be_bytes()).collect()
}

/// The checksums that stand beside an object; `None` if none do, and nothing that makes sense if what
/// stands there makes none.
pub(super) fn kept_sums(headers: &HeaderMap) -> Option<Bytes> {
    let sums = headers.get(SUMS)?;
    Some(STANDARD.decode(sums.as_bytes()).unwrap_or_default().into())
}

/// The MD5 of what was put, if the answer tells it: an entity tag that is a single object's, and not
/// one of an object that is encrypted in a way that hides it.
pub(super) fn told_md5(headers: &HeaderMap) -> Option<[u8; 16]> {
    let hidden = headers.contains_key(ENCRYPTED_FOR_CLIENT)
        || headers.get(ENCRYPTED).is_some_and(|how| how != ENCRYPTED_BY_BUCKET);
    let tag = headers.get(http::header::ETAG).filter(|_| !hidden)?.to_str().ok()?;
    let mut md5 = [0; 16];
    hex::decode_to_slice(tag.trim_matches('"'), &mut md5).ok()?;
    Some(md5)
}

/// Whether this is the MD5 of these bytes.
pub(super) fn is_md5_of(md5: Option<[u8; 16]>, bytes: &[u8]) -> bool {
    let mut own = Md5::new();
    own.update(bytes);
    md5 == Some(own.finish())
}

/// The content that sealed bytes are made of: whole sub-blocks, and never nothing.
pub(super) fn span(sealed: &Range<u64>) -> Range<u64> {
    let behind_header = |at: u64| at.saturating_sub(u64::from(HEADER_BYTES));
    let first = behind_header(sealed.start) / SEALED_SUB_BLOCK_BYTES;
    let end = behind_header(sealed.end).div_ceil(SEALED_SUB_BLOCK_BYTES).max(first + 1);
    let place = |index: u64| index.saturating_mul(u64::from(SUB_BLOCK_BYTES));
    place(first)..place(end)
}

/// The sealed size of a block whose object has so many bytes; `None` if no block has.
pub(super) fn sealed_size(bytes: u64) -> Option<u64> {
    let length = u32::try_from(bytes).ok().filter(|length| *length <= BLOCK_BYTES_MAX)?;
    Some(sealed_bytes(length))
}

/// Puts content and checksums together, and gives the sealed bytes of a range.
#[derive(Debug)]
pub(super) struct Zipper {
    /// Content bytes of the block.
    length: u32,
    checksums: Bytes,
    /// The content byte that comes next.
    next: u32,
    /// Where what is given next stands among the sealed bytes.
    at: u64,
    wanted: Range<u64>,
    /// Until content comes.
    header: Option<Bytes>,
}

impl Zipper {
    /// Begins with the content of [`span`]`(wanted)`.
    ///
    /// # Errors
    /// What is wrong with an object of `bytes` bytes and these checksums.
    pub(super) fn new(
        id: BlockId,
        bytes: u64,
        checksums: Bytes,
        wanted: Range<u64>,
    ) -> Result<Zipper, String> {
        let length = u32::try_from(bytes).ok().filter(|length| *length <= BLOCK_BYTES_MAX);
        let length = length.ok_or_else(|| format!("its object has {bytes} bytes"))?;
        if checksums.len() as u64 != u64::from(length.div_ceil(SUB_BLOCK_BYTES) * CHECKSUM_BYTES) {
            return Err("its object has the checksums of another one".to_owned());
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

    /// Takes content that comes next, and gives what is wanted of the sealed bytes that are known
    /// with it.
    pub(super) fn push(&mut self, mut content: Bytes, mut give: impl FnMut(Bytes)) {
        if let Some(header) = self.header.take() {
            self.give(header, &mut give);
        }
        while !content.is_empty() {
            let room = SUB_BLOCK_BYTES - self.next % SUB_BLOCK_BYTES;
            let piece = content.split_to(content.len().min(room as usize));
            self.next = self.next.saturating_add(u32::try_from(piece.len()).unwrap_or(room));
            self.give(piece, &mut give);
            if self.next.is_multiple_of(SUB_BLOCK_BYTES) || self.next == self.length {
                let place = ((self.next - 1) / SUB_BLOCK_BYTES * CHECKSUM_BYTES) as usize;
                let place = place.min(self.checksums.len());
                let end = (place + CHECKSUM_BYTES as usize).min(self.checksums.len());
                self.give(self.checksums.slice(place..end), &mut give);
            }
        }
    }

    /// Gives what is wanted of bytes.
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

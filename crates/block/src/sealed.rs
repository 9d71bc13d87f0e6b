//! The format of sealed blocks: sealing and opening.
//!
//! A sealed block, all integers big-endian:
//!
//! ```text
//! offset  bytes  header
//!      0      4  "ASHB"
//!      4      1  format: 1
//!      5      1  codec: 0, the content as it is
//!      6      2  reserved: 0
//!      8      4  length of the content
//!     12     16  block id
//!     28      4  CRC-32C of the 28 bytes before
//!
//!                then the content in sub-blocks of 65,536 bytes, the last one maybe shorter:
//!  + 0       n   content
//!  + n       4   CRC-32C of block id ‖ u32 index of the sub-block ‖ the n bytes before
//! ```
//!
//! So each run of whole sub-blocks is one contiguous range that can be verified without the rest. A
//! sub-block that was shifted, swapped or taken from another block fails its own checksum. A whole
//! block that was replaced by another valid one under the same id is detected only by comparison
//! with its [`BlockRef`].
//!
//! For example, a block with 100,000 content bytes has two sub-blocks, of 65,536 and 34,464 bytes,
//! and 100,040 sealed bytes.
//!
//! The module does no I/O; bytes are arguments and results.

use std::ops::Range;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use crc32c::{crc32c, crc32c_append};
use record::{BlockId, RingNumber};

use crate::shift::{extend_crc, shift_crc};
use crate::{BLOCK_BYTES_MAX, BlockError, BlockErrorKind, SUB_BLOCK_BYTES};

/// Bytes before the first sub-block.
pub const HEADER_BYTES: u32 = 32;

/// Bytes of the checksum behind each sub-block's content.
pub const CHECKSUM_BYTES: u32 = 4;

const MAGIC: [u8; 4] = *b"ASHB";
const FORMAT: u8 = 1;
const CODEC_NONE: u8 = 0;
/// The number of header bytes that the header's checksum covers.
const HEADER_BODY_BYTES: usize = 28;
/// The size in bytes of a full sub-block with its checksum.
pub(crate) const SEALED_SUB_BLOCK_BYTES: u64 = SUB_BLOCK_BYTES as u64 + CHECKSUM_BYTES as u64;

/// The reference to a block, as metadata records have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockRef {
    /// The id of the block.
    pub id: BlockId,
    /// The length of the block's content in bytes.
    pub length: u32,
    /// CRC-32C of the block's whole content.
    pub crc32c: u32,
}

/// A sub-block (64 KiB of a block, the unit of verification) whose content was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedSubBlock {
    /// The index of the sub-block in its block.
    pub index: u32,
    /// The checksum that was stored behind the sub-block: it covers block id, index and content.
    pub checksum: u32,
    /// The content of the sub-block in order, in the pieces in which it arrived.
    pub pieces: Vec<Bytes>,
}

/// The minimum length of a piece, in bytes, that is not copied. Shorter pieces are copied together,
/// so that no small piece keeps a much larger buffer alive, and a block has few pieces.
const PIECE_BYTES_MIN: usize = 16 << 10;

/// A block with its header and checksums, ready to be stored.
///
/// Its content is not copied: the block references the buffers that entered the [`Sealer`], except
/// for short pieces.
#[derive(Clone, Debug)]
pub struct SealedBlock {
    id: BlockId,
    length: u32,
    crc32c: u32,
    pieces: Vec<Bytes>,
    ring: Option<RingNumber>,
}

impl SealedBlock {
    /// Returns the block's id.
    pub fn id(&self) -> BlockId {
        self.id
    }

    /// Returns the length of the block's content in bytes.
    pub fn length(&self) -> u32 {
        self.length
    }

    /// Returns the CRC-32C of the content.
    pub fn crc32c(&self) -> u32 {
        self.crc32c
    }

    /// Returns the number of the ring key under which the block is to be encrypted; `None` if the
    /// block is not secret.
    pub fn ring(&self) -> Option<RingNumber> {
        self.ring
    }

    /// Returns the sealed bytes (header, content and checksums) in pieces, none of them empty.
    pub fn pieces(&self) -> &[Bytes] {
        &self.pieces
    }

    /// Returns the sealed bytes (header, content and checksums) in one piece. This copies all of
    /// them.
    pub fn to_bytes(&self) -> Bytes {
        self.pieces.concat().into()
    }

    /// Returns the block's sub-blocks (64 KiB each) in order, without a copy of their content.
    pub fn sub_blocks(&self) -> impl Iterator<Item = VerifiedSubBlock> + '_ {
        let mut rest = self.pieces.iter().skip(1);
        (0..self.length.div_ceil(SUB_BLOCK_BYTES)).map_while(move |index| {
            let Range { start, end } = content_of(self.length, index..index + 1);
            let (mut missing, mut pieces) = ((end - start) as usize, Vec::new());
            while missing > 0 {
                let piece = rest.next()?;
                // Pieces are cut at the ends of sub-blocks, so none extends into the next one.
                missing = missing.checked_sub(piece.len())?;
                pieces.push(piece.clone());
            }
            let checksum = u32::from_be_bytes(rest.next()?.as_ref().try_into().ok()?);
            Some(VerifiedSubBlock { index, checksum, pieces })
        })
    }

    /// Returns the block's content in order, without header and checksums and without a copy.
    pub fn content(&self) -> impl Iterator<Item = Bytes> + '_ {
        self.sub_blocks().flat_map(|sub_block| sub_block.pieces)
    }

    /// Returns the number of bytes in [`pieces`](SealedBlock::pieces): header, content and
    /// checksums.
    pub fn sealed_bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len() as u64).sum()
    }

    /// Returns the block with the bytes of its encrypted object in place of the sealed ones. A
    /// store moves these as they are. They are not sub-blocks, so the result has no
    /// [`content`](SealedBlock::content).
    pub(crate) fn encrypted(&self, pieces: Vec<Bytes>) -> SealedBlock {
        SealedBlock { pieces, ring: None, ..*self }
    }

    /// Returns the reference to this block that metadata records have: its id, content length and
    /// CRC.
    pub fn reference(&self) -> BlockRef {
        BlockRef { id: self.id, length: self.length, crc32c: self.crc32c }
    }
}

/// A block that is being built from content. The checksums are computed as the bytes enter.
#[derive(Debug)]
pub struct Sealer {
    id: BlockId,
    /// The content, cut at the ends of sub-blocks. An empty piece reserves the place of the header
    /// or of a checksum.
    pieces: Vec<Bytes>,
    /// Short pieces that were copied together and are not in `pieces` yet.
    tail: BytesMut,
    /// Space for the header, and the checksums of the sub-blocks that are complete.
    marks: BytesMut,
    length: u32,
    /// The announced content bytes.
    expected: u32,
    /// The CRC-32C of the content of all complete sub-blocks.
    content_crc: u32,
    /// The CRC-32C of the unfinished sub-block: of id, index and its content so far.
    sub_block_crc: u32,
    ring: Option<RingNumber>,
}

impl Sealer {
    /// Starts to build a block that is expected to hold `capacity` content bytes. It may hold fewer
    /// or more, up to [`BLOCK_BYTES_MAX`].
    pub fn new(id: BlockId, capacity: u32) -> Sealer {
        let sub_blocks = capacity.min(BLOCK_BYTES_MAX).div_ceil(SUB_BLOCK_BYTES).max(1);
        let mut marks =
            BytesMut::with_capacity((HEADER_BYTES + sub_blocks * CHECKSUM_BYTES) as usize);
        marks.put_bytes(0, HEADER_BYTES as usize);
        // The empty piece reserves the place of the header.
        let pieces = vec![Bytes::new()];
        Sealer {
            id,
            pieces,
            tail: BytesMut::new(),
            marks,
            length: 0,
            expected: capacity,
            content_crc: 0,
            sub_block_crc: seed(id, 0),
            ring: None,
        }
    }

    /// Sets the ring key under which a secret block is to be encrypted. A block store refuses a
    /// secret id without a key, and a key for another id.
    #[must_use]
    pub fn under(self, ring: RingNumber) -> Sealer {
        Sealer { ring: Some(ring), ..self }
    }

    /// Returns the block's id.
    pub fn id(&self) -> BlockId {
        self.id
    }

    /// Returns the number of content bytes that have entered the block.
    pub fn len(&self) -> u32 {
        self.length
    }

    /// Returns true if no content has entered the block.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the number of content bytes that may still enter the block.
    pub fn remaining(&self) -> u32 {
        BLOCK_BYTES_MAX - self.length
    }

    /// Appends content to the block. The content is not copied unless it is short; the block keeps
    /// its buffer alive.
    ///
    /// # Panics
    /// If `content` is longer than [`remaining`](Sealer::remaining). Callers cut it before.
    pub fn push(&mut self, content: Bytes) {
        assert!(content.len() <= self.remaining() as usize, "the caller cuts at `remaining`");
        // Decided for the whole content, so that a long piece is not copied where it ends in a
        // sub-block.
        let short = content.len() < PIECE_BYTES_MIN;
        let mut rest = content;
        while !rest.is_empty() {
            let room = SUB_BLOCK_BYTES - self.length % SUB_BLOCK_BYTES;
            let piece = rest.split_to(rest.len().min(room as usize));
            self.sub_block_crc = extend_crc(self.sub_block_crc, &piece);
            self.length += u32::try_from(piece.len()).unwrap_or(room);
            if short {
                self.append_copy(&piece, room);
            } else {
                self.seal_tail();
                self.pieces.push(piece);
            }
            if self.length.is_multiple_of(SUB_BLOCK_BYTES) {
                self.close_sub_block();
            }
        }
    }

    /// Appends a copy of content to the block; as [`push`](Sealer::push) otherwise.
    pub fn push_copy(&mut self, content: &[u8]) {
        self.push(Bytes::copy_from_slice(content));
    }

    /// Returns the content that has entered the block, in order. Only the last short pieces are
    /// copied.
    pub fn content(&self) -> Vec<Bytes> {
        // Empty pieces reserve the places of checksums.
        let mut content: Vec<Bytes> =
            self.pieces.iter().filter(|it| !it.is_empty()).cloned().collect();
        if !self.tail.is_empty() {
            content.push(Bytes::copy_from_slice(&self.tail));
        }
        content
    }

    /// Finishes the block: adds its header and the last checksum.
    ///
    /// # Panics
    /// If no content has entered, because there is no empty block.
    pub fn finish(mut self) -> SealedBlock {
        assert!(self.length > 0, "there is no empty block");
        if !self.length.is_multiple_of(SUB_BLOCK_BYTES) {
            self.close_sub_block();
        }
        if let Some(place) = self.marks.first_chunk_mut() {
            // The header needs the length, so it is written last, into the space that was reserved
            // for it.
            *place = header(self.id, self.length);
        }
        let mut marks = self.marks.freeze();
        let mut mark_bytes = HEADER_BYTES as usize;
        // The empty pieces are, in order, the header and one checksum for each sub-block.
        for place in self.pieces.iter_mut().filter(|piece| piece.is_empty()) {
            *place = marks.split_to(mark_bytes.min(marks.len()));
            mark_bytes = CHECKSUM_BYTES as usize;
        }
        SealedBlock {
            id: self.id,
            length: self.length,
            crc32c: self.content_crc,
            pieces: self.pieces,
            ring: self.ring,
        }
    }

    /// Copies a short piece of content to the end of the unfinished sub-block, which can take
    /// `room` more bytes.
    fn append_copy(&mut self, piece: &[u8], room: u32) {
        // Reserve for the announced rest, so that a body in short frames does not reallocate for
        // each frame.
        if self.tail.capacity() - self.tail.len() < piece.len() {
            let more = self.expected.saturating_sub(self.length) as usize;
            self.tail.reserve((more + piece.len()).min(room as usize));
        }
        self.tail.put_slice(piece);
    }

    fn seal_tail(&mut self) {
        if !self.tail.is_empty() {
            self.pieces.push(self.tail.split().freeze());
        }
    }

    fn close_sub_block(&mut self) {
        self.seal_tail();
        self.marks.put_u32(self.sub_block_crc);
        self.pieces.push(Bytes::new());
        // The length and the index of the sub-block that ends.
        let (length, index) =
            ((self.length - 1) % SUB_BLOCK_BYTES + 1, (self.length - 1) / SUB_BLOCK_BYTES);
        self.content_crc =
            joined_sub_block(self.content_crc, self.id, index, length, self.sub_block_crc);
        self.sub_block_crc = seed(self.id, index + 1);
    }
}

/// Returns the sealed size in bytes of a block with `length` content bytes.
pub fn sealed_bytes(length: u32) -> u64 {
    let sub_blocks = u64::from(length.div_ceil(SUB_BLOCK_BYTES));
    u64::from(HEADER_BYTES) + u64::from(length) + sub_blocks * u64::from(CHECKSUM_BYTES)
}

/// The sealed bytes of a block (header, content and checksums) that contain a range of its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedRange {
    /// The range of sealed bytes to request from the store: whole sub-blocks, and also the header
    /// if the range is the whole content. Empty if the range is empty.
    pub bytes: Range<u64>,
    /// The index of the sub-block that contains the first byte of the range.
    pub first_sub_block: u32,
    /// The content bytes of the first sub-block that are before the range.
    pub skip: u32,
    /// True if the range is the block's whole content, so that the header is included.
    pub whole: bool,
}

/// Returns the sealed bytes that contain a range of the content of a block with `length` content
/// bytes. The part of the range behind the block is ignored.
pub fn span(length: u32, range: Range<u32>) -> SealedRange {
    let end = range.end.min(length);
    let start = range.start.min(end);
    let first_sub_block = start / SUB_BLOCK_BYTES;
    let place =
        |sub_block: u32| u64::from(HEADER_BYTES) + u64::from(sub_block) * SEALED_SUB_BLOCK_BYTES;
    let whole = start == 0 && end == length;
    let bytes = if start == end {
        0..0
    } else {
        // The header is verified only with the whole block. A part needs none, because each
        // sub-block's checksum covers id and index.
        let from = if whole { 0 } else { place(first_sub_block) };
        from..place(end.div_ceil(SUB_BLOCK_BYTES)).min(sealed_bytes(length))
    };
    SealedRange { bytes, first_sub_block, skip: start % SUB_BLOCK_BYTES, whole }
}

/// Verifies and returns the content of a range in order, one piece for each sub-block, without a
/// copy. `bytes` is the store's result for [`span`]`(block.length, range).bytes`.
///
/// Every sub-block is verified. If the range is the whole content, the header and the CRC of the
/// whole content are also compared with the reference.
///
/// # Errors
/// Fails with `Corrupt` if anything differs, if there are too few or too many bytes, or if the
/// range is not within the block.
pub fn open(block: BlockRef, range: Range<u32>, bytes: Bytes) -> Result<Vec<Bytes>, BlockError> {
    let corrupt = |what: String| {
        let doing = format!("opening bytes {}..{} of block {}", range.start, range.end, block.id);
        BlockError::with_cause(BlockErrorKind::Corrupt, doing, what)
    };
    if range.start > range.end || range.end > block.length {
        return Err(corrupt(format!("the range is not within its {} bytes", block.length)));
    }
    let span = span(block.length, range.clone());
    let opened = open_span(block, &span, bytes).map_err(corrupt)?;
    let trim = |(index, sub_block): (u32, SubBlock)| {
        let place = index * SUB_BLOCK_BYTES;
        let mut content = sub_block.content;
        content.truncate(range.end.saturating_sub(place) as usize);
        let skip = range.start.saturating_sub(place) as usize;
        content.split_off(skip.min(content.len()))
    };
    Ok((span.first_sub_block..).zip(opened).map(trim).collect())
}

/// The content of one sub-block (64 KiB of a block), with the checksum stored behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubBlock {
    /// The verified content of the sub-block.
    pub content: Bytes,
    /// The checksum of block id, index and content, by which the content can be
    /// [verified](verify_sub_block) again.
    pub checksum: u32,
}

/// Verifies and returns whole sub-blocks in order, without a copy. As [`open`] for a range that
/// begins and ends with sub-blocks, with the same errors.
pub fn open_sub_blocks(
    block: BlockRef,
    sub_blocks: Range<u32>,
    bytes: Bytes,
) -> Result<Vec<SubBlock>, BlockError> {
    let span = span(block.length, content_of(block.length, sub_blocks.clone()));
    open_span(block, &span, bytes).map_err(|what| {
        let doing = format!("opening sub-blocks {sub_blocks:?} of block {}", block.id);
        BlockError::with_cause(BlockErrorKind::Corrupt, doing, what)
    })
}

/// Returns the range of a block's content that the sub-blocks (64 KiB each) with these indices
/// hold, in a block with `length` content bytes.
pub fn content_of(length: u32, sub_blocks: Range<u32>) -> Range<u32> {
    let place = |index: u32| index.saturating_mul(SUB_BLOCK_BYTES).min(length);
    place(sub_blocks.start)..place(sub_blocks.end)
}

/// Returns true if `content` is the content that was sealed as the sub-block `index` of block `id`
/// with this checksum.
pub fn verify_sub_block(id: BlockId, index: u32, content: &[u8], checksum: u32) -> bool {
    extend_crc(seed(id, index), content) == checksum
}

/// Returns the CRC-32C of content in pieces. For a whole block, that is the one in its
/// [`BlockRef`].
pub fn content_checksum(pieces: &[Bytes]) -> u32 {
    pieces.iter().fold(0, |crc, piece| extend_crc(crc, piece))
}

/// Returns the CRC-32C of two adjacent runs of content, of which the second has `length` bytes.
pub fn combined_checksum(first: u32, second: u32, length: u32) -> u32 {
    shift_crc(first, length) ^ second
}

/// Returns the CRC-32C of content up to the end of a verified sub-block, from the CRC of the
/// content before it and the sub-block's own checksum, without reading the content again.
pub(crate) fn joined_sub_block(
    before: u32,
    id: BlockId,
    index: u32,
    length: u32,
    checksum: u32,
) -> u32 {
    shift_crc(before ^ seed(id, index), length) ^ checksum
}

/// Verifies the sub-blocks in these sealed bytes. An error is a description of the mismatch.
fn open_span(block: BlockRef, span: &SealedRange, bytes: Bytes) -> Result<Vec<SubBlock>, String> {
    let expected = span.bytes.end - span.bytes.start;
    if bytes.len() as u64 != expected {
        return Err(format!("{} bytes arrived instead of {expected}", bytes.len()));
    }
    let mut rest = bytes;
    if span.whole && expected > 0 {
        let header = header(block.id, block.length);
        if rest.split_to(header.len()) != header.as_slice() {
            return Err("the header belongs to another block".to_owned());
        }
    }
    let mut opened = Vec::with_capacity(rest.len() / SUB_BLOCK_BYTES as usize + 1);
    let mut index = span.first_sub_block;
    // The CRC of the whole content follows from the checksums of the sub-blocks, so no byte is read
    // twice.
    let mut content_crc = 0;
    while !rest.is_empty() {
        // The total size is right, so each sub-block has at least one byte and its checksum.
        let sealed = rest.len().min((SUB_BLOCK_BYTES + CHECKSUM_BYTES) as usize);
        let mut content = rest.split_to(sealed);
        let mut checksum = content.split_off(sealed.saturating_sub(CHECKSUM_BYTES as usize));
        let checksum = checksum.try_get_u32().unwrap_or_default();
        if !verify_sub_block(block.id, index, &content, checksum) {
            return Err(format!("the checksum of sub-block {index} does not match"));
        }
        if span.whole {
            let length = u32::try_from(content.len()).unwrap_or(SUB_BLOCK_BYTES);
            content_crc = joined_sub_block(content_crc, block.id, index, length, checksum);
        }
        opened.push(SubBlock { content, checksum });
        index += 1;
    }
    if span.whole && content_crc != block.crc32c {
        return Err("the whole block's checksum differs from the record's".to_owned());
    }
    Ok(opened)
}

/// Returns the checksum with which a sub-block begins, before its content has entered: that of the
/// block's id and the sub-block's index.
pub(crate) fn seed(id: BlockId, index: u32) -> u32 {
    crc32c_append(crc32c(&id.0), &index.to_be_bytes())
}

pub(crate) fn header(id: BlockId, length: u32) -> [u8; HEADER_BYTES as usize] {
    let mut header = [0; HEADER_BYTES as usize];
    let mut fields: &mut [u8] = &mut header;
    fields.put_slice(&MAGIC);
    fields.put_u8(FORMAT);
    fields.put_u8(CODEC_NONE);
    fields.put_u16(0);
    fields.put_u32(length);
    fields.put_slice(&id.0);
    let (body, place) = header.split_at_mut(HEADER_BODY_BYTES);
    place.copy_from_slice(&crc32c(body).to_be_bytes());
    header
}

#[cfg(test)]
mod tests;

//! The bytes of a block: how they are sealed, and how they are opened.
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
//! So a run of whole sub-blocks is one contiguous range that is verified by itself, and a piece
//! that was shifted, swapped or taken from another block fails by itself. That a whole block was
//! replaced by another consistent one under the same id shows only against its [`BlockRef`].
//!
//! Nothing here reads or writes; bytes come and go as arguments.

use std::ops::Range;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use crc32c::{crc32c, crc32c_append};
use record::BlockId;

use crate::shift::{extended, shifted};
use crate::{BLOCK_BYTES_MAX, BlockError, BlockErrorKind, SUB_BLOCK_BYTES};

/// Bytes before the first sub-block.
pub const HEADER_BYTES: u32 = 32;

/// Bytes behind each sub-block's content.
pub const CHECKSUM_BYTES: u32 = 4;

const MAGIC: [u8; 4] = *b"ASHB";
const FORMAT: u8 = 1;
const CODEC_NONE: u8 = 0;
/// The part of the header that its checksum covers.
const HEADER_BODY_BYTES: usize = 28;
/// A whole sub-block, sealed.
pub(crate) const SEALED_SUB_BLOCK_BYTES: u64 = SUB_BLOCK_BYTES as u64 + CHECKSUM_BYTES as u64;

/// What a record knows of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockRef {
    /// The block's name.
    pub id: BlockId,
    /// Content bytes.
    pub length: u32,
    /// CRC-32C of the content.
    pub crc32c: u32,
}

/// A sub-block whose content is that of its checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its index in the block.
    pub index: u32,
    /// What was stored behind it.
    pub checksum: u32,
    /// Its content, in order, in as many pieces as frames it came in.
    pub pieces: Vec<Bytes>,
}

/// Content that enters in shorter pieces is copied together, so that no piece pins a buffer that is
/// much larger, and a block has few of them.
const PIECE_BYTES_MIN: usize = 16 << 10;

/// A block ready to be stored.
///
/// Its content lies where it lay when it entered the [`Sealer`], but for what came in short pieces.
#[derive(Clone, Debug)]
pub struct SealedBlock {
    id: BlockId,
    length: u32,
    crc32c: u32,
    pieces: Vec<Bytes>,
}

impl SealedBlock {
    /// The block's name.
    pub fn id(&self) -> BlockId {
        self.id
    }

    /// Content bytes.
    pub fn length(&self) -> u32 {
        self.length
    }

    /// CRC-32C of the content.
    pub fn crc32c(&self) -> u32 {
        self.crc32c
    }

    /// The sealed bytes, as a store keeps them, in pieces of which none is empty.
    pub fn pieces(&self) -> &[Bytes] {
        &self.pieces
    }

    /// The sealed bytes in one piece, which takes a copy of all of them.
    pub fn to_bytes(&self) -> Bytes {
        self.pieces.concat().into()
    }

    /// The sub-blocks, in order, without a copy.
    pub fn sub_blocks(&self) -> impl Iterator<Item = Opened> + '_ {
        let mut rest = self.pieces.iter().skip(1);
        (0..self.length.div_ceil(SUB_BLOCK_BYTES)).map_while(move |index| {
            let Range { start, end } = content_of(self.length, index..index + 1);
            let (mut missing, mut pieces) = ((end - start) as usize, Vec::new());
            while missing > 0 {
                let piece = rest.next()?;
                missing = missing.checked_sub(piece.len())?;
                pieces.push(piece.clone());
            }
            let checksum = u32::from_be_bytes(rest.next()?.as_ref().try_into().ok()?);
            Some(Opened { index, checksum, pieces })
        })
    }

    /// The content, in order, without a copy.
    pub fn content(&self) -> impl Iterator<Item = Bytes> + '_ {
        self.sub_blocks().flat_map(|sub_block| sub_block.pieces)
    }

    /// How many sealed bytes there are.
    pub fn sealed_bytes(&self) -> u64 {
        sealed_bytes(self.length)
    }

    /// What a record keeps of this block.
    pub fn reference(&self) -> BlockRef {
        BlockRef { id: self.id, length: self.length, crc32c: self.crc32c }
    }
}

/// A block in the making: bytes enter once, and are checksummed as they enter.
#[derive(Debug)]
pub struct Sealer {
    id: BlockId,
    /// The content, cut where sub-blocks end; what is empty holds the place of a checksum.
    pieces: Vec<Bytes>,
    /// What came in short pieces, and is not among the others yet.
    tail: BytesMut,
    /// A place for the header, and the checksums of the sub-blocks that have ended.
    marks: BytesMut,
    length: u32,
    /// Content bytes that were announced.
    expected: u32,
    /// Of the content of all sub-blocks that have ended.
    content_crc: u32,
    /// Of the open sub-block: id, index and its content so far.
    sub_block_crc: u32,
}

impl Sealer {
    /// Begins a block that is expected to hold `capacity` content bytes. It may hold fewer or
    /// more, up to [`BLOCK_BYTES_MAX`].
    pub fn new(id: BlockId, capacity: u32) -> Sealer {
        let sub_blocks = capacity.min(BLOCK_BYTES_MAX).div_ceil(SUB_BLOCK_BYTES).max(1);
        let mut marks =
            BytesMut::with_capacity((HEADER_BYTES + sub_blocks * CHECKSUM_BYTES) as usize);
        marks.put_bytes(0, HEADER_BYTES as usize);
        // The header's place.
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
        }
    }

    /// The block's name.
    pub fn id(&self) -> BlockId {
        self.id
    }

    /// Content bytes so far.
    pub fn len(&self) -> u32 {
        self.length
    }

    /// Whether nothing has entered yet.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Content bytes that may still enter.
    pub fn remaining(&self) -> u32 {
        BLOCK_BYTES_MAX - self.length
    }

    /// Appends content. It stays where it is, and is held as long as the block is, unless it is
    /// short.
    ///
    /// # Panics
    /// If `content` is longer than [`remaining`](Sealer::remaining): callers cut before.
    pub fn push(&mut self, content: Bytes) {
        assert!(content.len() <= self.remaining() as usize, "the caller cuts at `remaining`");
        let short = content.len() < PIECE_BYTES_MIN;
        let mut rest = content;
        while !rest.is_empty() {
            let room = SUB_BLOCK_BYTES - self.length % SUB_BLOCK_BYTES;
            let piece = rest.split_to(rest.len().min(room as usize));
            self.sub_block_crc = extended(self.sub_block_crc, &piece);
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

    /// Appends a copy of content; as [`push`](Sealer::push) otherwise.
    pub fn push_copy(&mut self, content: &[u8]) {
        self.push(Bytes::copy_from_slice(content));
    }

    /// The content so far, in order, without a copy but for what came last in short pieces.
    pub fn content(&self) -> Vec<Bytes> {
        // What is empty holds the place of a checksum.
        let mut content: Vec<Bytes> =
            self.pieces.iter().filter(|it| !it.is_empty()).cloned().collect();
        if !self.tail.is_empty() {
            content.push(Bytes::copy_from_slice(&self.tail));
        }
        content
    }

    /// Ends the block.
    ///
    /// # Panics
    /// If nothing was pushed: there is no empty block.
    pub fn finish(mut self) -> SealedBlock {
        assert!(self.length > 0, "there is no empty block");
        if !self.length.is_multiple_of(SUB_BLOCK_BYTES) {
            self.close_sub_block();
        }
        if let Some(place) = self.marks.first_chunk_mut() {
            *place = header(self.id, self.length);
        }
        let mut marks = self.marks.freeze();
        let mut mark_bytes = HEADER_BYTES as usize;
        for place in self.pieces.iter_mut().filter(|piece| piece.is_empty()) {
            *place = marks.split_to(mark_bytes.min(marks.len()));
            mark_bytes = CHECKSUM_BYTES as usize;
        }
        SealedBlock {
            id: self.id,
            length: self.length,
            crc32c: self.content_crc,
            pieces: self.pieces,
        }
    }

    /// Copies a short piece behind others, into a sub-block that has `room`.
    fn append_copy(&mut self, piece: &[u8], room: u32) {
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
        // Of the sub-block that ends: this many bytes of content, and its number.
        let (length, index) =
            ((self.length - 1) % SUB_BLOCK_BYTES + 1, (self.length - 1) / SUB_BLOCK_BYTES);
        self.content_crc =
            joined_sub_block(self.content_crc, self.id, index, length, self.sub_block_crc);
        self.sub_block_crc = seed(self.id, index + 1);
    }
}

/// The sealed size in bytes of a block with `length` content bytes.
pub fn sealed_bytes(length: u32) -> u64 {
    let sub_blocks = u64::from(length.div_ceil(SUB_BLOCK_BYTES));
    u64::from(HEADER_BYTES) + u64::from(length) + sub_blocks * u64::from(CHECKSUM_BYTES)
}

/// The sealed bytes that hold a range of content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedRange {
    /// What to ask the store for: whole sub-blocks, and the header too if the range is the whole
    /// content. Empty if the range is.
    pub bytes: Range<u64>,
    /// The sub-block that holds the range's first byte.
    pub first_sub_block: u32,
    /// Content bytes of that sub-block that lie before the range.
    pub skip: u32,
    /// Whether the range is the whole content, so that the header comes too.
    pub whole: bool,
}

/// Where a range of content lies in the sealed bytes of a block with `length` content bytes. What
/// of the range lies outside of the block counts as absent.
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
        let from = if whole { 0 } else { place(first_sub_block) };
        from..place(end.div_ceil(SUB_BLOCK_BYTES)).min(sealed_bytes(length))
    };
    SealedRange { bytes, first_sub_block, skip: start % SUB_BLOCK_BYTES, whole }
}

/// The content of a range, in order, each piece of one sub-block, without a copy. `bytes` is
/// what the store gave for [`span`]`(block.length, range).bytes`.
///
/// Every sub-block is verified; if the range is the whole content, so are the header and the
/// content's own checksum, against what the record says.
///
/// # Errors
/// `Corrupt` if anything differs, if there are too few or too many bytes, or if the range is not
/// within the block.
pub fn open(block: BlockRef, range: Range<u32>, bytes: Bytes) -> Result<Vec<Bytes>, BlockError> {
    let corrupt = |what: String| {
        let doing = format!("opening bytes {}..{} of block {}", range.start, range.end, block.id);
        BlockError::because(BlockErrorKind::Corrupt, doing, what)
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

/// The content of one sub-block and what was stored behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubBlock {
    /// The content, which matches the checksum.
    pub content: Bytes,
    /// The checksum, by which the content can be [verified](verify_sub_block) again.
    pub checksum: u32,
}

/// Whole sub-blocks, in order, without a copy: as [`open`] does it for a range that begins and
/// ends with sub-blocks, and with the same errors.
pub fn open_sub_blocks(
    block: BlockRef,
    sub_blocks: Range<u32>,
    bytes: Bytes,
) -> Result<Vec<SubBlock>, BlockError> {
    let span = span(block.length, content_of(block.length, sub_blocks.clone()));
    open_span(block, &span, bytes).map_err(|what| {
        let doing = format!("opening sub-blocks {sub_blocks:?} of block {}", block.id);
        BlockError::because(BlockErrorKind::Corrupt, doing, what)
    })
}

/// Which content whole sub-blocks hold in a block with `length` content bytes.
pub fn content_of(length: u32, sub_blocks: Range<u32>) -> Range<u32> {
    let place = |index: u32| index.saturating_mul(SUB_BLOCK_BYTES).min(length);
    place(sub_blocks.start)..place(sub_blocks.end)
}

/// Whether this is the content that was sealed as this sub-block of this block.
pub fn verify_sub_block(id: BlockId, index: u32, content: &[u8], checksum: u32) -> bool {
    extended(seed(id, index), content) == checksum
}

/// The CRC-32C of content that comes in pieces: what a [`BlockRef`] says of a whole block.
pub fn content_checksum(pieces: &[Bytes]) -> u32 {
    pieces.iter().fold(0, |crc, piece| extended(crc, piece))
}

/// The CRC-32C of two runs of content, one behind the other, of which the second has `length`
/// bytes.
pub fn joined_checksum(first: u32, second: u32, length: u32) -> u32 {
    shifted(first, length) ^ second
}

/// The CRC-32C of content up to the end of a sub-block that was verified, from that of what stands
/// before it and the sub-block's own checksum: the content is not read again.
pub(crate) fn joined_sub_block(
    before: u32,
    id: BlockId,
    index: u32,
    length: u32,
    checksum: u32,
) -> u32 {
    shifted(before ^ seed(id, index), length) ^ checksum
}

/// The sub-blocks of a span, or what is wrong with them.
fn open_span(block: BlockRef, span: &SealedRange, bytes: Bytes) -> Result<Vec<SubBlock>, String> {
    let expected = span.bytes.end - span.bytes.start;
    if bytes.len() as u64 != expected {
        return Err(format!("{} bytes came instead of {expected}", bytes.len()));
    }
    let mut rest = bytes;
    if span.whole && expected > 0 {
        let header = header(block.id, block.length);
        if rest.split_to(header.len()) != header.as_slice() {
            return Err("the header is not this block's".to_owned());
        }
    }
    let mut opened = Vec::with_capacity(rest.len() / SUB_BLOCK_BYTES as usize + 1);
    let mut index = span.first_sub_block;
    let mut content_crc = 0;
    while !rest.is_empty() {
        // The expected size was met, so each sub-block has at least one byte and its checksum.
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
        return Err("the whole block's checksum is not the record's".to_owned());
    }
    Ok(opened)
}

/// The checksum of a sub-block before its content has entered.
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

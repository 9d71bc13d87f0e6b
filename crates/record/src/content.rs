//! The content of files: inline bytes or references to blocks.
//!
//! For example, an object of 9 MB in blocks of 4 MiB has three slices in the inode's record.

use std::ops::Deref;

use bytes::Bytes;
use store::Value;

use crate::codec::{DecodeError, Reader, Writer, record};
use crate::{BlockId, RingNumber};

/// A run of bytes of a block, shown at a position of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The position in the file at which the run begins, in bytes.
    pub position: u64,
    /// The block that holds the run.
    pub block: BlockId,
    /// The length of the block's content, in bytes.
    pub block_length: u32,
    /// The CRC-32C of the block's content.
    pub block_crc32c: u32,
    /// The offset of the run in the block's content, in bytes.
    pub offset: u32,
    /// The length of the run, in bytes; never 0.
    pub length: u32,
}

impl Slice {
    /// The position in the file behind the last byte of the run.
    pub const fn end(&self) -> u64 {
        self.position + self.length as u64
    }
}

/// Bytes of a file in its inode's record. They are readable here; a layer over the metadata store
/// encrypts them on their way to the store if they have a ring key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InlineBytes {
    bytes: Bytes,
    ring: Option<RingNumber>,
}

impl InlineBytes {
    /// Bytes that are stored as they are.
    pub const fn plain(bytes: Bytes) -> InlineBytes {
        InlineBytes { bytes, ring: None }
    }

    /// Bytes that are encrypted under this ring key in the store. An empty content is never
    /// encrypted.
    pub fn under(bytes: Bytes, ring: Option<RingNumber>) -> InlineBytes {
        InlineBytes { ring: ring.filter(|_| !bytes.is_empty()), bytes }
    }

    /// No bytes.
    pub const fn empty() -> InlineBytes {
        InlineBytes::plain(Bytes::new())
    }

    /// The ring key under which the bytes are encrypted in the store; `None` if they are stored as
    /// they are.
    pub fn ring(&self) -> Option<RingNumber> {
        self.ring
    }

    /// The first `length` bytes, under the same ring key.
    ///
    /// # Panics
    /// If there are fewer bytes.
    #[must_use]
    pub fn cut(&self, length: usize) -> InlineBytes {
        InlineBytes::under(self.bytes.slice(..length), self.ring)
    }

    /// The bytes, without the number of their ring key.
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }
}

impl Deref for InlineBytes {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        &self.bytes
    }
}

/// The content of a file, as its inode's record has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The bytes of the file themselves, in the inode's record; empty for an empty file.
    Inline(InlineBytes),
    /// All slices (runs of bytes of blocks), sorted by their position in the file, without overlap.
    Slices(Vec<Slice>),
    /// References to pages, sorted by position. A page is a record with slices of a long content
    /// map. It never changes: a change of the slices writes new pages under new numbers.
    Pages(Vec<PageRef>),
}

/// The reference of an inode to a page of its content map, that is, to a record with a part of its
/// slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRef {
    /// The position in the file of the page's first slice.
    pub start: u64,
    /// The number of the page, which is a part of its key; see
    /// [`key::map_page`](crate::key::map_page).
    pub page: u32,
    /// The sum of the lengths of the page's slices, in bytes.
    pub bytes: u64,
}

impl PageRef {
    /// The reference to the page (record of a content map) with this number and these slices, of
    /// which there must be one at least.
    pub fn of(page: u32, slices: &[Slice]) -> PageRef {
        PageRef { start: slices[0].position, page, bytes: bytes_of(slices) }
    }
}

/// The most slices (runs of bytes of blocks) in an inode's record. If a file has more, all of them
/// are in pages, which are records of their own.
pub const INODE_SLICES_MAX: usize = 64;

/// The most slices (runs of bytes of blocks) in one page, a record of a large content map.
pub const PAGE_SLICES_MAX: usize = 512;

const INLINE: u8 = 0;
const SLICES: u8 = 1;
const PAGES: u8 = 2;

/// The longest content that stays in its inode's record permanently, in bytes. Longer content is
/// there for a while only (it is *staged* inline), until a task moves it into a block.
pub const INLINE_PERMANENT_MAX: usize = 4 << 10;

/// The longest content that may be in its inode's record, even for a while, in bytes.
pub const INLINE_BYTES_MAX: u64 = 256 << 10;

impl Content {
    /// Returns true if the content is in the inode's record only until a task moves it into a
    /// block.
    pub fn is_staged_inline(&self) -> bool {
        matches!(self, Content::Inline(bytes) if bytes.len() > INLINE_PERMANENT_MAX)
    }

    /// The number of bytes of the file that are not in holes. Holes are ranges without a slice.
    pub fn bytes(&self) -> u64 {
        match self {
            Content::Inline(bytes) => bytes.len() as u64,
            Content::Slices(slices) => bytes_of(slices),
            // The sum of damaged pages may exceed 64 bits, and must not panic.
            Content::Pages(pages) => {
                pages.iter().fold(0, |sum, page| sum.saturating_add(page.bytes))
            }
        }
    }

    /// The ring key under which inline bytes are encrypted in the store.
    pub(crate) fn inline_ring(&self) -> Option<RingNumber> {
        match self {
            Content::Inline(bytes) => bytes.ring,
            Content::Slices(_) | Content::Pages(_) => None,
        }
    }

    /// Writes the content without the ring key of inline bytes, which precedes it in the record.
    pub(crate) fn write(&self, to: &mut Writer) {
        match self {
            Content::Inline(bytes) => {
                to.u8(INLINE).bytes(bytes);
            }
            Content::Slices(slices) => {
                write_slices(to.u8(SLICES), slices);
            }
            Content::Pages(pages) => {
                // The inode repeats start and bytes of each page, so that a read finds its pages,
                // and a listing the bytes, without reading any page.
                to.u8(PAGES).varint(pages.len() as u64);
                for PageRef { start, page, bytes } in pages {
                    to.varint(*start).varint(u64::from(*page)).varint(*bytes);
                }
            }
        }
    }

    /// Reads a content. Inline bytes are not copied: they share the memory of `record`. `ring` is
    /// the ring key that the record names, which only inline bytes have.
    pub(crate) fn read(
        from: &mut Reader<'_>,
        record: &Value,
        ring: Option<RingNumber>,
    ) -> Result<Content, DecodeError> {
        let form = from.u8("content")?;
        if form != INLINE && ring.is_some() {
            return Err(DecodeError::Field("ring key"));
        }
        match form {
            INLINE => {
                let bytes = InlineBytes::under(from.shared(record, "inline bytes")?, ring);
                // Each content has exactly one encoding.
                if bytes.ring == ring {
                    Ok(Content::Inline(bytes))
                } else {
                    Err(DecodeError::Field("ring key"))
                }
            }
            SLICES => Ok(Content::Slices(read_slices(from)?)),
            PAGES => {
                let pages = from.varint("pages")?;
                let mut page = || {
                    let (start, page) = (from.varint("page start")?, from.narrow("page")?);
                    Ok(PageRef { start, page, bytes: from.varint("page bytes")? })
                };
                (0..pages).map(|_| page()).collect::<Result<_, _>>().map(Content::Pages)
            }
            _ => Err(DecodeError::Field("content")),
        }
    }
}

/// The sum of the lengths of these slices, in bytes.
pub fn bytes_of(slices: &[Slice]) -> u64 {
    slices.iter().map(|slice| u64::from(slice.length)).sum()
}

pub(crate) fn write_slices(to: &mut Writer, slices: &[Slice]) {
    to.varint(slices.len() as u64);
    for slice in slices {
        to.varint(slice.position)
            .fixed(&slice.block.0)
            .varint(u64::from(slice.block_length))
            .fixed(&slice.block_crc32c.to_be_bytes())
            .varint(u64::from(slice.offset))
            .varint(u64::from(slice.length));
    }
}

pub(crate) fn read_slices(from: &mut Reader<'_>) -> Result<Vec<Slice>, DecodeError> {
    let count = from.varint("slices")?;
    // No capacity is reserved from `count`, so a wrong count cannot exhaust memory.
    let mut slices = Vec::new();
    for _ in 0..count {
        let slice = Slice {
            position: from.varint("position")?,
            block: BlockId(from.fixed("block")?),
            block_length: from.narrow("block length")?,
            block_crc32c: u32::from_be_bytes(from.fixed("block checksum")?),
            offset: from.narrow("offset")?,
            length: from.narrow("length")?,
        };
        // A slice beyond its block would refer to bytes that do not exist.
        let end = u64::from(slice.offset) + u64::from(slice.length);
        if slice.length == 0 || end > u64::from(slice.block_length) {
            return Err(DecodeError::Field("length"));
        }
        // [`Slice::end`] must not overflow.
        if slice.position.checked_add(u64::from(slice.length)).is_none() {
            return Err(DecodeError::Field("position"));
        }
        slices.push(slice);
    }
    Ok(slices)
}

/// The record of a page of a large content map: a part of the file's slices, sorted by position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapPage(pub Vec<Slice>);

record!(
    MapPage,
    1,
    |this, to| {
        write_slices(&mut to, &this.0);
    },
    |from| { MapPage(read_slices(&mut from)?) }
);

//! Contents: where a file's bytes lie.

use bytes::Bytes;
use store::Value;

use crate::BlockId;
use crate::codec::{DecodeError, Reader, Writer, record};

/// A run of bytes of one block at a position of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Where in the file the run begins.
    pub position: u64,
    /// The block that holds it.
    pub block: BlockId,
    /// The block's content, in bytes.
    pub block_length: u32,
    /// The CRC-32C of the block's content.
    pub block_crc32c: u32,
    /// Where in the block's content the run begins.
    pub offset: u32,
    /// The run's length in bytes; never 0.
    pub length: u32,
}

impl Slice {
    /// Where in the file the run ends.
    pub const fn end(&self) -> u64 {
        self.position + self.length as u64
    }
}

/// A file's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The bytes themselves, and nothing for an empty file.
    Inline(Bytes),
    /// Slices in the record, in the order of their positions. No two of them overlap.
    Slices(Vec<Slice>),
    /// Slices in pages of their own, in the order of their positions. A page is never changed: what
    /// changes a file's slices writes new pages under new numbers.
    Pages(Vec<PageRef>),
}

/// A page of a content map, as the inode names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRef {
    /// The position of the file at which it begins.
    pub start: u64,
    /// Its number; see [`key::map_page`](crate::key::map_page).
    pub page: u32,
    /// How many bytes its slices hold.
    pub bytes: u64,
}

impl PageRef {
    /// What an inode says of a page that holds these slices, of which there must be one.
    pub fn of(page: u32, slices: &[Slice]) -> PageRef {
        PageRef { start: slices[0].position, page, bytes: bytes_of(slices) }
    }
}

/// The most slices that stand in an inode's record; more go to pages.
pub const INODE_SLICES_MAX: usize = 64;

/// The most slices of one page of a content map.
pub const PAGE_SLICES_MAX: usize = 512;

const INLINE: u8 = 0;
const SLICES: u8 = 1;
const PAGES: u8 = 2;

/// Inline contents of at most so many bytes stay where they are. Longer ones are only staged
/// inline, and may be destaged into blocks at any time.
pub const INLINE_PERMANENT_MAX: usize = 4 << 10;

/// The longest content that stands in its record, in bytes.
pub const INLINE_BYTES_MAX: u64 = 256 << 10;

impl Content {
    /// Whether it is in its record only until it is destaged into a block.
    pub fn is_staged_inline(&self) -> bool {
        matches!(self, Content::Inline(bytes) if bytes.len() > INLINE_PERMANENT_MAX)
    }

    /// How many bytes of the file it holds: all but what lies in holes.
    pub fn bytes(&self) -> u64 {
        match self {
            Content::Inline(bytes) => bytes.len() as u64,
            Content::Slices(slices) => bytes_of(slices),
            Content::Pages(pages) => {
                pages.iter().fold(0, |sum, page| sum.saturating_add(page.bytes))
            }
        }
    }

    pub(crate) fn write(&self, to: &mut Writer) {
        match self {
            Content::Inline(bytes) => {
                to.u8(INLINE).bytes(bytes);
            }
            Content::Slices(slices) => {
                write_slices(to.u8(SLICES), slices);
            }
            Content::Pages(pages) => {
                to.u8(PAGES).varint(pages.len() as u64);
                for PageRef { start, page, bytes } in pages {
                    to.varint(*start).varint(u64::from(*page)).varint(*bytes);
                }
            }
        }
    }

    /// Inline bytes stay in `record`, which is being read.
    pub(crate) fn read(from: &mut Reader<'_>, record: &Value) -> Result<Content, DecodeError> {
        match from.u8("content")? {
            INLINE => Ok(Content::Inline(from.shared(record, "inline bytes")?)),
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

/// How many bytes of a file these slices hold.
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
        let end = u64::from(slice.offset) + u64::from(slice.length);
        if slice.length == 0 || end > u64::from(slice.block_length) {
            return Err(DecodeError::Field("length"));
        }
        if slice.position.checked_add(u64::from(slice.length)).is_none() {
            return Err(DecodeError::Field("position"));
        }
        slices.push(slice);
    }
    Ok(slices)
}

/// A page of a large content map.
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

//! Pages: one sub-block each, as memory holds them and as the disk keeps them.
//!
//! In memory a page is content that has passed its checksum: nothing else gets there. On disk it
//! stands with its block's id, its index and the checksum that the writer sealed, and what is read
//! back is verified by them before it becomes a page again. A page that fails becomes a *damaged*
//! one, which holds no bytes and only says so.

use std::io::{Read, Write};
use std::ops::Range;

use block::{BlockId, SUB_BLOCK_BYTES, sealed};
use bytes::Bytes;
use foyer::{Code, Error};

/// Bytes by which a page in memory costs more than its content: its entry in the index, its links
/// in a queue, its counts.
pub const PAGE_OVERHEAD_BYTES: usize = 256;

/// A block's id and the index of one of its sub-blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PageKey {
    pub(crate) block: BlockId,
    pub(crate) index: u32,
}

/// The content of a sub-block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    key: PageKey,
    checksum: u32,
    /// Empty if the page is damaged.
    content: Bytes,
}

impl Page {
    /// A page in a buffer of its own, so that it does not keep a larger answer in memory.
    pub(crate) fn copied(key: PageKey, checksum: u32, pieces: &[Bytes]) -> Page {
        let mut content = Vec::with_capacity(pieces.iter().map(Bytes::len).sum());
        for piece in pieces {
            content.extend_from_slice(piece);
        }
        Page { key, checksum, content: content.into() }
    }

    /// Whose content it is.
    pub(crate) fn key(&self) -> PageKey {
        self.key
    }

    /// The content; empty if the page is damaged.
    pub(crate) fn content(&self) -> &Bytes {
        &self.content
    }

    /// The content, if this is the page of this key and has as many bytes as it should.
    pub(crate) fn content_of(&self, key: PageKey, length: u32) -> Option<Bytes> {
        let right = self.key == key && self.content.len() == length as usize;
        (right && length > 0).then(|| self.content.clone())
    }

    /// What the page costs in memory, in bytes.
    pub(crate) fn cost(&self) -> usize {
        self.content.len() + PAGE_OVERHEAD_BYTES
    }
}

/// How many bytes of content a sub-block of a block has.
pub(crate) fn page_bytes(block_length: u32, index: u32) -> u32 {
    let Range { start, end } = sealed::content_of(block_length, index..index.saturating_add(1));
    end - start
}

const ID_BYTES: usize = BlockId::BYTES;

impl Code for PageKey {
    fn encode(&self, writer: &mut impl Write) -> foyer::Result<()> {
        writer.write_all(&self.block.0).map_err(Error::io_error)?;
        writer.write_all(&self.index.to_be_bytes()).map_err(Error::io_error)
    }

    fn decode(reader: &mut impl Read) -> foyer::Result<PageKey> {
        let (mut id, mut index) = ([0; ID_BYTES], [0; 4]);
        reader.read_exact(&mut id).map_err(Error::io_error)?;
        reader.read_exact(&mut index).map_err(Error::io_error)?;
        Ok(PageKey { block: BlockId(id), index: u32::from_be_bytes(index) })
    }

    fn estimated_size(&self) -> usize {
        ID_BYTES + 4
    }
}

impl Code for Page {
    fn encode(&self, writer: &mut impl Write) -> foyer::Result<()> {
        self.key.encode(writer)?;
        writer.write_all(&self.checksum.to_be_bytes()).map_err(Error::io_error)?;
        writer.write_all(&self.content).map_err(Error::io_error)
    }

    /// Whatever the disk holds becomes a sound page or a damaged one, never an error.
    fn decode(reader: &mut impl Read) -> foyer::Result<Page> {
        let key = PageKey::decode(reader)?;
        let mut checksum = [0; 4];
        reader.read_exact(&mut checksum).map_err(Error::io_error)?;
        let checksum = u32::from_be_bytes(checksum);
        let mut content = Vec::with_capacity(SUB_BLOCK_BYTES as usize);
        // One byte more than a page has at most, so that a longer one is seen to be damaged.
        let mut limited = reader.take(u64::from(SUB_BLOCK_BYTES) + 1);
        limited.read_to_end(&mut content).map_err(Error::io_error)?;
        let fits = content.len() <= SUB_BLOCK_BYTES as usize;
        if !fits || !sealed::verify_sub_block(key.block, key.index, &content, checksum) {
            content = Vec::new();
        }
        content.shrink_to_fit();
        Ok(Page { key, checksum, content: content.into() })
    }

    fn estimated_size(&self) -> usize {
        self.key.estimated_size() + 4 + self.content.len()
    }
}

#[cfg(test)]
mod tests;

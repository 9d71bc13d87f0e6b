//! Pages: one sub-block each, in memory and on the disk.
//!
//! In memory, a page is content that has passed its checksum. On disk, a page is stored with its
//! block's id, its index and the checksum that the writer sealed. A page that is read from the disk
//! is verified by them. If it fails, it becomes a *damaged* page without content. For example, if
//! one bit of the file has flipped, the page decodes to an empty one, and the reader fetches it
//! from the block store.

use std::io::{Read, Write};
use std::ops::Range;

use block::{BlockId, SUB_BLOCK_BYTES, sealed};
use bytes::Bytes;
use foyer::{Code, Error};

/// The memory that a page takes in addition to its content: its entry in the index, its links in a
/// queue, and its counts.
pub const PAGE_OVERHEAD_BYTES: usize = 256;

/// The id of a block, and the index of one of its sub-blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PageKey {
    pub(crate) block: BlockId,
    pub(crate) index: u32,
}

/// The content of a sub-block (64 KiB of a block), with its key and checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    key: PageKey,
    checksum: u32,
    /// Empty if the page is damaged.
    content: Bytes,
}

impl Page {
    /// Copies a page into a buffer of its own, so that it does not keep a larger response in
    /// memory.
    pub(crate) fn copied(key: PageKey, checksum: u32, pieces: &[Bytes]) -> Page {
        let mut content = Vec::with_capacity(pieces.iter().map(Bytes::len).sum());
        for piece in pieces {
            content.extend_from_slice(piece);
        }
        Page { key, checksum, content: content.into() }
    }

    /// Returns the key of the page: block id and index of the sub-block.
    pub(crate) fn key(&self) -> PageKey {
        self.key
    }

    /// The content; empty if the page is damaged.
    pub(crate) fn content(&self) -> &Bytes {
        &self.content
    }

    /// Returns the content if this page has the given key and length; `None` otherwise.
    pub(crate) fn content_of(&self, key: PageKey, length: u32) -> Option<Bytes> {
        // The index of the disk knows only hashes, so a page of another key may be found.
        let right = self.key == key && self.content.len() == length as usize;
        (right && length > 0).then(|| self.content.clone())
    }

    /// Returns the memory that the page takes, in bytes.
    pub(crate) fn cost(&self) -> usize {
        self.content.len() + PAGE_OVERHEAD_BYTES
    }
}

/// Returns the length in bytes of the content of the sub-block `index`, in a block with
/// `block_length` content bytes.
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

    /// Decodes any bytes to a valid page or a damaged one. Only reading may fail.
    fn decode(reader: &mut impl Read) -> foyer::Result<Page> {
        let key = PageKey::decode(reader)?;
        let mut checksum = [0; 4];
        reader.read_exact(&mut checksum).map_err(Error::io_error)?;
        let checksum = u32::from_be_bytes(checksum);
        let mut content = Vec::with_capacity(SUB_BLOCK_BYTES as usize);
        // One byte more than a page may have, so that a longer page is recognized as damaged.
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

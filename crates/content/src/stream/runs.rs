//! How slices are cut into runs, and the checksum of a block that is read in several runs.
//!
//! A run ends at the end of a sub-block or of its slice, so no stream reads a sub-block twice. For
//! example, a slice that begins in the middle of a sub-block has a first run that is shorter by
//! half a sub-block.

use std::ops::Range;

use block::{BlockRef, SUB_BLOCK_BYTES, sealed};
use bytes::Bytes;
use keyring::ObjectEncryptionKey;
use record::Slice;

use crate::ContentError;
use crate::object_cipher::PieceCipher;

/// The rest of a slice (a run of bytes of one block in a file) of which no part is being read yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    block: BlockRef,
    offset: u32,
    length: u32,
    /// True if the slice is the whole block.
    whole: bool,
}

/// A run: a part of a slice, and so of a block, that is read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) block: BlockRef,
    /// The length in content bytes.
    pub(super) length: u32,
    offset: u32,
    whole: bool,
}

/// The content of a run that was read.
#[derive(Debug)]
pub(super) struct FetchedRun {
    pub(super) frames: Vec<Bytes>,
    /// The CRC-32C of the run's content, if it is needed for the checksum of the whole block.
    pub(super) checksum: Option<u32>,
}

impl Planned {
    pub(super) fn new(slice: &Slice) -> Planned {
        let block =
            BlockRef { id: slice.block, length: slice.block_length, crc32c: slice.block_crc32c };
        let whole = slice.offset == 0 && slice.length == slice.block_length;
        Planned { block, offset: slice.offset, length: slice.length, whole }
    }

    /// The block of the slice.
    pub(super) fn block(&self) -> BlockRef {
        self.block
    }

    /// The range in the block's content.
    pub(super) fn range(&self) -> Range<u32> {
        self.offset..self.offset.saturating_add(self.length)
    }

    /// Returns a run (a part to read at once) of the slice's first `length` bytes, or of all if
    /// fewer are left.
    pub(super) fn beginning(&self, length: u32) -> Run {
        let Planned { block, offset, whole, .. } = *self;
        Run { block, length: length.min(self.length), offset, whole }
    }

    /// Returns a run (a part to read at once) of about the first `bytes` bytes of the slice. It
    /// ends at a sub-block's end, or takes all bytes if little more than `bytes` are left.
    pub(super) fn first_run(&self, bytes: u32) -> Run {
        let Planned { block, offset, length, whole } = *self;
        // The run ends at the end of a sub-block.
        let cut = bytes - offset % SUB_BLOCK_BYTES;
        let little_more = length <= cut.saturating_add(bytes / 2);
        Run { block, length: if little_more { length } else { cut }, offset, whole }
    }

    /// Returns the rest of the slice behind `run`, its first part; `None` if nothing is left.
    pub(super) fn behind(self, run: &Run) -> Option<Planned> {
        let length = self.length.saturating_sub(run.length);
        // A slice beyond 32 bits, which no valid record can hold, becomes a range beyond its block.
        // The reader refuses such a range.
        let offset = self.offset.saturating_add(run.length);
        (length > 0).then_some(Planned { offset, length, ..self })
    }
}

impl Run {
    /// The range in the block's content.
    pub(super) fn range(&self) -> Range<u32> {
        self.offset..self.offset.saturating_add(self.length)
    }

    /// Returns the cipher of the run's content under the key of its object.
    pub(super) fn cipher(&self, key: &ObjectEncryptionKey) -> PieceCipher {
        PieceCipher::of_block(key, self.block.id, self.offset)
    }

    /// Returns the bytes to read from the block store for this run, checksums included.
    pub(super) fn sealed_bytes(&self) -> u64 {
        let span = sealed::span(self.block.length, self.range());
        span.bytes.end - span.bytes.start
    }

    /// Returns true if the run is one of several that together are a whole block. A run that is a
    /// whole block by itself is compared with the record's checksum when it is read.
    pub(super) fn is_part_of_whole(&self) -> bool {
        self.whole && self.length < self.block.length
    }
}

/// The running checksum of a block that is read in several runs (parts). At the last run it must
/// equal the checksum in the record.
#[derive(Debug, Default)]
pub(super) struct BlockChecksum {
    /// The block, the end (in its content) of the runs that came without a gap from its beginning,
    /// and the checksum of the content up to there.
    joined: Option<(BlockRef, u32, u32)>,
}

impl BlockChecksum {
    /// Adds the next run (part of the block) to the checksum. A run that came from memory, or that
    /// is not the next one of its block, ends the comparison; its sub-blocks were verified all the
    /// same.
    ///
    /// # Errors
    /// Fails with `Corrupt` if the block ends here and its checksum is not the record's.
    pub(super) fn follow(&mut self, run: &Run, found: &FetchedRun) -> Result<(), ContentError> {
        let before = self.joined.take();
        // The run came from memory, or its slice is not a whole block.
        let Some(checksum) = found.checksum else { return Ok(()) };
        let joined = match before {
            Some((block, end, before)) if block == run.block && end == run.offset => {
                sealed::combined_checksum(before, checksum, run.length)
            }
            _ if run.offset == 0 => checksum,
            _ => return Ok(()),
        };
        let end = run.range().end;
        if end < run.block.length {
            self.pass(run, Some(joined));
        } else if joined != run.block.crc32c {
            let what = format!("block {} differs from the one in the record", run.block.id);
            return Err(ContentError::Corrupt(what));
        }
        Ok(())
    }

    /// Returns the checksum of the block's content before this run, if all of it came; `None`
    /// otherwise.
    pub(super) fn before(&mut self, run: &Run) -> Option<u32> {
        match self.joined.take() {
            Some((block, end, before)) if block == run.block && end == run.offset => Some(before),
            _ => None,
        }
    }

    /// Sets the checksum of the block up to the end of a run (part) that was verified by itself.
    /// `None` if not all of the block up to there came; then the block is not compared.
    pub(super) fn pass(&mut self, run: &Run, joined: Option<u32>) {
        let end = run.range().end;
        self.joined = joined.filter(|_| run.whole).map(|joined| (run.block, end, joined));
    }
}

#[cfg(test)]
mod tests;

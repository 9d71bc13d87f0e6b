//! How slices are cut into runs, and what runs must amount to together.
//!
//! A run ends where a sub-block ends or where its slice does, so that no sub-block is read twice
//! for one reader.

use std::ops::Range;

use block::{BlockRef, SUB_BLOCK_BYTES, sealed};
use bytes::Bytes;
use record::Slice;

use crate::ContentError;

/// What no run has taken yet of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    block: BlockRef,
    offset: u32,
    length: u32,
    /// Whether the slice is the whole block.
    whole: bool,
}

/// A part of a slice that is read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) block: BlockRef,
    /// Content bytes.
    pub(super) length: u32,
    offset: u32,
    whole: bool,
}

/// What was read of a run.
#[derive(Debug)]
pub(super) struct FetchedRun {
    pub(super) frames: Vec<Bytes>,
    /// The CRC-32C of the run's content, if that of its block is to be made of it.
    pub(super) checksum: Option<u32>,
}

impl Planned {
    pub(super) fn new(slice: &Slice) -> Planned {
        let block =
            BlockRef { id: slice.block, length: slice.block_length, crc32c: slice.block_crc32c };
        let whole = slice.offset == 0 && slice.length == slice.block_length;
        Planned { block, offset: slice.offset, length: slice.length, whole }
    }

    /// The block whose content it is.
    pub(super) fn block(&self) -> BlockRef {
        self.block
    }

    /// Where it lies in its block's content.
    pub(super) fn range(&self) -> Range<u32> {
        self.offset..self.offset.saturating_add(self.length)
    }

    /// The beginning: exactly `length` bytes, of those that are there.
    pub(super) fn beginning(&self, length: u32) -> Run {
        let Planned { block, offset, whole, .. } = *self;
        Run { block, length: length.min(self.length), offset, whole }
    }

    /// The beginning: about `bytes`, a multiple of a sub-block's, or all if little more is there.
    pub(super) fn first_run(&self, bytes: u32) -> Run {
        let Planned { block, offset, length, whole } = *self;
        let cut = bytes - offset % SUB_BLOCK_BYTES;
        let little_more = length <= cut.saturating_add(bytes / 2);
        Run { block, length: if little_more { length } else { cut }, offset, whole }
    }

    /// What is left behind the first run, if anything is.
    pub(super) fn behind(self, run: &Run) -> Option<Planned> {
        let length = self.length.saturating_sub(run.length);
        // A slice beyond 32 bits, which no record can hold, becomes a range beyond its block,
        // which does not open.
        let offset = self.offset.saturating_add(run.length);
        (length > 0).then_some(Planned { offset, length, ..self })
    }
}

impl Run {
    /// Where the run lies in its block's content.
    pub(super) fn range(&self) -> Range<u32> {
        self.offset..self.offset.saturating_add(self.length)
    }

    /// What reading the run takes from the block store, in bytes.
    pub(super) fn sealed_bytes(&self) -> u64 {
        let span = sealed::span(self.block.length, self.range());
        span.bytes.end - span.bytes.start
    }

    /// Whether the run is one of several that are a whole block together. A run that is a whole
    /// block by itself was verified as one.
    pub(super) fn is_part_of_whole(&self) -> bool {
        self.whole && self.length < self.block.length
    }
}

/// Follows the runs of a whole block, whose checksums together must be the block's.
#[derive(Debug, Default)]
pub(super) struct BlockChecksum {
    /// Up to where runs of this block came without a gap, and the checksum of that.
    joined: Option<(BlockRef, u32, u32)>,
}

impl BlockChecksum {
    /// Takes note of the next run. One that came from memory, or is not the next of its block,
    /// ends the comparison: each of its sub-blocks was verified all the same.
    ///
    /// # Errors
    /// `Corrupt` if the block ends here and is not what the record says.
    pub(super) fn follow(&mut self, run: &Run, found: &FetchedRun) -> Result<(), ContentError> {
        let before = self.joined.take();
        let Some(checksum) = found.checksum else { return Ok(()) };
        let joined = match before {
            Some((block, end, before)) if block == run.block && end == run.offset => {
                sealed::joined_checksum(before, checksum, run.length)
            }
            _ if run.offset == 0 => checksum,
            _ => return Ok(()),
        };
        let end = run.range().end;
        if end < run.block.length {
            self.pass(run, Some(joined));
        } else if joined != run.block.crc32c {
            let what = format!("block {} is not the one that the record names", run.block.id);
            return Err(ContentError::Corrupt(what));
        }
        Ok(())
    }

    /// The checksum of all of a whole block that came before this run, if all of that did.
    pub(super) fn before(&mut self, run: &Run) -> Option<u32> {
        match self.joined.take() {
            Some((block, end, before)) if block == run.block && end == run.offset => Some(before),
            _ => None,
        }
    }

    /// Takes note of a run that was compared by itself, and of the checksum of its block up to its
    /// end, if all of that came.
    pub(super) fn pass(&mut self, run: &Run, joined: Option<u32>) {
        let end = run.range().end;
        self.joined = joined.filter(|_| run.whole).map(|joined| (run.block, end, joined));
    }
}

#[cfg(test)]
mod tests;

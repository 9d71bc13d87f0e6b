//! The content of one new block, and the places of the bytes in it.
//!
//! For example, two files name the bytes 0 to 300 and 200 to 500 of one pack. The new block gets
//! the bytes 0 to 500 once, and each file gets a slice of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use block::BlockRef;
use bytes::Bytes;
use keyring::Protection;
use record::{BlockId, Ino, Slice};
use store::Value;

/// Runs of a block with at most this many bytes between them are read together.
const GAP_BYTES_MAX: u32 = 64 << 10;

/// The most bytes that are read together, unless one run or a whole block is longer.
const SPAN_BYTES_MAX: u32 = 1 << 20;

/// Reads under way at the same time.
pub(super) const READS_AT_ONCE: usize = 4;

/// A file whose bytes move to the new block.
#[derive(Clone, Debug, Default)]
pub(super) struct Owner {
    /// The record of its inode, from which the move is planned first. `None`: it is read again
    /// before the move, because the file may be written to all the time.
    pub(super) record: Option<Value>,
    /// The content, if it is staged inline in that record.
    pub(super) body: Option<Bytes>,
    /// The slices that move, in the order in which they are copied.
    pub(super) slices: Vec<Slice>,
}

/// The content of one new block: bytes of one or more files.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) owners: BTreeMap<Ino, Owner>,
    /// The range of the files whose references may change. It limits the pages of the content map
    /// that are read.
    pub(super) within: Range<u64>,
    /// True if the new block is a pack, which may have several owners.
    pub(super) is_pack: bool,
    /// True if each old block is read as a whole and past the cache. Then its checksum is verified,
    /// which covers the whole content.
    pub(super) reads_whole: bool,
    /// The protection of the new block, which all owners have; `None` without owners.
    pub(super) protection: Option<Protection>,
    /// The number of refused plans after which an owner stays as it is.
    pub(super) refusals_max: u32,
}

/// The runs of old blocks that are copied, each with the offset of its copy in the new block.
pub(super) type Runs = BTreeMap<BlockId, Vec<(Range<u32>, u32)>>;

/// Slices of one block that are read together.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) block: BlockRef,
    /// The range of the block's content that is read.
    pub(super) range: Range<u32>,
    pub(super) slices: Vec<Slice>,
}

impl Batch {
    /// Creates a batch without content, for a pack whose owners have their content in their
    /// records. If such an owner changes meanwhile, it stays as it is.
    pub(super) fn for_pack() -> Batch {
        let owners = BTreeMap::new();
        let (within, protection) = (0..u64::MAX, None);
        Batch { owners, within, is_pack: true, reads_whole: true, protection, refusals_max: 1 }
    }

    /// Returns true if an owner of this protection may be added. The first owner decides, because
    /// one block has one ring key.
    pub(super) fn admits(&mut self, protection: &Protection) -> bool {
        self.protection.get_or_insert_with(|| protection.clone()) == protection
    }

    /// Returns all slices to copy, in the order of the copies.
    pub(super) fn slices(&self) -> impl Iterator<Item = &Slice> + Clone {
        self.owners.values().flat_map(|owner| &owner.slices)
    }

    /// Returns the blocks whose bytes are copied.
    pub(super) fn blocks(&self) -> BTreeSet<BlockId> {
        self.slices().map(|slice| slice.block).collect()
    }

    /// Excludes the bytes of a block that cannot be read.
    pub(super) fn leave_out(&mut self, block: BlockId) {
        for owner in self.owners.values_mut() {
            owner.slices.retain(|slice| slice.block != block);
        }
        self.owners.retain(|_, owner| owner.body.is_some() || !owner.slices.is_empty());
    }

    /// Returns the memory in bytes that the copy takes: the copy, the sealed block, and the reads
    /// under way.
    pub(super) fn memory(&self) -> u64 {
        let bodies = self.owners.values().filter_map(|owner| owner.body.as_ref());
        let bytes =
            u64::from(place(self.slices()).1) + bodies.map(|it| it.len() as u64).sum::<u64>();
        let longest = self.slices().map(|slice| slice.block_length).max().unwrap_or(0);
        let reads = if self.reads_whole {
            u64::from(longest)
        } else {
            u64::from(SPAN_BYTES_MAX) * READS_AT_ONCE as u64
        };
        bytes * 2 + reads
    }

    /// Returns the ranges of old blocks to read, sorted by block and offset.
    pub(super) fn spans(&self) -> Vec<Span> {
        let mut slices: Vec<&Slice> = self.slices().collect();
        // Sorting by block and offset makes close runs of a block neighbours, which one read
        // covers.
        slices.sort_unstable_by_key(|slice| (slice.block, slice.offset, slice.length));
        // Copies of a file name the same run.
        slices.dedup_by_key(|slice| (slice.block, slice.offset, slice.length));
        let mut spans: Vec<Span> = Vec::new();
        for slice in slices {
            let range = range_in_block(slice);
            match spans.last_mut() {
                Some(span) if span.takes(slice) => {
                    span.range.end = span.range.end.max(range.end);
                    span.slices.push(*slice);
                }
                _ => {
                    let Slice { block: id, block_length: length, block_crc32c: crc32c, .. } =
                        *slice;
                    let range = if self.reads_whole { 0..length } else { range };
                    let block = BlockRef { id, length, crc32c };
                    spans.push(Span { block, range, slices: vec![*slice] });
                }
            }
        }
        spans
    }
}

impl Span {
    /// Returns true if a slice, which follows all others of its block, is read together with them
    /// in one request.
    fn takes(&self, slice: &Slice) -> bool {
        let run = range_in_block(slice);
        self.block.id == slice.block
            && (run.end <= self.range.end
                || run.start.saturating_sub(self.range.end) <= GAP_BYTES_MAX
                    && run.end - self.range.start <= SPAN_BYTES_MAX)
    }
}

/// Returns the slice's range in the content of its block.
pub(super) fn range_in_block(slice: &Slice) -> Range<u32> {
    slice.offset..slice.offset.saturating_add(slice.length)
}

/// Places the slices in a new block, in their order and each byte of an old block once. Returns the
/// runs with their places, and their total length in bytes.
pub(super) fn place<'a>(slices: impl Iterator<Item = &'a Slice> + Clone) -> (Runs, u32) {
    let mut sorted: Vec<&Slice> = slices.clone().collect();
    sorted.sort_unstable_by_key(|slice| (slice.block, slice.offset));
    let mut runs: BTreeMap<BlockId, Vec<Range<u32>>> = BTreeMap::new();
    for slice in sorted {
        let (run, runs) = (range_in_block(slice), runs.entry(slice.block).or_default());
        match runs.last_mut() {
            // Only runs that overlap become one, so that others keep their order in the file.
            Some(last) if run.start < last.end => last.end = last.end.max(run.end),
            _ => runs.push(run),
        }
    }
    let (mut places, mut bytes) = (BTreeMap::new(), 0_u32);
    for slice in slices {
        let runs = runs.get(&slice.block).map(Vec::as_slice).unwrap_or_default();
        let next = runs.partition_point(|run| run.start <= slice.offset);
        if let Some(run) = next.checked_sub(1).and_then(|at| runs.get(at)) {
            places.entry((slice.block, run.start)).or_insert_with(|| {
                let place = bytes;
                bytes = bytes.saturating_add(run.end - run.start);
                place
            });
        }
    }
    let with_places = |(block, runs): (BlockId, Vec<Range<u32>>)| {
        let place = |run: Range<u32>| Some((run.clone(), *places.get(&(block, run.start))?));
        (block, runs.into_iter().filter_map(place).collect())
    };
    (runs.into_iter().map(with_places).collect(), bytes)
}

#[cfg(test)]
mod tests;

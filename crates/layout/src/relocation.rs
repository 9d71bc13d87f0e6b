//! Where bytes of blocks lie in another block, too.

use std::collections::BTreeMap;
use std::ops::Range;

use record::{BlockId, Slice};

/// A block that holds a copy of runs of other blocks.
///
/// Blocks never change, so what this says is true for as long as they are there, whatever becomes of
/// the files that name them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// The block that holds the copies.
    pub block: BlockId,
    /// Its content, in bytes.
    pub block_length: u32,
    /// The CRC-32C of its content.
    pub block_crc32c: u32,
    /// Of each other block: the runs that were copied, in order and apart, and where each begins in
    /// the block that holds the copies.
    pub runs: BTreeMap<BlockId, Vec<(Range<u32>, u32)>>,
}

impl Relocation {
    /// The slice that has the bytes of this one in the block of the copies; `None` if they were not
    /// copied in one run.
    pub fn locate(&self, slice: &Slice) -> Option<Slice> {
        let runs = self.runs.get(&slice.block)?;
        let next = runs.partition_point(|(run, _)| run.start <= slice.offset);
        let (run, begins) = runs.get(next.checked_sub(1)?)?;
        if slice.offset.checked_add(slice.length)? > run.end {
            return None;
        }
        let offset = begins.checked_add(slice.offset - run.start)?;
        let Relocation { block, block_length, block_crc32c, .. } = *self;
        Some(Slice { block, block_length, block_crc32c, offset, ..*slice })
    }
}

/// Joins slices of which one goes on where the one before ends, in the file and in the block.
pub fn joined(slices: impl IntoIterator<Item = Slice>) -> Vec<Slice> {
    let mut joined: Vec<Slice> = Vec::new();
    for slice in slices {
        match joined.last_mut() {
            Some(last) if goes_on(last, &slice) => last.length += slice.length,
            _ => joined.push(slice),
        }
    }
    joined
}

/// Whether the second slice goes on where the first one ends. Both lie in one block then, so that
/// together they are no longer than it.
fn goes_on(first: &Slice, second: &Slice) -> bool {
    first.block == second.block
        && first.end() == second.position
        && first.offset.checked_add(first.length) == Some(second.offset)
        && first.length.checked_add(second.length).is_some()
}

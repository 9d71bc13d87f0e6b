//! Finding the copies of block runs in another block.

use std::collections::BTreeMap;
use std::ops::Range;

use record::{BlockId, Slice};

/// A block that has copies of runs of other blocks, and the places of the copies.
///
/// Blocks never change, so a relocation stays valid while the blocks exist, even if the files that
/// reference them change. For example, the relocator copies the bytes 100 to 200 of block A to the
/// start of block B: `runs` has A with the run `100..200` at 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// The block with the copies.
    pub block: BlockId,
    /// The length of the content of the block with the copies, in bytes.
    pub block_length: u32,
    /// The CRC-32C of the content of the block with the copies.
    pub block_crc32c: u32,
    /// For each other block: the copied ranges of its content, sorted and without overlap, each
    /// with the offset of its copy in the block with the copies. All numbers are bytes.
    pub runs: BTreeMap<BlockId, Vec<(Range<u32>, u32)>>,
}

impl Relocation {
    /// Returns a slice that names the copy of the bytes that `slice`, of another block, names.
    /// `None` if these bytes were not copied in one run.
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

/// Joins adjacent slices that continue each other both in the file and in one block. The order of
/// the input is kept.
pub fn joined(slices: impl IntoIterator<Item = Slice>) -> Vec<Slice> {
    let mut joined: Vec<Slice> = Vec::new();
    for slice in slices {
        match joined.last_mut() {
            Some(last) if is_contiguous(last, &slice) => last.length += slice.length,
            _ => joined.push(slice),
        }
    }
    joined
}

/// Returns true if the second slice continues the first one, in the file and in the block. Both are
/// then in one block, so the sum of their lengths fits in 32 bits.
fn is_contiguous(first: &Slice, second: &Slice) -> bool {
    first.block == second.block
        && first.end() == second.position
        && first.offset.checked_add(first.length) == Some(second.offset)
        && first.length.checked_add(second.length).is_some()
}

//! Reads of bytes that are in memory already, without a stream and without a task. For callers that
//! read a few KiB at a time.

use std::ops::Range;

use block::{BlockReader, BlockRef};
use bytes::Bytes;
use record::Slice;

/// Returns the bytes of `range` of a file if the reader has all of them in memory, verified.
/// `slices` are runs of bytes of blocks, sorted by position in the file. Returns `None` if the
/// reader lacks some bytes, or if `slices` do not cover the whole range.
pub fn read_from_memory(
    reader: &dyn BlockReader,
    slices: &[Slice],
    range: Range<u64>,
) -> Option<Vec<Bytes>> {
    let mut at = range.start;
    let mut found = Vec::new();
    let first = slices.partition_point(|slice| slice.end() <= range.start);
    for slice in slices.get(first..)?.iter().take_while(|slice| slice.position < range.end) {
        let part = layout::clip(slice, &range).filter(|part| part.position == at)?;
        let block =
            BlockRef { id: part.block, length: part.block_length, crc32c: part.block_crc32c };
        found.extend(reader.in_memory(block, part.offset..part.offset.checked_add(part.length)?)?);
        at = part.end();
    }
    (at == range.end).then_some(found)
}

#[cfg(test)]
mod tests;

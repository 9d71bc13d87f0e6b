//! Verifies that bytes copied into a new block equal the bytes read from the old blocks.
//!
//! The rewriter and the compactor call this before they put the new block. For example, if a copy
//! of a slice was placed 1 byte too far, its checksum differs, and the move fails before any record
//! references the new block.

use std::collections::BTreeMap;
use std::ops::Range;

use block::{BlockRef, SealedBlock, sealed};
use layout::Relocation;
use record::{BlockId, Slice};
use session::VolumeError;

/// A slice (a run of bytes of an old block in a file), and the checksum of its bytes as they were
/// read from there.
pub(crate) type SliceChecksum = (Slice, u32);

/// Returns the slice's range in the content of its block.
pub(crate) fn range_in_block(slice: &Slice) -> Range<u32> {
    slice.offset..slice.offset.saturating_add(slice.length)
}

/// Returns the map from runs of old blocks to their places in a new block. `runs` has, for each old
/// block, ranges of its content and the offset of each in the new block.
pub(crate) fn relocation(
    block: &SealedBlock,
    runs: BTreeMap<BlockId, Vec<(Range<u32>, u32)>>,
) -> Relocation {
    let BlockRef { id, length, crc32c } = block.reference();
    Relocation { block: id, block_length: length, block_crc32c: crc32c, runs }
}

/// Verifies that the new place of each slice (run of bytes of a block) holds the bytes of its old
/// place, by their checksums.
///
/// # Errors
/// Fails with `Corrupt` if one does not.
pub(crate) fn verify_copies(
    block: &SealedBlock,
    placed: &Relocation,
    checksums: &[SliceChecksum],
) -> Result<(), VolumeError> {
    let sealed_bytes = block.to_bytes();
    for (old, sum) in checksums {
        let differs = || {
            let Slice { block, offset, .. } = old;
            VolumeError::Corrupt(format!(
                "the copy of the bytes at {offset} of block {block} differs from the original"
            ))
        };
        let new = placed.locate(old).ok_or_else(differs)?;
        let span = sealed::span(block.length(), range_in_block(&new));
        let place =
            usize::try_from(span.bytes.start).ok().zip(usize::try_from(span.bytes.end).ok());
        let bytes = place.and_then(|(start, end)| sealed_bytes.get(start..end));
        let bytes = sealed_bytes.slice_ref(bytes.ok_or_else(differs)?);
        // The sealed bytes are opened as a reader would open them, so the checksums of the new
        // block are verified, too.
        let pieces = sealed::open(block.reference(), range_in_block(&new), bytes)?;
        if new.length != old.length || sealed::content_checksum(&pieces) != *sum {
            return Err(differs());
        }
    }
    Ok(())
}

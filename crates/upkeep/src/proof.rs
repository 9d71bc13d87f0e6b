//! That what was copied into a new block is what was read from the old ones.

use std::collections::BTreeMap;
use std::ops::Range;

use block::{BlockRef, SealedBlock, sealed};
use layout::Relocation;
use record::{BlockId, Slice};
use session::VolumeError;

/// The checksum of a slice's bytes, as they were read from its old block.
pub(crate) type Proof = (Slice, u32);

/// Where a slice's bytes lie in its block.
pub(crate) fn of(slice: &Slice) -> Range<u32> {
    slice.offset..slice.offset.saturating_add(slice.length)
}

/// What says where the runs of other blocks lie in this one.
pub(crate) fn relocation(
    block: &SealedBlock,
    runs: BTreeMap<BlockId, Vec<(Range<u32>, u32)>>,
) -> Relocation {
    let BlockRef { id, length, crc32c } = block.reference();
    Relocation { block: id, block_length: length, block_crc32c: crc32c, runs }
}

/// That each slice's new place in a sealed block holds the bytes that its old place held.
pub(crate) fn prove(
    block: &SealedBlock,
    placed: &Relocation,
    proofs: &[Proof],
) -> Result<(), VolumeError> {
    let sealed_bytes = block.to_bytes();
    for (old, sum) in proofs {
        let differs = || {
            let Slice { block, offset, .. } = old;
            VolumeError::Corrupt(format!("what was copied from {offset} of block {block} differs"))
        };
        let new = placed.locate(old).ok_or_else(differs)?;
        let span = sealed::span(block.length(), of(&new));
        let place =
            usize::try_from(span.bytes.start).ok().zip(usize::try_from(span.bytes.end).ok());
        let bytes = place.and_then(|(start, end)| sealed_bytes.get(start..end));
        let bytes = sealed_bytes.slice_ref(bytes.ok_or_else(differs)?);
        let pieces = sealed::open(block.reference(), of(&new), bytes)?;
        if new.length != old.length || sealed::content_checksum(&pieces) != *sum {
            return Err(differs());
        }
    }
    Ok(())
}

//! Copies the bytes of a batch into a new block, and verifies the copy.
//!
//! For example, two runs of one block that are 20 KiB apart are read with one request, and are
//! placed apart in the copy, in the order of the file. If a copy was placed 1 byte too far, its
//! checksum differs, and the move fails before any record references the new block.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use block::{
    BlockError, BlockErrorKind, BlockReader, BlockRef, SealedBlock, Sealer, UncachedReader, sealed,
};
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use layout::Relocation;
use record::{BlockId, Ino, Slice};
use session::VolumeError;
use tracing::warn;

use super::batch::{Batch, READS_AT_ONCE, Span, place, range_in_block};
use crate::upkeep::Upkeep;

/// A new block, which was not put, and the places of the copied bytes in it.
#[derive(Debug)]
pub(super) struct Copy {
    pub(super) block: SealedBlock,
    pub(super) to: Relocation,
    /// The new slices of contents that were staged inline.
    pub(super) bodies: BTreeMap<Ino, Slice>,
    /// Bytes of blocks that were read and are to be written.
    pub(super) traffic: u64,
}

/// The bytes of a batch's slices at their places in the new block, each old slice with the checksum
/// of its bytes as they were read, and the number of bytes that were read.
type ReadSlices = (BytesMut, Vec<(Slice, u32)>, u64);

impl Upkeep {
    /// Copies the bytes of a batch into one sealed block, and verifies the copy. Breaks with the id
    /// of a block that cannot be read.
    pub(super) async fn copy(
        &self,
        batch: &Batch,
    ) -> Result<ControlFlow<BlockId, Copy>, VolumeError> {
        let ring = match &batch.protection {
            Some(protection) => self.rings.current(protection).await?,
            None => None,
        };
        let (runs, bytes) = place(batch.slices());
        let sealer = if batch.is_pack {
            self.staging.pack_sealer(ring, bytes)
        } else {
            self.staging.sealer(ring, bytes)
        };
        let to = Relocation { block: sealer.id(), block_length: 0, block_crc32c: 0, runs };
        Ok(match self.read_slices(batch, &to, bytes).await? {
            ControlFlow::Continue(read) => ControlFlow::Continue(seal(batch, sealer, to, read)?),
            ControlFlow::Break(damaged) => ControlFlow::Break(damaged),
        })
    }

    async fn read_slices(
        &self,
        batch: &Batch,
        to: &Relocation,
        bytes: u32,
    ) -> Result<ControlFlow<BlockId, ReadSlices>, VolumeError> {
        let (mut copy, mut sums, mut traffic) = (BytesMut::zeroed(bytes as usize), Vec::new(), 0);
        let reads = batch.spans().into_iter().map(|span| async {
            let read = self.read_span(batch, &span).await;
            (span, read)
        });
        // The reads come back in the order of the old blocks, but each run has a fixed place in the
        // copy, so the copy is filled in any order.
        let at_once = if batch.reads_whole { 1 } else { READS_AT_ONCE };
        let mut reads = stream::iter(reads.collect::<Vec<_>>()).buffered(at_once);
        while let Some((span, read)) = reads.next().await {
            let block = span.block.id;
            let pieces = match read {
                Ok(pieces) => pieces,
                Err(error) if error.kind() == BlockErrorKind::Unavailable => {
                    return Err(error.into());
                }
                Err(error) => {
                    warn!(%block, %error, "a block cannot be read; its bytes are not moved");
                    return Ok(ControlFlow::Break(block));
                }
            };
            traffic += u64::from(span.range.end - span.range.start);
            for slice in span.slices {
                let at = (slice.offset - span.range.start) as usize;
                let found = cut(&pieces, &(at..at + slice.length as usize));
                let bytes: usize = found.iter().map(Bytes::len).sum();
                let Some(new) = to.locate(&slice).filter(|new| bytes == new.length as usize) else {
                    let why = format!("block {block} is shorter than its record says");
                    return Err(VolumeError::Corrupt(why));
                };
                let mut place = new.offset as usize;
                for piece in &found {
                    copy[place..place + piece.len()].copy_from_slice(piece);
                    place += piece.len();
                }
                // The checksum is taken from the bytes as read, so that `verify` detects an error
                // of this copy.
                sums.push((slice, sealed::content_checksum(&found)));
            }
            tokio::task::consume_budget().await;
        }
        Ok(ControlFlow::Continue((copy, sums, traffic)))
    }

    /// Reads a range of a block, verified, in pieces.
    async fn read_span(&self, batch: &Batch, span: &Span) -> Result<Vec<Bytes>, BlockError> {
        let traffic = &self.staging.traffic;
        // The old pages of a pack must not displace others in the cache, because no file will name
        // them soon.
        let uncached = UncachedReader::new(Arc::clone(&self.blocks));
        let reading = if batch.reads_whole {
            traffic.gets.add(1);
            uncached.read(span.block, span.range.clone())
        } else {
            self.staging.reader.read(span.block, span.range.clone())
        };
        let read = tokio::time::timeout(self.staging.deadlines.block, reading).await;
        traffic.second_gets.add(uncached.second_reads());
        let pieces = read.map_err(|late| {
            let doing = format!("reading block {}", span.block.id);
            BlockError::with_cause(BlockErrorKind::Unavailable, doing, late)
        })??;
        if batch.reads_whole {
            traffic.got_bytes.add(u64::from(span.block.length));
        }
        Ok(pieces)
    }
}

/// Returns a range of content that is given in pieces.
fn cut(pieces: &[Bytes], range: &Range<usize>) -> Vec<Bytes> {
    let mut place = 0;
    let within = |piece: &Bytes| {
        let [from, to] =
            [range.start, range.end].map(|it| it.saturating_sub(place).min(piece.len()));
        place += piece.len();
        (from < to).then(|| piece.slice(from..to))
    };
    pieces.iter().filter_map(within).collect()
}

/// Seals the copied bytes of a batch, and its contents that were staged inline, in one block, and
/// verifies all of them there.
fn seal(
    batch: &Batch,
    mut sealer: Sealer,
    mut to: Relocation,
    (bytes, sums, mut traffic): ReadSlices,
) -> Result<Copy, VolumeError> {
    sealer.push(bytes.freeze());
    let mut places = Vec::new();
    for (ino, owner) in &batch.owners {
        if let Some(body) = &owner.body {
            let offset = sealer.len();
            sealer.push(body.clone());
            let sum = sealed::content_checksum(std::slice::from_ref(body));
            places.push((*ino, offset, sealer.len() - offset, sum));
        }
    }
    let block = sealer.finish();
    let BlockRef { length: block_length, crc32c: block_crc32c, .. } = block.reference();
    (to.block_length, to.block_crc32c) = (block_length, block_crc32c);
    let (mut bodies, mut checks) = (BTreeMap::new(), Vec::new());
    for (ino, offset, length, sum) in places {
        let slice =
            Slice { position: 0, block: to.block, block_length, block_crc32c, offset, length };
        bodies.insert(ino, slice);
        checks.push((slice, sum));
    }
    for (old, sum) in sums {
        let lost = || VolumeError::Corrupt(format!("a run of block {} was not copied", old.block));
        checks.push((to.locate(&old).ok_or_else(lost)?, sum));
    }
    verify(&block, &checks)?;
    traffic += u64::from(block_length);
    Ok(Copy { block, to, bodies, traffic })
}

/// Verifies that slices of the new block hold bytes with the given checksums.
///
/// # Errors
/// Fails with `Corrupt` if one does not.
fn verify(block: &SealedBlock, checks: &[(Slice, u32)]) -> Result<(), VolumeError> {
    let sealed_bytes = block.to_bytes();
    for (new, sum) in checks {
        let differs = || {
            let Slice { block, offset, .. } = new;
            let why = format!("the copy at {offset} of block {block} differs from the original");
            VolumeError::Corrupt(why)
        };
        let span = sealed::span(block.length(), range_in_block(new));
        let place =
            usize::try_from(span.bytes.start).ok().zip(usize::try_from(span.bytes.end).ok());
        let bytes = place.and_then(|(start, end)| sealed_bytes.get(start..end));
        let bytes = sealed_bytes.slice_ref(bytes.ok_or_else(differs)?);
        // The sealed bytes are opened as a reader would open them, so the checksums of the new
        // block are verified, too.
        let pieces = sealed::open(block.reference(), range_in_block(new), bytes)?;
        if sealed::content_checksum(&pieces) != *sum {
            return Err(differs());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

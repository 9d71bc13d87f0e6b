//! Copies runs of many blocks into a new block.
//!
//! For example, two runs of one block that are 20 KiB apart are read with one request, and are
//! placed apart in the copy, in the order of the file.

use std::collections::BTreeMap;
use std::ops::Range;

use block::{BlockErrorKind, BlockRef, SealedBlock, Sealer, sealed};
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use layout::Relocation;
use record::{BlockId, Slice};
use session::VolumeError;
use tracing::warn;

use super::collect::Batch;
use crate::upkeep::Upkeep;
use crate::verification::{SliceChecksum, range_in_block, relocation, verify_copies};

/// Runs of a block with at most this many bytes between them are read together.
const GAP_BYTES_MAX: u32 = 64 << 10;

/// The most bytes that are read together, unless one run is longer.
const SPAN_BYTES_MAX: u32 = 1 << 20;

/// Reads under way at the same time.
const READS_AT_ONCE: usize = 4;

/// The memory of the reads under way, in bytes.
const SPANS_MEMORY: u64 = READS_AT_ONCE as u64 * SPAN_BYTES_MAX as u64;

/// Returns the memory in bytes that copying a batch of runs takes: the copy, the sealed block, and
/// the reads under way.
pub(super) fn memory_for(batch: &Batch) -> u64 {
    u64::from(batch.bytes) * 2 + SPANS_MEMORY
}

/// The result of copying a batch of runs into a new block.
#[derive(Debug)]
pub(super) enum Copied {
    /// The new block, which has not been put, and the places of the runs in it.
    Sealed(SealedBlock, Relocation),
    /// This block cannot be read.
    Damaged(BlockId),
}

/// Runs of one block that are read together, each with its place in the copy.
#[derive(Debug)]
struct Span {
    block: BlockRef,
    range: Range<u32>,
    runs: Vec<(Slice, u32)>,
}

impl Upkeep {
    /// Copies the runs of a batch (pieces of a file in several blocks), in its order, into one
    /// block.
    pub(super) async fn copy_batch(&self, batch: &Batch) -> Result<Copied, VolumeError> {
        let mut copy = BytesMut::zeroed(batch.bytes as usize);
        let (mut runs, mut checksums) =
            (BTreeMap::<BlockId, Vec<_>>::new(), Vec::<SliceChecksum>::new());
        let reads = spans(&batch.taken).into_iter().map(|span| async {
            let read = self.staging.reader.read(span.block, span.range.clone()).await;
            (span, read)
        });
        // The reads come back in the order of the old blocks, but each run has a fixed place in the
        // copy, so the copy is filled in any order.
        let mut reads = stream::iter(reads.collect::<Vec<_>>()).buffered(READS_AT_ONCE);
        while let Some((span, read)) = reads.next().await {
            let block = span.block.id;
            let pieces = match read {
                Ok(pieces) => pieces,
                Err(error) if error.kind() == BlockErrorKind::Unavailable => {
                    return Err(error.into());
                }
                Err(error) => {
                    warn!(%block, %error, "a block cannot be read; its runs are not moved");
                    return Ok(Copied::Damaged(block));
                }
            };
            let bytes = Bytes::from(pieces.concat());
            for (slice, place) in span.runs {
                let at = (slice.offset - span.range.start) as usize;
                let (run, length) = (range_in_block(&slice), slice.length as usize);
                let short = || {
                    VolumeError::Corrupt(format!("block {block} is shorter than its record says"))
                };
                let found = (at + length <= bytes.len()).then(|| bytes.slice(at..at + length));
                let found = found.ok_or_else(short)?;
                copy[place as usize..place as usize + length].copy_from_slice(&found);
                // The checksum is taken from the bytes as read, so that `verify_copies` detects an
                // error of this copy.
                checksums.push((slice, sealed::content_checksum(&[found])));
                runs.entry(block).or_default().push((run, place));
            }
            tokio::task::consume_budget().await;
        }
        // An ordinary block id: the file is the block's only owner.
        let mut sealer = Sealer::new(self.staging.ids.allocate(), batch.bytes);
        sealer.push(copy.freeze());
        let block = sealer.finish();
        let to = relocation(&block, runs);
        verify_copies(&block, &to, &checksums)?;
        Ok(Copied::Sealed(block, to))
    }
}

/// Returns the ranges of blocks to read for these runs, sorted by block and offset.
fn spans(taken: &[Slice]) -> Vec<Span> {
    let mut place = 0;
    let mut runs: Vec<(Slice, u32)> = Vec::with_capacity(taken.len());
    for slice in taken {
        runs.push((*slice, place));
        place += slice.length;
    }
    // Sorting by block and offset makes close runs of a block neighbours, which one read covers.
    runs.sort_unstable_by_key(|(slice, _)| (slice.block, slice.offset));
    let mut spans: Vec<Span> = Vec::new();
    for (slice, place) in runs {
        let range = range_in_block(&slice);
        match spans.last_mut() {
            Some(span) if span.takes(&slice) => {
                span.range.end = range.end;
                span.runs.push((slice, place));
            }
            _ => {
                let Slice { block: id, block_length: length, block_crc32c: crc32c, .. } = slice;
                let block = BlockRef { id, length, crc32c };
                spans.push(Span { block, range, runs: vec![(slice, place)] });
            }
        }
    }
    spans
}

impl Span {
    /// Returns true if a run, which follows all others of its block, is read together with them in
    /// one request.
    fn takes(&self, slice: &Slice) -> bool {
        let run = range_in_block(slice);
        self.block.id == slice.block
            && run.start.saturating_sub(self.range.end) <= GAP_BYTES_MAX
            && run.end - self.range.start <= SPAN_BYTES_MAX
    }
}

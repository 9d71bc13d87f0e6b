//! Copying runs of many blocks into a new one.

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
use crate::proof::{Proof, of, prove, relocation};
use crate::upkeep::Upkeep;

/// Runs of a block that lie no farther apart are read together.
const GAP_BYTES_MAX: u32 = 64 << 10;

/// The most bytes that are read together, unless one run is longer.
const SPAN_BYTES_MAX: u32 = 1 << 20;

/// Reads under way at the same time.
const READS_AT_ONCE: usize = 4;

/// Memory for what is being read.
const SPANS_MEMORY: u64 = READS_AT_ONCE as u64 * SPAN_BYTES_MAX as u64;

/// Memory that it takes to copy a batch: the copy, the sealed block, and what is being read.
pub(super) fn memory_for(batch: &Batch) -> u64 {
    u64::from(batch.bytes) * 2 + SPANS_MEMORY
}

/// What a batch came to.
#[derive(Debug)]
pub(super) enum Copied {
    /// A block that is not put yet, and where everything lies in it.
    Sealed(SealedBlock, Relocation),
    /// This one cannot be read.
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
    /// Copies a batch, in its order, into one block.
    pub(super) async fn copy_batch(&self, batch: &Batch) -> Result<Copied, VolumeError> {
        let mut copy = BytesMut::zeroed(batch.bytes as usize);
        let (mut runs, mut proofs) = (BTreeMap::<BlockId, Vec<_>>::new(), Vec::<Proof>::new());
        let reads = spans(&batch.taken).into_iter().map(|span| async {
            let read = self.staging.reader.read(span.block, span.range.clone()).await;
            (span, read)
        });
        let mut reads = stream::iter(reads.collect::<Vec<_>>()).buffered(READS_AT_ONCE);
        while let Some((span, read)) = reads.next().await {
            let block = span.block.id;
            let pieces = match read {
                Ok(pieces) => pieces,
                Err(error) if error.kind() == BlockErrorKind::Unavailable => {
                    return Err(error.into());
                }
                Err(error) => {
                    warn!(%block, %error, "a block cannot be read; what shows of it stays in it");
                    return Ok(Copied::Damaged(block));
                }
            };
            let bytes = Bytes::from(pieces.concat());
            for (slice, place) in span.runs {
                let at = (slice.offset - span.range.start) as usize;
                let (run, length) = (of(&slice), slice.length as usize);
                let short = || VolumeError::Corrupt(format!("block {block} ends too early"));
                let found = (at + length <= bytes.len()).then(|| bytes.slice(at..at + length));
                let found = found.ok_or_else(short)?;
                copy[place as usize..place as usize + length].copy_from_slice(&found);
                proofs.push((slice, sealed::content_checksum(&[found])));
                runs.entry(block).or_default().push((run, place));
            }
            tokio::task::consume_budget().await;
        }
        let mut sealer = Sealer::new(self.staging.ids.draw(), batch.bytes);
        sealer.push(copy.freeze());
        let block = sealer.finish();
        let to = relocation(&block, runs);
        prove(&block, &to, &proofs)?;
        Ok(Copied::Sealed(block, to))
    }
}

/// What is to be read, block by block, and in the order of each.
fn spans(taken: &[Slice]) -> Vec<Span> {
    let mut place = 0;
    let mut runs: Vec<(Slice, u32)> = Vec::with_capacity(taken.len());
    for slice in taken {
        runs.push((*slice, place));
        place += slice.length;
    }
    runs.sort_unstable_by_key(|(slice, _)| (slice.block, slice.offset));
    let mut spans: Vec<Span> = Vec::new();
    for (slice, place) in runs {
        let range = of(&slice);
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
    /// Whether a run, which lies behind all others of its block, is read with them.
    fn takes(&self, slice: &Slice) -> bool {
        let run = of(slice);
        self.block.id == slice.block
            && run.start.saturating_sub(self.range.end) <= GAP_BYTES_MAX
            && run.end - self.range.start <= SPAN_BYTES_MAX
    }
}

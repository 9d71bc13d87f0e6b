//! One new pack: what goes in, how it is made and proved, and who moves to it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use block::{BlockError, BlockErrorKind, BlockRef, SUB_BLOCK_BYTES, SealedBlock, Sealer, sealed};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use layout::Relocation;
use record::{BlockId, Ino, Slice, key};
use session::scan::ino_of;
use session::{Outcome, ReaderGuard, VolumeError, closing, value};
use store::Read;
use tracing::warn;

use super::batch::{Batch, Look, PackOwner, Source, Swap, look};
use crate::proof::{Proof, of, prove, relocation};
use crate::sparse::is_sparse;
use crate::upkeep::Upkeep;

/// The most owners that one round moves. A pack that has more is left as it is.
const OWNERS_MAX: u32 = 4_096;

/// Owners that one round trip reads.
const OWNERS_AT_ONCE: usize = 512;

/// Packs that one round looks at.
const LOOKS_MAX: u32 = 1_024;

/// Swaps under way at the same time.
const SWAPS_AT_ONCE: usize = 64;

/// What the rewriter did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repacked {
    /// Sparse packs that were rewritten.
    pub packs: u64,
    /// Bytes of files that were moved.
    pub bytes: u64,
    /// Sparse packs that were left alone.
    pub left: u64,
    /// Owners that were not moved because they changed meanwhile.
    pub refused: u64,
}

impl Repacked {
    /// Counts what was done besides.
    pub(super) fn add(&mut self, more: Repacked) {
        self.packs += more.packs;
        self.bytes += more.bytes;
        self.left += more.left;
        self.refused += more.refused;
    }
}

/// What one round did.
#[derive(Clone, Copy, Debug, Default)]
pub struct RepackRound {
    /// What was rewritten.
    pub done: Repacked,
    /// Bytes read and written.
    pub traffic: u64,
}

impl Upkeep {
    /// Fills one new pack from those that were noted; `None` if none is noted. What should be
    /// looked at again later goes into `again`.
    pub async fn repack_some(
        &self,
        again: &mut BTreeSet<BlockId>,
    ) -> Result<Option<RepackRound>, VolumeError> {
        let _one = self.repacking.round.lock().await;
        // From before the new pack is put until the outcome of the last swap is known: see the
        // reaper's `release`. Besides, it keeps what is found alive now until it has been read.
        let reading = self.session.reading();
        let mut round = RepackRound::default();
        let Some(batch) = self.collect_batch(&mut round, again).await? else { return Ok(None) };
        if !batch.sources.is_empty() {
            let rewritten = self.rewrite(&batch, &reading, &mut round, again).await;
            if rewritten.is_err() {
                again.extend(batch.sources.iter().map(|source| source.block.id));
            }
            rewritten?;
        }
        self.meters.packs_rewritten.add(round.done.packs);
        self.meters.bytes_repacked.add(round.done.bytes);
        self.meters.packs_left.add(round.done.left);
        Ok(Some(round))
    }

    /// As many sparse packs as one new pack has room for.
    async fn collect_batch(
        &self,
        round: &mut RepackRound,
        again: &mut BTreeSet<BlockId>,
    ) -> Result<Option<Batch>, VolumeError> {
        let (mut batch, mut looks) = (Batch::default(), 0);
        while looks < LOOKS_MAX
            && let Some(pack) = self.repacking.next()
        {
            looks += 1;
            if self.session.closing().is_cancelled() {
                return Err(closing());
            }
            match self.look_at(pack).await {
                Ok(Look::Fine) => {}
                Ok(Look::Fixed(paged)) => {
                    round.done.left += 1;
                    self.note_hidden(paged);
                }
                Ok(Look::Sparse(source)) => {
                    let room = self.repacking.pack_bytes.saturating_sub(batch.bytes);
                    let owners = batch.owners() + source.owners();
                    let fits = source.bytes <= room && owners <= OWNERS_MAX as usize;
                    if !batch.sources.is_empty() && !fits {
                        self.repacking.put_back(pack);
                        break;
                    }
                    if batch.add(source).is_err() {
                        again.insert(pack);
                    }
                }
                Err(error) => {
                    again.insert(pack);
                    again.extend(batch.sources.iter().map(|source| source.block.id));
                    return Err(error);
                }
            }
        }
        Ok((looks > 0).then_some(batch))
    }

    /// Reads who owns a pack, and what of it.
    async fn look_at(&self, pack: BlockId) -> Result<Look, VolumeError> {
        let (start, end) = key::shares(pack);
        let limit = OWNERS_MAX.min(self.session.limits().range_records);
        let shares = self.read_range(start, end, limit).await?;
        if shares.len() >= limit as usize {
            return Ok(Look::Fixed(Vec::new()));
        }
        let inos = shares.iter().map(|share| ino_of(&share.key));
        let inos = inos.collect::<Result<Vec<Ino>, _>>()?;
        let mut owners = Vec::with_capacity(inos.len());
        let at_once = OWNERS_AT_ONCE.min(self.session.limits().reads / 2).max(1);
        for inos in inos.chunks(at_once) {
            let record = |key| Read::Record { key, follow: None };
            let both = |ino| [record(key::inode(ino)), record(key::orphan(ino))];
            let reads: Vec<Read> = inos.iter().flat_map(|ino| both(*ino)).collect();
            let found = self.session.store().read(&reads).await?;
            owners.extend(inos.iter().zip(found.chunks(2)).map(|(ino, found)| PackOwner {
                ino: *ino,
                record: value(found.first()),
                leaving: value(found.get(1)).is_some(),
            }));
        }
        Ok(look(pack, owners).unwrap_or_else(|error| {
            warn!(block = %pack, %error, "an owner of a sparse pack cannot be read");
            Look::Fixed(Vec::new())
        }))
    }

    /// Makes the new pack, puts it, and moves the owners.
    async fn rewrite(
        &self,
        batch: &Batch,
        reading: &ReaderGuard,
        round: &mut RepackRound,
        again: &mut BTreeSet<BlockId>,
    ) -> Result<(), VolumeError> {
        let longest = batch.sources.iter().map(|source| source.block.length).max();
        let memory = u64::from(batch.bytes) + u64::from(longest.unwrap_or(0));
        let patience = self.staging.deadlines.block;
        let _permit = self.staging.budget.acquire(memory, patience).await?;
        let Some((block, placed)) = self.fill(batch, round).await? else { return Ok(()) };
        let swaps = batch.swaps(&placed);
        let orphans =
            self.session.allocate_inodes(swaps.iter().map(|swap| swap.left.len()).sum()).await?;
        self.put_pack(&block).await?;
        round.traffic += u64::from(block.length());
        let swapped = self.swap(&swaps, &orphans, reading).await;
        round.done.refused += swapped.refused;
        again.extend(swapped.stayed);
        if swapped.bytes > 0 {
            round.done.bytes += swapped.bytes;
            round.done.packs += placed.runs.len() as u64;
            self.session.wake_reaper();
            if is_sparse(swapped.bytes, block.length()) {
                again.insert(block.id());
            }
        } else if swapped.settled {
            // No plan that names it can be committed any more.
            self.delete_pack(block.id()).await;
        }
        swapped.error.map_or(Ok(()), Err)
    }

    /// Seals what is alive of the packs into one block. None if none of them can be read.
    async fn fill(
        &self,
        batch: &Batch,
        round: &mut RepackRound,
    ) -> Result<Option<(SealedBlock, Relocation)>, VolumeError> {
        let mut sealer = Sealer::new(self.staging.ids.draw_pack(), batch.bytes);
        let (mut runs, mut proofs): (_, Vec<Proof>) = (BTreeMap::new(), Vec::new());
        for source in &batch.sources {
            let Source { block, .. } = source;
            let pieces = match self.read_pack(*block).await {
                Ok(pieces) => pieces,
                Err(error) if error.kind() == BlockErrorKind::Unavailable => {
                    return Err(error.into());
                }
                Err(error) => {
                    warn!(block = %block.id, %error, "a sparse pack cannot be read; it is left");
                    round.done.left += 1;
                    continue;
                }
            };
            round.traffic += u64::from(block.length);
            let sum = |slice: &Slice| (*slice, sealed::content_checksum(&cut(&pieces, &of(slice))));
            proofs.extend(source.slices().map(sum));
            let mut placed = Vec::with_capacity(source.runs.len());
            for run in &source.runs {
                placed.push((run.clone(), sealer.len()));
                cut(&pieces, run).into_iter().for_each(|piece| sealer.push(piece));
            }
            runs.insert(block.id, placed);
            tokio::task::consume_budget().await;
        }
        if sealer.is_empty() {
            return Ok(None);
        }
        let block = sealer.finish();
        let placed = relocation(&block, runs);
        prove(&block, &placed, &proofs)?;
        Ok(Some((block, placed)))
    }

    /// The whole content of a pack, verified, in pieces of one sub-block each.
    async fn read_pack(&self, block: BlockRef) -> Result<Vec<Bytes>, BlockError> {
        match self.read_pack_once(block).await {
            // A cache in between may have given wrong bytes.
            Err(error) if error.kind() == BlockErrorKind::Corrupt => {
                self.staging.traffic.second_gets.add(1);
                self.read_pack_once(block).await
            }
            first => first,
        }
    }

    async fn read_pack_once(&self, block: BlockRef) -> Result<Vec<Bytes>, BlockError> {
        let span = sealed::span(block.length, 0..block.length);
        self.staging.traffic.gets.add(1);
        let reading = self.blocks.get(block.id, span.bytes);
        let bytes = tokio::time::timeout(self.staging.deadlines.block, reading).await.map_err(
            |late| {
                let doing = format!("reading block {}", block.id);
                BlockError::because(BlockErrorKind::Unavailable, doing, late)
            },
        )??;
        let pieces = sealed::open(block, 0..block.length, bytes)?;
        self.staging.traffic.got_bytes.add(u64::from(block.length));
        Ok(pieces)
    }

    /// Returns when the pack is durable.
    pub(crate) async fn put_pack(&self, block: &SealedBlock) -> Result<(), VolumeError> {
        match tokio::time::timeout(self.staging.deadlines.block, self.blocks.put(block)).await {
            Ok(Ok(_)) => {
                self.staging.traffic.puts.add(1);
                self.staging.traffic.put_bytes.add(u64::from(block.length()));
                return Ok(());
            }
            // Other bytes have this id, and are not ours to delete.
            Ok(Err(error)) if error.kind() == BlockErrorKind::Conflict => {
                self.staging.traffic.conflicts.add(1);
                return Err(error.into());
            }
            Ok(Err(error)) => warn!(block = %block.id(), %error, "a new pack was not put"),
            Err(_late) => warn!(block = %block.id(), "a new pack was not put in time"),
        }
        self.staging.traffic.failed_puts.add(1);
        self.delete_pack(block.id()).await;
        // The put may happen yet.
        self.staging.late.note(block.id());
        Err(VolumeError::Unavailable(format!("block {} was not put", block.id())))
    }

    /// Deletes a pack that no record names. What cannot be deleted now is deleted later.
    pub(crate) async fn delete_pack(&self, id: BlockId) {
        match tokio::time::timeout(self.staging.deadlines.block, self.blocks.delete(id)).await {
            Ok(Ok(())) => self.staging.traffic.abandoned.add(1),
            Ok(Err(_)) | Err(_) => {
                self.staging.traffic.left_behind.add(1);
                let again = self.staging.late.note(id);
                warn!(block = %id, again, "a new pack that nobody names could not be deleted");
            }
        }
    }

    /// Moves owners to a pack that is durable.
    async fn swap(&self, swaps: &[Swap], orphans: &[Ino], reading: &ReaderGuard) -> Swapped {
        let (mut plans, mut rest) = (Vec::with_capacity(swaps.len()), orphans);
        for swap in swaps {
            let (own, others) = rest.split_at_checked(swap.left.len()).unwrap_or_default();
            plans.push(swap.plan(own));
            rest = others;
        }
        let outcomes: Vec<Outcome> = stream::iter(plans)
            .map(|plan| async { self.session.commit_reading(plan, reading.clone()).await })
            .buffered(SWAPS_AT_ONCE)
            .collect()
            .await;
        let mut swapped = Swapped { settled: true, ..Swapped::default() };
        for (swap, outcome) in swaps.iter().zip(outcomes) {
            match outcome {
                Outcome::Committed => {
                    swapped.bytes += swap.bytes();
                    continue;
                }
                Outcome::Refused { .. } | Outcome::Aborted(_) => swapped.refused += 1,
                Outcome::Failed(error) => {
                    swapped.settled &= !matches!(error, VolumeError::Unknown(_));
                    swapped.error = Some(error);
                }
            }
            swapped.stayed.extend(swap.left.keys());
        }
        swapped
    }
}

/// What became of the owners.
#[derive(Debug, Default)]
struct Swapped {
    /// Bytes moved.
    bytes: u64,
    /// Owners that were not moved because they changed meanwhile.
    refused: u64,
    /// Old packs that have such owners.
    stayed: BTreeSet<BlockId>,
    /// Whether it is certain of each whether it was moved.
    settled: bool,
    error: Option<VolumeError>,
}

/// A range of content that comes in pieces of one sub-block each.
fn cut(pieces: &[Bytes], range: &Range<u32>) -> Vec<Bytes> {
    let first = range.start / SUB_BLOCK_BYTES;
    let within = |(index, piece): (u32, &Bytes)| {
        let place = index.saturating_mul(SUB_BLOCK_BYTES);
        let from = range.start.saturating_sub(place) as usize;
        let to = (range.end.saturating_sub(place) as usize).min(piece.len());
        (from < to).then(|| piece.slice(from..to))
    };
    (first..).zip(pieces.iter().skip(first as usize)).map_while(within).collect()
}

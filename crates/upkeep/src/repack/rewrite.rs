//! One round of the rewriter: fills a new pack, verifies and puts it, and moves the owners.
//!
//! For example, a round takes five sparse packs from the queue, copies 6 MiB of live bytes, and
//! swaps the inodes of 80 files.

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

use super::batch::{Batch, PackOwner, PackState, Source, Swap, classify};
use crate::repack_queue::is_sparse;
use crate::upkeep::Upkeep;
use crate::verification::{SliceChecksum, range_in_block, relocation, verify_copies};

/// The most owners (files) that one round of the rewriter moves. A pack with more owners is left as
/// it is.
const OWNERS_MAX: u32 = 4_096;

/// Owners whose records one round trip reads.
const OWNERS_AT_ONCE: usize = 512;

/// The most packs that one round of the rewriter looks at.
const LOOKS_MAX: u32 = 1_024;

/// Owners whose inodes are changed to the new pack at the same time.
const SWAPS_AT_ONCE: usize = 64;

/// The result of rewriting packs (blocks of several files) of which less than half was live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repacked {
    /// Sparse packs that were rewritten.
    pub packs: u64,
    /// Bytes of files that were moved.
    pub bytes: u64,
    /// Packs of which less than half is live that could not be rewritten.
    pub skipped: u64,
    /// Owners (files) that were not moved because they changed meanwhile.
    pub refused: u64,
}

impl Repacked {
    /// Adds the counts of another round.
    pub(super) fn add(&mut self, more: Repacked) {
        self.packs += more.packs;
        self.bytes += more.bytes;
        self.skipped += more.skipped;
        self.refused += more.refused;
    }
}

/// The result of one round of the rewriter, which fills one new pack.
#[derive(Clone, Copy, Debug, Default)]
pub struct RepackRound {
    /// The packs, bytes and owners that were moved or not.
    pub done: Repacked,
    /// Bytes that were read and written.
    pub traffic: u64,
}

impl Upkeep {
    /// Fills one new pack with live bytes of queued packs (blocks of several files), and moves
    /// their owners to it. Returns `None` if no pack is queued. Adds the packs that are to be
    /// looked at again later to `again`.
    pub async fn repack_some(
        &self,
        again: &mut BTreeSet<BlockId>,
    ) -> Result<Option<RepackRound>, VolumeError> {
        let _one = self.repacking.round.lock().await;
        // The pin is held from before the put until the outcome of the last swap is known: see the
        // reaper's `release`. It also keeps the old packs until they have been read.
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
        self.meters.packs_left.add(round.done.skipped);
        Ok(Some(round))
    }

    /// Takes as many sparse packs (less than half is live) from the queue as fit into one new pack.
    /// Returns `None` if the queue is empty.
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
            match self.classify_pack(pack).await {
                Ok(PackState::Dense) => {}
                Ok(PackState::Immovable(paged)) => {
                    round.done.skipped += 1;
                    self.note_hidden(paged);
                }
                Ok(PackState::Sparse(source)) => {
                    let room = self.repacking.pack_bytes.saturating_sub(batch.bytes);
                    let owners = batch.owners() + source.owners();
                    // A single pack is always taken, even if it is longer than the configured size
                    // of a pack.
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

    /// Reads the owners of a pack (block of several files) and determines if it is sparse and if
    /// they can be moved.
    async fn classify_pack(&self, pack: BlockId) -> Result<PackState, VolumeError> {
        let (start, end) = key::shares(pack);
        let limit = OWNERS_MAX.min(self.session.limits().range_records);
        let shares = self.read_range(start, end, limit).await?;
        // More owners than one range returns: some may be unknown, so the pack is left as it is.
        if shares.len() >= limit as usize {
            return Ok(PackState::Immovable(Vec::new()));
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
        Ok(classify(pack, owners).unwrap_or_else(|error| {
            warn!(block = %pack, %error, "an owner of a sparse pack cannot be read; run fsck");
            PackState::Immovable(Vec::new())
        }))
    }

    /// Fills the new pack with the live bytes of a batch of old packs, puts it, and changes the
    /// owners' inodes to reference it.
    async fn rewrite(
        &self,
        batch: &Batch,
        reading: &ReaderGuard,
        round: &mut RepackRound,
        again: &mut BTreeSet<BlockId>,
    ) -> Result<(), VolumeError> {
        let longest = batch.sources.iter().map(|source| source.block.length).max();
        let memory = u64::from(batch.bytes) + u64::from(longest.unwrap_or(0));
        let timeout = self.staging.deadlines.block;
        let _permit = self.staging.budget.acquire(memory, timeout).await?;
        // Permits, orphan numbers and the put come before any swap, so that a failure leaves all
        // owners in place.
        let Some((block, placed)) = self.fill(batch, round).await? else { return Ok(()) };
        let swaps = batch.swaps(&placed);
        let orphans = self
            .session
            .allocate_inodes(swaps.iter().map(|swap| swap.left_packs.len()).sum())
            .await?;
        self.put_pack(&block).await?;
        round.traffic += u64::from(block.length());
        let swapped = self.swap(&swaps, &orphans, reading).await;
        round.done.refused += swapped.refused;
        again.extend(swapped.stayed);
        if swapped.bytes > 0 {
            round.done.bytes += swapped.bytes;
            round.done.packs += placed.runs.len() as u64;
            self.session.wake_reaper();
            // Refused owners left so many dead bytes in the new pack that it is sparse itself.
            if is_sparse(swapped.bytes, block.length()) {
                again.insert(block.id());
            }
        } else if swapped.settled {
            // No plan that references the new pack can be committed any more.
            self.delete_pack(block.id()).await;
        }
        swapped.error.map_or(Ok(()), Err)
    }

    /// Copies the live bytes of the packs into one sealed block. Returns `None` if none of the
    /// packs can be read.
    async fn fill(
        &self,
        batch: &Batch,
        round: &mut RepackRound,
    ) -> Result<Option<(SealedBlock, Relocation)>, VolumeError> {
        let mut sealer = Sealer::new(self.staging.ids.allocate_pack(), batch.bytes);
        let (mut runs, mut checksums): (_, Vec<SliceChecksum>) = (BTreeMap::new(), Vec::new());
        for source in &batch.sources {
            let Source { block, .. } = source;
            let pieces = match self.read_pack(*block).await {
                Ok(pieces) => pieces,
                Err(error) if error.kind() == BlockErrorKind::Unavailable => {
                    return Err(error.into());
                }
                Err(error) => {
                    warn!(block = %block.id, %error, "a sparse pack cannot be read; it is kept");
                    round.done.skipped += 1;
                    continue;
                }
            };
            round.traffic += u64::from(block.length);
            // The checksum of each slice is taken from the bytes as read, and compared with the new
            // block by `verify_copies`.
            let sum = |slice: &Slice| {
                (*slice, sealed::content_checksum(&cut(&pieces, &range_in_block(slice))))
            };
            checksums.extend(source.slices().map(sum));
            let mut placed = Vec::with_capacity(source.runs.len());
            for run in &source.runs {
                placed.push((run.clone(), sealer.len()));
                cut(&pieces, run).into_iter().for_each(|piece| sealer.push(piece));
            }
            runs.insert(block.id, placed);
            tokio::task::consume_budget().await;
        }
        // None of the packs could be read.
        if sealer.is_empty() {
            return Ok(None);
        }
        let block = sealer.finish();
        let placed = relocation(&block, runs);
        verify_copies(&block, &placed, &checksums)?;
        Ok(Some((block, placed)))
    }

    /// Reads the whole content of a pack, verified, in pieces of one sub-block each.
    async fn read_pack(&self, block: BlockRef) -> Result<Vec<Bytes>, BlockError> {
        match self.read_pack_once(block).await {
            // A cache between the gateway and the block store may have returned wrong bytes.
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
                BlockError::with_cause(BlockErrorKind::Unavailable, doing, late)
            },
        )??;
        let pieces = sealed::open(block, 0..block.length, bytes)?;
        self.staging.traffic.got_bytes.add(u64::from(block.length));
        Ok(pieces)
    }

    /// Puts a pack. Returns when it is durable.
    pub(crate) async fn put_pack(&self, block: &SealedBlock) -> Result<(), VolumeError> {
        match tokio::time::timeout(self.staging.deadlines.block, self.blocks.put(block)).await {
            Ok(Ok(_)) => {
                self.staging.traffic.puts.add(1);
                self.staging.traffic.put_bytes.add(u64::from(block.length()));
                return Ok(());
            }
            // Another writer's bytes have this id, so they must not be deleted.
            Ok(Err(error)) if error.kind() == BlockErrorKind::Conflict => {
                self.staging.traffic.conflicts.add(1);
                return Err(error.into());
            }
            Ok(Err(error)) => warn!(block = %block.id(), %error, "the put of a new pack failed"),
            Err(_late) => warn!(block = %block.id(), "the put of a new pack timed out"),
        }
        self.staging.traffic.failed_puts.add(1);
        self.delete_pack(block.id()).await;
        // The put may still be executed after the deletion.
        self.staging.late.note(block.id());
        Err(VolumeError::Unavailable(format!("the put of block {} failed", block.id())))
    }

    /// Deletes a pack that no record references. If that fails, it is deleted later.
    pub(crate) async fn delete_pack(&self, id: BlockId) {
        match tokio::time::timeout(self.staging.deadlines.block, self.blocks.delete(id)).await {
            Ok(Ok(())) => self.staging.traffic.abandoned.add(1),
            Ok(Err(_)) | Err(_) => {
                self.staging.traffic.left_behind.add(1);
                let again = self.staging.late.note(id);
                warn!(block = %id, again, "deleting an unused new pack failed");
            }
        }
    }

    /// Changes the inodes of owners to reference a new pack, which is durable. `orphans` has unused
    /// inode numbers for the orphan records of the old packs.
    async fn swap(&self, swaps: &[Swap], orphans: &[Ino], reading: &ReaderGuard) -> Swapped {
        let (mut plans, mut rest) = (Vec::with_capacity(swaps.len()), orphans);
        for swap in swaps {
            let (own, others) = rest.split_at_checked(swap.left_packs.len()).unwrap_or_default();
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
            swapped.stayed.extend(swap.left_packs.keys());
        }
        swapped
    }
}

/// The outcome of changing the owners' inodes to a new pack.
#[derive(Debug, Default)]
struct Swapped {
    /// Bytes that were moved.
    bytes: u64,
    /// Owners that were not moved because they changed meanwhile.
    refused: u64,
    /// The old packs of the owners that were not moved.
    stayed: BTreeSet<BlockId>,
    /// True if the outcome of every change is known.
    settled: bool,
    error: Option<VolumeError>,
}

/// Returns a range of content that is given in pieces of one sub-block each.
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

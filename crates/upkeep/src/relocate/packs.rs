//! Sparse packs: blocks of several files of which less than half is live.
//!
//! Their live bytes are copied into a new pack. If an owner changed meanwhile, it stays in the old
//! pack, which leaves dead bytes in the new one. For example, ten packs of 8 MiB with 1 MiB of live
//! bytes each become two new packs, and the ten old ones are deleted when their readers have ended.
//!
//! The counter of a pack only shows whether the pack is worth a look. The reaper queues packs that
//! its releases made sparse; the survey of the counters finds the others. A pack with an owner that
//! cannot be moved (a part of an upload) is left as it is. An owner whose content map is in pages
//! is left to the [policy for files](super::files); the other owners are moved after it has
//! released the pack.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use bytes::Bytes;
use keyring::Protection;
use record::{BlockId, Content, DecodeError, Ino, Inode, Slice, key, key::space};
use session::scan::{ino_of, slices_of};
use session::{VolumeError, closing};
use store::{CounterKey, Read, ReadResult, Value};
use tracing::warn;

use super::batch::{Batch, Owner, place};
use super::protect::protection;
use super::step::RelocationStep;
use crate::relocation_queue::{Policy, is_sparse};
use crate::upkeep::Upkeep;

/// The most owners (files) that one step moves. A pack with more owners is left as it is.
pub(super) const OWNERS_MAX: u32 = 4_096;

/// Owners whose records one round trip reads.
const OWNERS_AT_ONCE: usize = 512;

/// The most packs at which one step looks.
const LOOKS_MAX: u32 = 1_024;

/// Counters of live bytes on one page of the survey.
const WALK_COUNTERS: u32 = 1_000;

/// Packs about which one round trip asks.
const PACKS_AT_ONCE: usize = 256;

/// At least the default size of packs in every release, so that packs that were written with
/// another setting are found, too.
const PACK_BYTES_USUAL: u32 = 8 << 20;

/// An owner of a pack (a file or a part with bytes in a block of several), as read.
#[derive(Clone, Debug)]
pub(super) struct PackOwner {
    pub(super) ino: Ino,
    /// The record of the owner's inode; `None` for a part of an upload.
    pub(super) record: Option<Value>,
    /// True if the owner has lost its name, so that the reaper will release its share.
    pub(super) leaving: bool,
}

/// The state of a pack (a block of several files), on which its treatment depends.
#[derive(Debug)]
enum PackState {
    /// Enough of the pack is live (referenced), or none of it will be soon: nothing is done.
    Dense,
    /// The pack is sparse (less than half is live) and has owners that cannot be moved here. The
    /// given owners have content maps in pages, so the policy for files moves them.
    Immovable(Vec<Ino>),
    /// The pack is sparse (less than half is live), and all its owners can be moved.
    Sparse(Source),
}

/// A sparse pack, whose live bytes are to be moved.
#[derive(Debug)]
pub(super) struct Source {
    /// The number of its live (referenced) bytes.
    pub(super) bytes: u32,
    /// The protection of the new block.
    pub(super) protection: Protection,
    pub(super) owners: BTreeMap<Ino, Owner>,
}

/// Determines from all owners of a pack (a block of several files) if it is sparse and if its
/// owners can be moved. Fails if an owner's record cannot be decoded.
fn classify(pack: BlockId, found: Vec<PackOwner>) -> Result<PackState, DecodeError> {
    let (mut owners, mut fixed, mut paged) = (BTreeMap::new(), false, Vec::new());
    let mut protections = HashSet::new();
    for PackOwner { ino, record, .. } in found.into_iter().filter(|owner| !owner.leaving) {
        let Some(record) = record else {
            fixed = true;
            continue;
        };
        let inode = Inode::decode(&key::inode(ino), &record)?;
        if inode.file().is_some_and(|file| matches!(file.content, Content::Pages(_))) {
            paged.push(ino);
        }
        let named = slices_of(&inode).iter().filter(|slice| slice.block == pack);
        let slices: Vec<Slice> = named.copied().collect();
        // An owner that does not reference the pack any more was moved before. The reaper has yet
        // to remove its share.
        if !slices.is_empty() {
            let encryption = inode.file().and_then(|file| file.encryption.as_ref());
            protections.insert(protection(encryption, pack.is_secret()));
            owners.insert(ino, Owner { record: Some(record), body: None, slices });
        }
    }
    // All owners of a pack have one protection, because it has one ring key.
    let mut protections = protections.into_iter();
    let (protection, other) = (protections.next().flatten(), protections.next());
    fixed |= !paged.is_empty() || (protection.is_none() && !owners.is_empty()) || other.is_some();
    let slices = || owners.values().flat_map(|owner: &Owner| &owner.slices);
    let Some(first) = slices().next() else {
        return Ok(if fixed { PackState::Immovable(paged) } else { PackState::Dense });
    };
    let reference = |slice: &Slice| (slice.block_length, slice.block_crc32c);
    if slices().any(|slice| reference(slice) != reference(first)) {
        return Err(DecodeError::Field("block length"));
    }
    let (length, bytes) = (first.block_length, place(slices()).1);
    Ok(match protection.filter(|_| !fixed) {
        _ if !is_sparse(u64::from(bytes), length) => PackState::Dense,
        None => PackState::Immovable(paged),
        Some(protection) => PackState::Sparse(Source { bytes, protection, owners }),
    })
}

impl Batch {
    /// Adds the live bytes of a sparse pack. Returns false if the batch has one of its owners with
    /// an older record, because the two changes of that owner's inode would conflict, or if the
    /// batch has another protection.
    pub(super) fn add(&mut self, source: Source) -> bool {
        if !self.admits(&source.protection) {
            return false;
        }
        let before = |(ino, owner): (&Ino, &Owner)| {
            self.owners.get(ino).is_some_and(|known| known.record != owner.record)
        };
        if source.owners.iter().any(before) {
            return false;
        }
        for (ino, owner) in source.owners {
            self.owners
                .entry(ino)
                .and_modify(|known| known.slices.extend(&owner.slices))
                .or_insert(owner);
        }
        true
    }

    /// Returns the packs in which these files have bytes.
    fn packs_of(&self, inos: &BTreeSet<Ino>) -> impl Iterator<Item = BlockId> {
        let owners = inos.iter().filter_map(|ino| self.owners.get(ino));
        owners.flat_map(|owner| owner.slices.iter().map(|slice| slice.block))
    }
}

impl Upkeep {
    /// Queues packs (blocks of several files) for the relocator of which less than half may be
    /// live, that is, referenced.
    pub fn note_sparse_packs(&self, packs: impl IntoIterator<Item = BlockId>) {
        packs.into_iter().for_each(|pack| self.packs.note(pack));
    }

    /// Fills one new pack with live bytes of queued packs (blocks of several files), and moves
    /// their owners to it. Returns `None` if no pack is queued. Adds the packs that are to be
    /// looked at again later to `again`. Fails if a store cannot be reached.
    pub async fn repack_some(
        &self,
        again: &mut BTreeSet<BlockId>,
    ) -> Result<Option<RelocationStep>, VolumeError> {
        let _one = self.packs.step.lock().await;
        // The pin also keeps the old packs until they have been read.
        let reading = self.session.reading();
        let mut skipped = 0;
        let Some(mut batch) = self.collect_packs(&mut skipped, again).await? else {
            return Ok(None);
        };
        let packs = batch.blocks();
        let mut settled = self.relocate(&mut batch, &reading).await.inspect_err(|_| {
            again.extend(&packs);
        })?;
        again.extend(batch.packs_of(&settled.stayed));
        let done = &mut settled.step.done;
        done.sources = 0;
        done.skipped = skipped + settled.damaged.len() as u64;
        if let Some(block) = settled.block {
            done.sources = (packs.len() - settled.damaged.len()) as u64;
            // Owners that stayed left so many dead bytes in the new pack that it is sparse itself.
            if is_sparse(done.bytes, block.length) {
                again.insert(block.id);
            }
        }
        self.count(Policy::Repack, done);
        Ok(Some(settled.step))
    }

    /// Takes as many sparse packs (less than half is live) from the queue as fit into one new pack.
    /// Returns `None` if the queue is empty.
    async fn collect_packs(
        &self,
        skipped: &mut u64,
        again: &mut BTreeSet<BlockId>,
    ) -> Result<Option<Batch>, VolumeError> {
        let (mut batch, mut bytes, mut looks) = (Batch::for_pack(), 0_u32, 0);
        while looks < LOOKS_MAX
            && let Some((pack, note)) = self.packs.take_due(None)
        {
            looks += 1;
            if self.session.closing().is_cancelled() {
                return Err(closing());
            }
            match self.classify_pack(pack).await {
                Ok(PackState::Dense) => {}
                Ok(PackState::Immovable(paged)) => {
                    *skipped += 1;
                    paged.into_iter().for_each(|ino| self.files.note(ino));
                }
                Ok(PackState::Sparse(source)) => {
                    let owners = batch.owners.len() + source.owners.len();
                    let after = bytes.saturating_add(source.bytes);
                    // A single pack is always taken, even if it is longer than the configured size
                    // of a pack.
                    let fits = after <= self.pack_bytes && owners <= OWNERS_MAX as usize;
                    if bytes > 0 && !fits {
                        self.packs.note_for_later(pack, note);
                        break;
                    }
                    if batch.add(source) {
                        bytes = after;
                    } else {
                        again.insert(pack);
                    }
                }
                Err(error) => {
                    again.insert(pack);
                    again.extend(batch.blocks());
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
        let owners = self.read_owners(&inos).await?;
        Ok(classify(pack, owners).unwrap_or_else(|error| {
            warn!(block = %pack, %error, "an owner of a sparse pack cannot be read; run fsck");
            PackState::Immovable(Vec::new())
        }))
    }

    /// Reads the records of owners of a pack (block of several files).
    pub(super) async fn read_owners(&self, inos: &[Ino]) -> Result<Vec<PackOwner>, VolumeError> {
        let mut owners = Vec::with_capacity(inos.len());
        for inos in inos.chunks(OWNERS_AT_ONCE.min(self.session.limits().reads / 2).max(1)) {
            let both = inos.iter().flat_map(|ino| [key::inode(*ino), key::orphan(*ino)]);
            let found = self.read_all(both).await?;
            owners.extend(inos.iter().zip(found.chunks(2)).map(|(ino, found)| PackOwner {
                ino: *ino,
                record: found.first().cloned().flatten(),
                leaving: found.get(1).is_some_and(Option::is_some),
            }));
        }
        Ok(owners)
    }

    /// Queues those packs (blocks of several files) of one page of the survey for the relocator of
    /// which, by their counters, few bytes are live. Returns the position of the next page.
    pub(super) async fn survey_packs(
        &self,
        resume: Option<Bytes>,
    ) -> Result<Option<Bytes>, VolumeError> {
        let longest = self.pack_bytes.max(PACK_BYTES_USUAL);
        let page = self.session.store().walk_counters(space::LIVE, resume, WALK_COUNTERS).await?;
        let suspects = page.counters.iter().filter_map(|(CounterKey(key), live)| {
            let pack = BlockId(key.suffix().try_into().ok()?);
            let live = u64::try_from(*live).ok().filter(|live| *live > 0)?;
            is_sparse(live, longest).then_some((pack, live))
        });
        let suspects: Vec<(BlockId, u64)> = suspects.collect();
        for suspects in suspects.chunks(PACKS_AT_ONCE) {
            self.note_suspects(suspects).await?;
        }
        Ok(page.resume)
    }

    /// Queues those of the packs that are much longer than their live bytes, given with each. Every
    /// slice of a pack has the length of the pack, so the record of one owner is enough.
    async fn note_suspects(&self, suspects: &[(BlockId, u64)]) -> Result<(), VolumeError> {
        let first_share = |(pack, _): &(BlockId, u64)| {
            let (start, end) = key::shares(*pack);
            Read::Range { start, end, limit: 1, follow: None }
        };
        let reads: Vec<Read> = suspects.iter().map(first_share).collect();
        let found = self.session.store().read(&reads).await?;
        let mut owned = Vec::with_capacity(suspects.len());
        for ((pack, live), found) in suspects.iter().zip(&found) {
            // A pack without an owner is about to become pending.
            if let ReadResult::Range(shares) = found
                && let Some(share) = shares.first()
            {
                owned.push((*pack, *live, ino_of(&share.key)?));
            }
        }
        if owned.is_empty() {
            return Ok(());
        }
        let found = self.read_all(owned.iter().map(|(_, _, ino)| key::inode(*ino))).await?;
        for ((pack, live, ino), record) in owned.into_iter().zip(found) {
            let inode = record.and_then(|it| Inode::decode(&key::inode(ino), &it).ok());
            let slices = inode.as_ref().map(slices_of).unwrap_or_default();
            let length = slices.iter().find(|it| it.block == pack).map(|it| it.block_length);
            // If that owner has no slice of the pack, the step reads all owners later.
            if length.is_none_or(|length| is_sparse(live, length)) {
                self.packs.note_due(pack);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

//! The writes and guards by which an owner releases a block.
//!
//! A block without share records has one owner. With share records, each owner has one. An owner
//! that releases the block removes its own share if another share exists. The last owner's plan
//! makes the block *pending*, which means that it awaits deletion. The absence of other owners is a
//! guard of the plan, not a count.
//!
//! **Packs.** Every owner of a pack has a share record from its first plan on (see
//! [`namespace::add_pack_shares`]). An owner without one owns nothing: it has released the pack
//! before, or the volume is damaged, and then nothing is deleted on its behalf. The bytes of an
//! owner are subtracted from the pack's counter in the plan that removes its share. The counter is
//! removed when the pack becomes pending.
//!
//! *Why no pack becomes pending while a plan under way is about to reference it.* The members of a
//! pack are published by separate plans, and until such a plan is committed, no record announces
//! it. But each of these plans pins an epoch from before the pack was put. A member that is
//! released here was published after that, lost its name later, and was collected later still.
//! After that, the reaper incremented the epoch and waited until no session read in an older one.
//! So every plan of the pack has settled, or its session was fenced and the plan can never be
//! committed. A copy guards the record of its source, which is removed or changed before the share
//! of the source is removed.
//!
//! *Why it is enough that one other owner exists.* Owners that are reaped in the same pass cannot
//! vouch for each other: if two did, the second plan would be refused. So an owner that stays is
//! looked up. If there is none, each plan guards the share of the owner whose plan comes next, and
//! the last plan guards that there are no other shares. For example, the owners 5, 6 and 7 of a
//! block are reaped together: the plan of 5 guards the share of 6, the plan of 6 that of 7, and the
//! plan of 7 makes the block pending.

use std::collections::BTreeMap;

use record::{BlockId, Ino, Mark, Slice, key};
use session::VolumeError;
use store::{Guard, Plan, Write};

use super::owners::{Owners, Reference};
use super::{committed_steps, key_after};
use crate::upkeep::Upkeep;

/// The most guards and writes that the release of one block takes.
pub(super) const ITEMS_PER_BLOCK: usize = 6;

/// The most blocks that one plan releases.
pub(super) const BLOCKS_PER_PLAN: usize = 256;

/// The most blocks of a file that was never published that one plan releases.
const SHARES_PER_PLAN: usize = 64;

/// Returns one reference of the owner for each block of the slices (runs of bytes of blocks), with
/// the bytes that they have in it.
pub(crate) fn references<'a>(
    slices: impl IntoIterator<Item = &'a Slice>,
    owner: Ino,
) -> Vec<Reference> {
    let mut blocks: BTreeMap<BlockId, Reference> = BTreeMap::new();
    for Slice { block, block_length, length, .. } in slices.into_iter().copied() {
        // A block that several slices use is released once, with the sum of their bytes.
        let none = Reference { block, owner, bytes: 0, block_length };
        let reference = blocks.entry(block).or_insert(none);
        reference.bytes = reference.bytes.saturating_add(i64::from(length));
    }
    blocks.into_values().collect()
}

impl Upkeep {
    /// Queues the packs (blocks of several files) for the relocator of which little is live after
    /// these references were released.
    pub(super) fn note_sparse(&self, references: &[Reference], owners: &[Owners]) {
        let mut packs: BTreeMap<BlockId, (i64, u32)> = BTreeMap::new();
        for (reference, owners) in references.iter().zip(owners) {
            if reference.block.is_pack() && owners.has_share && !owners.is_last() {
                let (live, length) = packs.entry(reference.block).or_insert((owners.live, 0));
                *live = live.saturating_sub(reference.bytes);
                *length = (*length).max(reference.block_length);
            }
        }
        let sparse = packs.into_iter().filter(|(_, (live, length))| {
            *live > 0 && crate::relocation_queue::is_sparse(live.unsigned_abs(), *length)
        });
        self.note_sparse_packs(sparse.map(|(pack, _)| pack));
    }
}

impl Upkeep {
    /// Releases, under a guard, the shares of ordinary blocks (not packs) that belong to a file
    /// which was never published. If it was the last owner, the block becomes pending, that is,
    /// listed for deletion, because the file from which it was copied may be gone.
    pub(crate) async fn release_shares(
        &self,
        guard: &Guard,
        blocks: &[BlockId],
        owner: Ino,
    ) -> Result<(), VolumeError> {
        let reference =
            |block: &BlockId| Reference { block: *block, owner, bytes: 0, block_length: 0 };
        for blocks in blocks.chunks(SHARES_PER_PLAN) {
            let references: Vec<Reference> = blocks.iter().map(reference).collect();
            let owners = self.owners(&references).await?;
            let mut plan = Plan { guards: vec![guard.clone()], writes: Vec::new() };
            for (reference, owners) in references.iter().zip(&owners) {
                // A share that is gone was released before, so its absence does not make this the
                // last owner.
                if owners.has_share {
                    plan.guards.push(Guard::Present(key::share(reference.block, owner)));
                    add_release(&mut plan, *reference, owners);
                }
            }
            if !plan.writes.is_empty()
                && committed_steps(self.session.commit_plan(plan).await)? == 0
            {
                return Err(VolumeError::Unavailable(
                    "an owner of a block changed meanwhile; the next pass retries".into(),
                ));
            }
        }
        Ok(())
    }
}

/// Adds to a plan the guards and writes by which an owner releases a block. If it is the last
/// owner, the block is listed for deletion.
pub(super) fn add_release(plan: &mut Plan, reference: Reference, owners: &Owners) {
    let own = key::share(reference.block, reference.owner);
    let pack = reference.block.is_pack();
    if pack {
        if !owners.has_share {
            return;
        }
        // Without this guard the bytes could be subtracted twice from the pack's counter.
        plan.guards.push(Guard::Present(own.clone()));
    }
    if let Some(other) = &owners.other {
        if owners.has_share {
            plan.guards.push(Guard::Present(other.clone()));
            plan.writes.push(Write::Delete(own));
        }
        if pack && reference.bytes != 0 {
            plan.writes.push(Write::Add(key::live(reference.block), -reference.bytes));
        }
        return;
    }
    let (start, end) = key::shares(reference.block);
    // This is the last owner. Its own share must be the only one at the instant of the commit.
    if owners.has_share {
        plan.guards.push(Guard::Empty(start, own.clone()));
        plan.guards.push(Guard::Empty(key_after(&own), end));
        plan.writes.push(Write::Delete(own));
    } else {
        plan.guards.push(Guard::Empty(start, end));
    }
    let pending = key::pending(reference.block);
    plan.writes.push(Write::Put(pending.clone(), Mark.encode(&pending)));
    if pack {
        plan.writes.push(Write::Clear(key::live(reference.block)));
    }
}

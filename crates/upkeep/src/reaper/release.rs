//! What it takes for an owner to let go of blocks.
//!
//! A block without share records has one owner. With them, each owner has one; letting go removes
//! the own one as long as another stands, and the last owner's block becomes pending. That nobody
//! else owns it is a guard, not a count.
//!
//! **Packs.** Every owner of a pack has a share record from its first plan on (see
//! [`namespace::join_packs`]). An owner without one owns nothing: it has let go before, or
//! something is wrong, and then nothing is deleted for it. What an owner names of a pack is taken
//! from the pack's counter in the plan that removes its share. The counter goes when the pack
//! becomes pending.
//!
//! *Why no pack becomes pending that a plan under way is about to name.* Its members are published
//! by plans of their own, and until one has been, no record says that it is coming. But each of
//! these plans pins an epoch from before the pack was put. A member that is let go of was
//! published after that, lost its name later, and was collected later still; after that the reaper
//! moved the epoch on, and waited until nobody read in an older one. So every plan of the pack has
//! settled by then, or its session was fenced and it never will be committed. A copy guards its
//! source's record, which goes, or names another block, before the source's share does.
//!
//! *Why it is enough that somebody else owns a block.* Owners that die in one pass cannot vouch
//! for each other: of two that do, the second is refused. So an owner that stays is asked for. If
//! there is none, each one's plan guards the share of the owner whose plan comes next, and the last
//! one's plan guards that there are no other shares.

use std::collections::BTreeMap;

use record::{BlockId, Ino, Mark, Slice, key};
use session::VolumeError;
use store::{Guard, Plan, Write};

use super::owners::{Owners, Reference};
use super::{after, progress};
use crate::upkeep::Upkeep;

/// The most guards and writes that letting go of one block takes.
pub(super) const ITEMS_PER_BLOCK: usize = 6;

/// The most blocks that one plan lets go of.
pub(super) const BLOCKS_PER_PLAN: usize = 256;

/// Blocks that a file which was never published lets go of in one plan.
const SHARES_PER_PLAN: usize = 64;

/// What slices name of each of their blocks.
pub(crate) fn references<'a>(
    slices: impl IntoIterator<Item = &'a Slice>,
    owner: Ino,
) -> Vec<Reference> {
    let mut blocks: BTreeMap<BlockId, Reference> = BTreeMap::new();
    for Slice { block, block_length, length, .. } in slices.into_iter().copied() {
        let none = Reference { block, owner, bytes: 0, block_length };
        let reference = blocks.entry(block).or_insert(none);
        reference.bytes = reference.bytes.saturating_add(i64::from(length));
    }
    blocks.into_values().collect()
}

impl Upkeep {
    /// Takes note of packs of which little is left once these have let go.
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
            *live > 0 && crate::sparse::is_sparse(live.unsigned_abs(), *length)
        });
        self.repacking.note(sparse.map(|(pack, _)| pack));
    }
}

impl Upkeep {
    /// Lets a file that was never published go of ordinary blocks that it shares, under a guard.
    /// The last owner's block becomes pending: who owned it before may be gone.
    pub(crate) async fn leave_shares(
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
                // One that has gone already does not count as the last.
                if owners.has_share {
                    plan.guards.push(Guard::Present(key::share(reference.block, owner)));
                    let_go(&mut plan, *reference, owners);
                }
            }
            if !plan.writes.is_empty() && progress(self.session.commit_plan(plan).await)? == 0 {
                return Err(VolumeError::Unavailable("an owner changed; to be seen again".into()));
            }
        }
        Ok(())
    }
}

/// Adds to a plan that an owner lets go of a block.
pub(super) fn let_go(plan: &mut Plan, reference: Reference, owners: &Owners) {
    let own = key::share(reference.block, reference.owner);
    let pack = reference.block.is_pack();
    if pack {
        if !owners.has_share {
            return;
        }
        // Not twice, or the counter would be wrong.
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
    if owners.has_share {
        plan.guards.push(Guard::Empty(start, own.clone()));
        plan.guards.push(Guard::Empty(after(&own), end));
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

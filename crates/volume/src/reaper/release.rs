//! What it takes for an owner to let go of blocks.
//!
//! A block without share records has one owner. With them, each owner has one; letting go removes
//! the own one as long as another stands, and the last owner's block becomes pending. That nobody
//! else owns it is a guard, not a count.
//!
//! **Packs.** Every owner of a pack has a share record from its first plan on, so one without it
//! owns nothing: it has let go before, or something is wrong, and then nothing is deleted for it.
//! What an owner names of a pack is taken from the pack's tally in the plan that removes its share,
//! and the tally goes when the pack becomes pending.
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
//! for each other: of two that do, the second is refused. So an owner that stays is asked for, and
//! if there is none, each vouches for the one before it, in the order in which their plans go.

use std::collections::{BTreeMap, BTreeSet};

use record::{BlockId, Ino, Mark, Slice, key};
use store::{Found, Guard, Key, Plan, Read, Write};

use super::after;
use crate::session::value;
use crate::{Volume, VolumeError};

/// The most guards and writes that letting go of one block takes.
pub(super) const ITEMS_PER_BLOCK: usize = 6;

/// Questions about owners that one round trip asks.
const QUESTIONS_AT_ONCE: usize = 1_024;

/// A block that an owner lets go of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) block: BlockId,
    pub(crate) owner: Ino,
    /// How many bytes of the block the owner names.
    pub(crate) bytes: i64,
    /// Content bytes of the block; 0 if nobody knows.
    pub(crate) block_length: u32,
}

/// Who owns a block besides whoever lets go of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owners {
    /// Whether the owner in question has a record.
    own: bool,
    /// The record of some other owner.
    other: Option<Key>,
    /// Of a pack: bytes that all owners name, before anybody lets go.
    live: i64,
}

impl Owners {
    /// Whether nobody else owns the block.
    pub(super) fn is_alone(&self) -> bool {
        self.other.is_none()
    }
}

/// The blocks of slices, each once.
pub(crate) fn held<'a>(slices: impl IntoIterator<Item = &'a Slice>, owner: Ino) -> Vec<Held> {
    let mut blocks: BTreeMap<BlockId, Held> = BTreeMap::new();
    for Slice { block, block_length, length, .. } in slices.into_iter().copied() {
        let none = Held { block, owner, bytes: 0, block_length };
        let held = blocks.entry(block).or_insert(none);
        held.bytes = held.bytes.saturating_add(i64::from(length));
    }
    blocks.into_values().collect()
}

impl Volume {
    /// Who owns each of these blocks when all of them are let go of, in the order of their plans.
    pub(super) async fn owners(&self, held: &[Held]) -> Result<Vec<Owners>, VolumeError> {
        let mut dying: BTreeMap<BlockId, Vec<usize>> = BTreeMap::new();
        for (index, held) in held.iter().enumerate() {
            dying.entry(held.block).or_default().push(index);
        }
        let mut owners = vec![Owners::default(); held.len()];
        let limits = self.store.limits();
        let at_once = QUESTIONS_AT_ONCE.min(limits.reads).max(3);
        let mut blocks = dying.iter().peekable();
        while blocks.peek().is_some() {
            let (mut reads, mut asked) = (Vec::new(), Vec::new());
            while let Some((block, indices)) = blocks.next_if(|(_, indices)| {
                reads.is_empty() || reads.len() + indices.len() + 2 <= at_once
            }) {
                reads.extend(questions(*block, indices, held, limits.range_records));
                asked.push(indices);
            }
            let found = self.store.read(&reads).await?;
            let mut found = found.as_slice();
            for indices in asked {
                let (these, rest) = found.split_at_checked(indices.len() + 2).unwrap_or_default();
                answer(indices, held, these, &mut owners);
                found = rest;
            }
        }
        Ok(owners)
    }

    /// Takes note of packs of which little is left once these have let go.
    pub(super) fn note_sparse(&self, held: &[Held], owners: &[Owners]) {
        let mut packs: BTreeMap<BlockId, (i64, u32)> = BTreeMap::new();
        for (held, owners) in held.iter().zip(owners) {
            if held.block.is_pack() && owners.own && owners.other.is_some() {
                let (live, length) = packs.entry(held.block).or_insert((owners.live, 0));
                *live = live.saturating_sub(held.bytes);
                *length = (*length).max(held.block_length);
            }
        }
        let sparse = packs.into_iter().filter(|(_, (live, length))| {
            *live > 0 && crate::repack::is_sparse(live.unsigned_abs(), *length)
        });
        self.repacking.note(sparse.map(|(pack, _)| pack));
    }
}

/// All owners of a block as far as needed to find one that stays, how much of it is alive, and the
/// records of those who let go.
fn questions(block: BlockId, indices: &[usize], held: &[Held], most: u32) -> Vec<Read> {
    let (start, end) = key::shares(block);
    // Of one owner more than die, one stays.
    let limit = u32::try_from(indices.len() + 1).unwrap_or(most).min(most);
    let own = |index: &usize| {
        let owner = held.get(*index).map_or(Ino(0), |held| held.owner);
        Read::Record { key: key::share(block, owner), follow: None }
    };
    [Read::Range { start, end, limit, follow: None }, Read::Tally(key::live(block))]
        .into_iter()
        .chain(indices.iter().map(own))
        .collect()
}

fn answer(indices: &[usize], held: &[Held], found: &[Found], owners: &mut [Owners]) {
    let shares = match found.first() {
        Some(Found::Range(entries)) => entries.as_slice(),
        _ => &[],
    };
    let live = match found.get(1) {
        Some(Found::Tally(live)) => *live,
        _ => 0,
    };
    let own = |index: &usize| held.get(*index).map(|held| key::share(held.block, held.owner));
    let leaving: BTreeSet<Key> = indices.iter().filter_map(own).collect();
    let stays = shares.iter().map(|entry| &entry.key).find(|share| !leaving.contains(*share));
    // The last is the only one left.
    let mut next = None;
    for (place, index) in indices.iter().enumerate().rev() {
        let has = value(found.get(place + 2)).is_some();
        if let Some(owners) = owners.get_mut(*index) {
            *owners = Owners { own: has, other: stays.or(next.as_ref()).cloned(), live };
        }
        if has {
            next = own(index);
        }
    }
}

/// Adds to a plan that an owner lets go of a block.
pub(super) fn let_go(plan: &mut Plan, held: Held, owners: &Owners) {
    let own = key::share(held.block, held.owner);
    let pack = held.block.is_pack();
    if pack {
        if !owners.own {
            return;
        }
        // Not twice, or the tally would be wrong.
        plan.guards.push(Guard::Present(own.clone()));
    }
    if let Some(other) = &owners.other {
        if owners.own {
            plan.guards.push(Guard::Present(other.clone()));
            plan.writes.push(Write::Delete(own));
        }
        if pack {
            plan.writes.push(Write::Add(key::live(held.block), -held.bytes));
        }
        return;
    }
    let (start, end) = key::shares(held.block);
    if owners.own {
        plan.guards.push(Guard::Empty(start, own.clone()));
        plan.guards.push(Guard::Empty(after(&own), end));
        plan.writes.push(Write::Delete(own));
    } else {
        plan.guards.push(Guard::Empty(start, end));
    }
    let pending = key::pending(held.block);
    plan.writes.push(Write::Put(pending.clone(), Mark.encode(&pending)));
    if pack {
        plan.writes.push(Write::Clear(key::live(held.block)));
    }
}

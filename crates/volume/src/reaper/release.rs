//! What it takes for an owner to let go of blocks.
//!
//! A block without share records has one owner. With them, each owner has one; letting go removes
//! the own one as long as another stands, and the last owner's block becomes pending. That nobody
//! else owns it is a guard, not a count.

use std::collections::{BTreeMap, BTreeSet};

use record::{BlockId, Ino, Mark, Slice, key};
use store::{Found, Guard, Key, Plan, Read, Write};

use super::after;
use crate::session::value;
use crate::{Volume, VolumeError};

/// The most guards and writes that letting go of one block takes.
pub(super) const ITEMS_PER_BLOCK: usize = 4;

/// Questions about owners that one round trip asks.
const QUESTIONS_AT_ONCE: usize = 512;

/// A block that an owner lets go of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Held {
    pub(super) block: BlockId,
    pub(super) owner: Ino,
}

/// Who owns a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owners {
    /// Whether the owner in question has a record.
    own: bool,
    /// The record of some other owner.
    other: Option<Key>,
}

/// The blocks of slices, each once.
pub(super) fn blocks_of(slices: &[Slice]) -> BTreeSet<BlockId> {
    slices.iter().map(|slice| slice.block).collect()
}

impl Volume {
    /// Who owns each of these blocks.
    pub(super) async fn owners(
        &self,
        held: &[Held],
    ) -> Result<BTreeMap<Held, Owners>, VolumeError> {
        let mut owners = BTreeMap::new();
        let at_once = QUESTIONS_AT_ONCE.min(self.store.limits().reads / 2).max(1);
        for held in held.chunks(at_once) {
            let reads: Vec<Read> = held.iter().flat_map(|held| questions(*held)).collect();
            let found = self.store.read(&reads).await?;
            for (held, found) in held.iter().zip(found.chunks_exact(2)) {
                owners.insert(*held, answers(*held, found));
            }
        }
        Ok(owners)
    }
}

fn questions(held: Held) -> [Read; 2] {
    let own = key::share(held.block, held.owner);
    let (start, end) = key::shares(held.block);
    // Of two owners one is another.
    [Read::Record { key: own, follow: None }, Read::Range { start, end, limit: 2, follow: None }]
}

fn answers(held: Held, found: &[Found]) -> Owners {
    let own = key::share(held.block, held.owner);
    let shares = match found.get(1) {
        Some(Found::Range(entries)) => entries.as_slice(),
        _ => &[],
    };
    let other = shares.iter().map(|entry| &entry.key).find(|share| **share != own);
    Owners { own: value(found.first()).is_some(), other: other.cloned() }
}

/// Adds to a plan that an owner lets go of a block. Answers whether the block is pending then.
pub(super) fn let_go(plan: &mut Plan, held: Held, owners: &Owners) -> bool {
    let own = key::share(held.block, held.owner);
    if let Some(other) = &owners.other {
        if owners.own {
            plan.guards.push(Guard::Present(other.clone()));
            plan.writes.push(Write::Delete(own));
        }
        return false;
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
    true
}

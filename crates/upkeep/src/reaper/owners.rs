//! Finds the other owners of blocks that are about to be released.
//!
//! For example, a block is shared by files 5, 6 and 7, and 5 and 6 are reaped in one pass. For
//! both, the other owner is 7, which stays.

use std::collections::{BTreeMap, BTreeSet};

use record::{BlockId, Ino, key};
use session::{VolumeError, counter, value};
use store::{Key, Read, ReadResult};

use crate::upkeep::Upkeep;

/// The most reads about owners of blocks that one round trip makes.
const READS_AT_ONCE: usize = 1_024;

/// Reads about a block and its owners, in addition to one for each owner that releases it.
const READS_PER_BLOCK: usize = 2;

/// The reference of an owner to a block that it releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) block: BlockId,
    pub(crate) owner: Ino,
    /// Bytes of the block that the owner references.
    pub(crate) bytes: i64,
    /// Content bytes of the block; 0 if unknown.
    pub(crate) block_length: u32,
}

/// The other owners of a block, as seen by one owner that releases it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Owners {
    /// True if the releasing owner has a share record, which says that it owns part of the block.
    pub(super) has_share: bool,
    /// The share record (of one owner of a block) of another owner; `None` if this owner is the
    /// last one.
    pub(super) other: Option<Key>,
    /// For a pack: its live bytes before any of these owners releases it.
    pub(super) live: i64,
}

impl Owners {
    /// Returns true if the block has no other owner.
    pub(super) fn is_last(&self) -> bool {
        self.other.is_none()
    }
}

impl Upkeep {
    /// Returns the other owners of the block of each reference, if all references are released in
    /// the given order.
    pub(super) async fn owners(
        &self,
        references: &[Reference],
    ) -> Result<Vec<Owners>, VolumeError> {
        // References to one block are handled together, because each of them needs to know the
        // others.
        let mut by_block: BTreeMap<BlockId, Vec<usize>> = BTreeMap::new();
        for (index, reference) in references.iter().enumerate() {
            by_block.entry(reference.block).or_default().push(index);
        }
        let mut owners = vec![Owners::default(); references.len()];
        let limits = self.session.limits();
        let at_once = READS_AT_ONCE.min(limits.reads).max(READS_PER_BLOCK + 1);
        let mut blocks = by_block.iter().peekable();
        while blocks.peek().is_some() {
            let (mut reads, mut pending) = (Vec::new(), Vec::new());
            // A round trip takes as many blocks as fit, but at least one.
            while let Some((block, indices)) = blocks.next_if(|(_, indices)| {
                reads.is_empty() || reads.len() + indices.len() + READS_PER_BLOCK <= at_once
            }) {
                reads.extend(owner_reads(*block, indices, references, limits.range_records));
                pending.push(indices);
            }
            let found = self.session.store().read(&reads).await?;
            let mut found = found.as_slice();
            for indices in pending {
                let count = indices.len() + READS_PER_BLOCK;
                let (these, rest) = found.split_at_checked(count).unwrap_or_default();
                fill_owners(indices, references, these, &mut owners);
                found = rest;
            }
        }
        Ok(owners)
    }
}

/// Returns the reads about a block: enough of its shares to find an owner that stays, its counter
/// of live bytes, and the shares of the releasing owners.
fn owner_reads(
    block: BlockId,
    indices: &[usize],
    references: &[Reference],
    most: u32,
) -> Vec<Read> {
    let (start, end) = key::shares(block);
    // Among one more share than there are releasing owners, at least one belongs to an owner that
    // stays.
    let limit = u32::try_from(indices.len() + 1).unwrap_or(most).min(most);
    let own = |index: &usize| {
        let owner = references.get(*index).map_or(Ino(0), |reference| reference.owner);
        Read::Record { key: key::share(block, owner), follow: None }
    };
    [Read::Range { start, end, limit, follow: None }, Read::Counter(key::live(block))]
        .into_iter()
        .chain(indices.iter().map(own))
        .collect()
}

fn fill_owners(
    indices: &[usize],
    references: &[Reference],
    found: &[ReadResult],
    owners: &mut [Owners],
) {
    let shares = match found.first() {
        Some(ReadResult::Range(entries)) => entries.as_slice(),
        _ => &[],
    };
    let live = counter(found.get(1));
    let own = |index: &usize| {
        references.get(*index).map(|reference| key::share(reference.block, reference.owner))
    };
    let leaving: BTreeSet<Key> = indices.iter().filter_map(own).collect();
    let stays = shares.iter().map(|entry| &entry.key).find(|share| !leaving.contains(*share));
    // If no owner stays, each owner guards the share of the owner whose plan comes next. The last
    // one has no other owner.
    let mut next = None;
    for (place, index) in indices.iter().enumerate().rev() {
        let has_share = value(found.get(READS_PER_BLOCK + place)).is_some();
        if let Some(owners) = owners.get_mut(*index) {
            *owners = Owners { has_share, other: stays.or(next.as_ref()).cloned(), live };
        }
        if has_share {
            next = own(index);
        }
    }
}

#[cfg(test)]
mod tests;

//! Who else owns the blocks that are let go of.

use std::collections::{BTreeMap, BTreeSet};

use record::{BlockId, Ino, key};
use session::{VolumeError, counter, value};
use store::{Key, Read, ReadResult};

use crate::upkeep::Upkeep;

/// Questions about owners that one round trip asks.
const QUESTIONS_AT_ONCE: usize = 1_024;

/// Questions about a block besides those about each owner that lets go of it.
const QUESTIONS_PER_BLOCK: usize = 2;

/// What an owner has of a block that it lets go of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) block: BlockId,
    pub(crate) owner: Ino,
    /// How many bytes of the block the owner names.
    pub(crate) bytes: i64,
    /// Content bytes of the block; 0 if nobody knows.
    pub(crate) block_length: u32,
}

/// Who owns a block besides whoever lets go of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Owners {
    /// Whether the one who lets go has a share record.
    pub(super) has_share: bool,
    /// The share record of some other owner.
    pub(super) other: Option<Key>,
    /// Of a pack: bytes that all owners name, before anybody lets go.
    pub(super) live: i64,
}

impl Owners {
    /// Whether nobody else owns the block.
    pub(super) fn is_last(&self) -> bool {
        self.other.is_none()
    }
}

impl Upkeep {
    /// Who owns each of these blocks when all of them are let go of, in the order of their plans.
    pub(super) async fn owners(
        &self,
        references: &[Reference],
    ) -> Result<Vec<Owners>, VolumeError> {
        let mut dying: BTreeMap<BlockId, Vec<usize>> = BTreeMap::new();
        for (index, reference) in references.iter().enumerate() {
            dying.entry(reference.block).or_default().push(index);
        }
        let mut owners = vec![Owners::default(); references.len()];
        let limits = self.session.limits();
        let at_once = QUESTIONS_AT_ONCE.min(limits.reads).max(QUESTIONS_PER_BLOCK + 1);
        let mut blocks = dying.iter().peekable();
        while blocks.peek().is_some() {
            let (mut reads, mut asked) = (Vec::new(), Vec::new());
            while let Some((block, indices)) = blocks.next_if(|(_, indices)| {
                reads.is_empty() || reads.len() + indices.len() + QUESTIONS_PER_BLOCK <= at_once
            }) {
                reads.extend(questions(*block, indices, references, limits.range_records));
                asked.push(indices);
            }
            let found = self.session.store().read(&reads).await?;
            let mut found = found.as_slice();
            for indices in asked {
                let count = indices.len() + QUESTIONS_PER_BLOCK;
                let (these, rest) = found.split_at_checked(count).unwrap_or_default();
                answer(indices, references, these, &mut owners);
                found = rest;
            }
        }
        Ok(owners)
    }
}

/// Enough shares of a block to find an owner that stays, how much of it is alive, and the shares of
/// those who let go.
fn questions(block: BlockId, indices: &[usize], references: &[Reference], most: u32) -> Vec<Read> {
    let (start, end) = key::shares(block);
    // Of one owner more than die, one stays.
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

fn answer(
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
    // If nobody stays, the other owner is for each the one whose plan comes next. The last has
    // none.
    let mut next = None;
    for (place, index) in indices.iter().enumerate().rev() {
        let has_share = value(found.get(QUESTIONS_PER_BLOCK + place)).is_some();
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

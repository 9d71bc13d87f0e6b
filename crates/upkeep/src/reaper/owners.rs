//! Who else owns the blocks that are let go of.

use std::collections::{BTreeMap, BTreeSet};

use record::{BlockId, Ino, Inode, Roster, key};
use session::scan::slices_of;
use session::{VolumeError, tally, value};
use store::{Found, Guard, Key, Read, Value};
use tracing::warn;

use crate::upkeep::Upkeep;

/// Questions about owners that one round trip asks.
const QUESTIONS_AT_ONCE: usize = 1_024;

/// Questions about a block besides those about each owner that lets go of it.
const QUESTIONS_PER_BLOCK: usize = 3;

/// How many on a roster, besides those who let go, are asked before all of them are: most packs are
/// mostly alive.
const FIRST_ASKED: usize = 4;

/// A block that an owner lets go of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) block: BlockId,
    pub(crate) owner: Ino,
    /// How many bytes of the block the owner names.
    pub(crate) bytes: i64,
    /// Content bytes of the block; 0 if nobody knows.
    pub(crate) block_length: u32,
    /// Whether the owner's inode goes in the same plan, which guards its exact record: one on the
    /// roster lets go in no other way.
    pub(crate) inode_goes: bool,
}

/// How an owner is known to be one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Own {
    /// It is not: it has no record of a share, and is not on the roster of a pack that its inode
    /// names.
    #[default]
    Nothing,
    /// By the record of its share.
    Share,
    /// By the roster and its inode.
    Listed,
}

/// Who owns a block besides whoever lets go of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Owners {
    pub(super) own: Own,
    /// That some other owner is one.
    pub(super) other: Option<Guard>,
    /// If there is no other: those on the roster who let go in plans before this one.
    pub(super) before: Vec<Ino>,
    /// Of a pack: whether it has a roster.
    pub(super) listed: bool,
    /// Of a pack: bytes that all owners name, before anybody lets go.
    pub(super) live: i64,
}

impl Owners {
    /// Whether nobody else owns the block.
    pub(super) fn is_alone(&self) -> bool {
        self.other.is_none()
    }
}

/// What is found out about a block of which some owners let go.
#[derive(Debug)]
struct Asked<'a> {
    block: BlockId,
    /// Places of those who let go, in the order of their plans.
    dying: &'a [usize],
    /// The share of somebody who stays.
    stays: Option<Key>,
    /// Which of those who let go have a share.
    shares: Vec<bool>,
    live: i64,
    roster: Roster,
    /// Those on the roster who have been asked, with the records of inodes that name the block.
    naming: BTreeMap<Ino, Option<Value>>,
}

impl Upkeep {
    /// Who owns each of these blocks when all of them are let go of, in the order of their plans.
    pub(super) async fn owners(&self, held: &[Held]) -> Result<Vec<Owners>, VolumeError> {
        let mut dying: BTreeMap<BlockId, Vec<usize>> = BTreeMap::new();
        for (index, held) in held.iter().enumerate() {
            dying.entry(held.block).or_default().push(index);
        }
        let mut asked = self.ask_shares(&dying, held).await?;
        for most in [FIRST_ASKED, usize::MAX] {
            self.ask_listed(&mut asked, held, most).await?;
        }
        let mut owners = vec![Owners::default(); held.len()];
        for asked in asked {
            asked.answer(held, &mut owners);
        }
        Ok(owners)
    }

    /// Reads shares, tallies and rosters.
    async fn ask_shares<'a>(
        &self,
        dying: &'a BTreeMap<BlockId, Vec<usize>>,
        held: &[Held],
    ) -> Result<Vec<Asked<'a>>, VolumeError> {
        let limits = self.session.limits();
        let at_once = QUESTIONS_AT_ONCE.min(limits.reads).max(QUESTIONS_PER_BLOCK + 1);
        let mut all = Vec::with_capacity(dying.len());
        let mut blocks = dying.iter().peekable();
        while blocks.peek().is_some() {
            let (mut reads, mut asked) = (Vec::new(), Vec::new());
            while let Some((block, indices)) = blocks.next_if(|(_, indices)| {
                reads.is_empty() || reads.len() + indices.len() + QUESTIONS_PER_BLOCK <= at_once
            }) {
                reads.extend(questions(*block, indices, held, limits.range_records));
                asked.push((*block, indices));
            }
            let found = self.session.store().read(&reads).await?;
            let mut found = found.as_slice();
            for (block, dying) in asked {
                let count = dying.len() + QUESTIONS_PER_BLOCK;
                let (these, rest) = found.split_at_checked(count).unwrap_or_default();
                all.push(Asked::of(block, dying, held, these));
                found = rest;
            }
        }
        Ok(all)
    }

    /// Reads the inodes on the rosters of blocks for which nobody vouches yet: those who let go, and
    /// of the others as many as `most`.
    async fn ask_listed(
        &self,
        asked: &mut [Asked<'_>],
        held: &[Held],
        most: usize,
    ) -> Result<(), VolumeError> {
        let mut wanted: Vec<(usize, Ino)> = Vec::new();
        for (place, asked) in asked.iter().enumerate() {
            wanted.extend(asked.wanted(held, most).into_iter().map(|ino| (place, ino)));
        }
        for wanted in wanted.chunks(QUESTIONS_AT_ONCE.min(self.session.limits().reads).max(1)) {
            let inode =
                |(_, ino): &(usize, Ino)| Read::Record { key: key::inode(*ino), follow: None };
            let reads: Vec<Read> = wanted.iter().map(inode).collect();
            let found = self.session.store().read(&reads).await?;
            for ((place, ino), found) in wanted.iter().zip(&found) {
                let Some(asked) = asked.get_mut(*place) else { continue };
                let record = value(Some(found)).filter(|it| may_name(*ino, it, asked.block));
                asked.naming.insert(*ino, record);
            }
        }
        Ok(())
    }
}

/// Whether a file names a block, for all that is known.
fn may_name(ino: Ino, record: &Value, block: BlockId) -> bool {
    match Inode::decode(&key::inode(ino), record) {
        Ok(inode) => slices_of(&inode).iter().any(|slice| slice.block == block),
        Err(error) => {
            warn!(ino = ino.0, %block, %error, "an inode cannot be read; its pack is kept");
            true
        }
    }
}

/// All owners of a block as far as needed to find one that stays, how much of it is alive, its
/// roster, and the records of those who let go.
fn questions(block: BlockId, indices: &[usize], held: &[Held], most: u32) -> Vec<Read> {
    let (start, end) = key::shares(block);
    // Of one owner more than die, one stays.
    let limit = u32::try_from(indices.len() + 1).unwrap_or(most).min(most);
    let own = |index: &usize| {
        let owner = held.get(*index).map_or(Ino(0), |held| held.owner);
        Read::Record { key: key::share(block, owner), follow: None }
    };
    let shares = Read::Range { start, end, limit, follow: None };
    [shares, Read::Tally(key::live(block)), Read::Tally(key::roster(block))]
        .into_iter()
        .chain(indices.iter().map(own))
        .collect()
}

impl<'a> Asked<'a> {
    fn of(block: BlockId, dying: &'a [usize], held: &[Held], found: &[Found]) -> Asked<'a> {
        let shares = match found.first() {
            Some(Found::Range(entries)) => entries.as_slice(),
            _ => &[],
        };
        let own = |index: &usize| held.get(*index).map(|held| key::share(held.block, held.owner));
        let leaving: BTreeSet<Key> = dying.iter().filter_map(own).collect();
        let stays = shares.iter().map(|entry| &entry.key).find(|share| !leaving.contains(*share));
        let has = |place: usize| value(found.get(QUESTIONS_PER_BLOCK + place)).is_some();
        Asked {
            block,
            dying,
            stays: stays.cloned(),
            shares: (0..dying.len()).map(has).collect(),
            live: tally(found.get(1)),
            roster: Roster::from_tally(tally(found.get(2))),
            naming: BTreeMap::new(),
        }
    }

    /// Those on the roster who let go, in the order of their plans, each with the place of its own.
    fn listed_dying(&self, held: &[Held]) -> Vec<(usize, Ino)> {
        let dying = self.dying.iter().zip(&self.shares).enumerate();
        let listed = |(place, (index, share)): (usize, (&usize, &bool))| {
            let held = held.get(*index).filter(|held| held.inode_goes && !share)?;
            self.roster.contains(held.owner).then_some((place, held.owner))
        };
        dying.filter_map(listed).collect()
    }

    /// Who on the roster should be asked: nobody if it is known that somebody stays.
    fn wanted(&self, held: &[Held], most: usize) -> Vec<Ino> {
        let dying: BTreeSet<Ino> =
            self.listed_dying(held).into_iter().map(|(_, ino)| ino).collect();
        if self.roster.is_empty() || self.stays.is_some() || self.witness(&dying).is_some() {
            return Vec::new();
        }
        let others = self.roster.files().filter(|ino| !dying.contains(ino)).take(most);
        let wanted = dying.iter().copied().chain(others);
        wanted.filter(|ino| !self.naming.contains_key(ino)).collect()
    }

    /// That somebody on the roster owns the block and stays.
    fn witness(&self, dying: &BTreeSet<Ino>) -> Option<Guard> {
        let mut staying = self.naming.iter().filter(|(ino, _)| !dying.contains(ino));
        staying.find_map(|(ino, record)| Some(Guard::Equals(key::inode(*ino), record.clone()?)))
    }

    fn answer(self, held: &[Held], owners: &mut [Owners]) {
        let dying = self.listed_dying(held);
        let leaving: BTreeSet<Ino> = dying.iter().map(|(_, ino)| *ino).collect();
        let stays = self.stays.clone().map(Guard::Present).or_else(|| self.witness(&leaving));
        let names = |ino: &Ino| self.naming.get(ino).cloned().flatten();
        // Who is not asked, because somebody stays, is guarded by the plan's guard of its inode.
        let owns = |ino: &Ino| stays.is_some() || names(ino).is_some();
        let listed: BTreeMap<usize, Ino> = dying.into_iter().filter(|(_, ino)| owns(ino)).collect();
        // The last is the only one left.
        let mut next: Option<Guard> = None;
        for (place, index) in self.dying.iter().enumerate().rev() {
            let Some((held, owners)) = held.get(*index).zip(owners.get_mut(*index)) else {
                continue;
            };
            let own = match (self.shares.get(place), listed.get(&place)) {
                (Some(true), _) => Own::Share,
                (_, Some(_)) => Own::Listed,
                _ => Own::Nothing,
            };
            let other = stays.as_ref().or(next.as_ref()).cloned();
            let before = match other {
                Some(_) => Vec::new(),
                None => listed.range(..place).map(|(_, ino)| *ino).collect(),
            };
            let (listed, live) = (!self.roster.is_empty(), self.live);
            *owners = Owners { own, other, before, listed, live };
            next = match own {
                Own::Nothing => next,
                Own::Share => Some(Guard::Present(key::share(held.block, held.owner))),
                Own::Listed => {
                    names(&held.owner).map(|it| Guard::Equals(key::inode(held.owner), it)).or(next)
                }
            };
        }
    }
}

#[cfg(test)]
mod tests;

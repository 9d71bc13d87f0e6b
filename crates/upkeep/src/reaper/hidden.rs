//! Reaping what writes have hidden of files that live on: blocks that their contents do not name
//! any more, and pages of their content maps that others have taken the place of.
//!
//! A block that is listed may still be named. Who hid it looked at the part of the content that the
//! write covers, and another part may name the block, too; or it was named again since. So what the
//! file names is looked at twice, before the epoch moves on and after readers have ended, the second
//! time under a guard of its inode's record. A block that is named then stays, and so does one that
//! was named before: whoever hid that one since has left an orphan of its own, whose readers may
//! not have ended. Pages never change, so each is read once for both.
//!
//! What a listed block counts of a pack goes with the orphan, whatever else becomes of the block:
//! whoever names it again counts it again. Every step takes what it has done off the orphan's
//! record, so that nothing is counted twice.
//!
//! *What this asks of writers.* A plan that hides a run of a block lists the block, unless it knows
//! that the file goes on naming it. A file that has let go of a block is given it by another file
//! again only if it has no share of it: the share belongs to what is hidden until that is reaped.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use block::SUB_BLOCK_BYTES;
use futures::StreamExt;
use futures::stream;
use record::{BlockId, Content, HiddenBlock, Ino, Inode, MapPage, Orphan, key};
use session::{Outcome, Priority, VolumeError, closing, corrupt, value};
use store::{Guard, Key, Plan, Read, Value, Write};

use super::files::PAGES_AT_ONCE;
use super::owners::{Owners, Reference};
use super::release::{BLOCKS_PER_PLAN, ITEMS_PER_BLOCK, let_go};
use super::{Dead, progress};
use crate::upkeep::Upkeep;

/// Owners whose records are read together.
const OWNERS_AT_ONCE: usize = 64;

/// Pages of content maps that one plan deletes.
const PAGES_PER_PLAN: usize = 256;

/// Orphans of one owner that one plan takes steps of.
const ORPHANS_PER_PLAN: usize = 64;

/// How often a pass looks at an owner again because it was written to before its plan was committed.
const LOOKS_AGAIN_MAX: u32 = 16;

/// Which of the blocks that are listed as hidden of a file it names nevertheless.
#[derive(Debug, Default)]
pub(super) struct StillNamed {
    listed: HashSet<BlockId>,
    named: HashSet<BlockId>,
    /// Pages of its content map that were looked at.
    pages: HashSet<u32>,
}

/// A part of an orphan that goes in one plan, maybe with those of others.
#[derive(Clone, Debug)]
struct HiddenStep {
    orphan: Key,
    before: Value,
    /// What is left of the orphan; nothing with its last step.
    after: Option<Value>,
    blocks: Vec<HiddenBlock>,
    pages: Vec<u32>,
}

/// A file of which something is hidden.
#[derive(Debug)]
struct Owner {
    ino: Ino,
    /// That its content is as it was looked at.
    guard: Guard,
    still: StillNamed,
    /// The pages of its content map.
    pages: HashSet<u32>,
    steps: VecDeque<HiddenStep>,
}

impl Upkeep {
    /// What the owners of hidden blocks name of them, before anybody has waited for readers.
    pub(super) async fn still_named(
        &self,
        dead: &[Dead],
    ) -> Result<HashMap<Ino, StillNamed>, VolumeError> {
        let mut all: HashMap<Ino, StillNamed> = HashMap::new();
        for dead in dead {
            if let Orphan::Hidden { owner, blocks, .. } = &dead.orphan {
                let listed = blocks.iter().map(|hidden| hidden.block);
                all.entry(*owner).or_default().listed.extend(listed);
            }
        }
        let owners: Vec<Ino> = all.keys().copied().collect();
        for owners in owners.chunks(OWNERS_AT_ONCE) {
            let records = self.read_all(owners.iter().map(|owner| key::inode(*owner))).await?;
            for (owner, record) in owners.iter().zip(records) {
                let (Some(record), Some(still)) = (record, all.get_mut(owner)) else { continue };
                match self.look_for_hidden(*owner, &record, still).await {
                    // It is looked at again, and then it is said what is wrong.
                    Ok(_) | Err(VolumeError::Corrupt(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(all)
    }

    /// Lets files go of the blocks that writes have hidden, and deletes the pages that were
    /// replaced.
    pub(super) async fn reap_hidden(
        &self,
        dead: &[Dead],
        mut named: HashMap<Ino, StillNamed>,
        priority: Priority,
    ) -> Result<u64, VolumeError> {
        let plan_items = self.session.limits().plan_items;
        let mut hidden: HashMap<Ino, VecDeque<HiddenStep>> = HashMap::new();
        for dead in dead {
            if let Orphan::Hidden { owner, .. } = &dead.orphan {
                hidden.entry(*owner).or_default().extend(steps(dead, plan_items));
            }
        }
        let mut inos: Vec<Ino> = hidden.keys().copied().collect();
        inos.sort_unstable();
        let mut reaped = 0;
        for inos in inos.chunks(OWNERS_AT_ONCE) {
            if self.session.closing().is_cancelled() {
                return Err(closing());
            }
            let step = self.session.throttle().begin_step(priority);
            let mut owners = self.owners_at_present(inos, &mut hidden, &mut named).await?;
            let mut looks = 0;
            while !owners.is_empty() {
                let (done, left, changed) = self.reap_some_of_each(owners).await?;
                (reaped, owners) = (reaped + done, left);
                if changed.is_empty() || looks == LOOKS_AGAIN_MAX {
                    continue;
                }
                // They were written to in between. Nobody has to be waited for again.
                looks += 1;
                let inos: Vec<Ino> = changed.iter().map(|owner| owner.ino).collect();
                for Owner { ino, still, steps, .. } in changed {
                    hidden.insert(ino, steps);
                    named.insert(ino, still);
                }
                owners.extend(self.owners_at_present(&inos, &mut hidden, &mut named).await?);
            }
            self.session.throttle().pause_after(step).await;
        }
        Ok(reaped)
    }

    /// Looks at owners once more. Leaves out those that must be looked at in a later pass.
    async fn owners_at_present(
        &self,
        inos: &[Ino],
        hidden: &mut HashMap<Ino, VecDeque<HiddenStep>>,
        named: &mut HashMap<Ino, StillNamed>,
    ) -> Result<Vec<Owner>, VolumeError> {
        let keys = inos.iter().flat_map(|ino| [key::inode(*ino), key::orphan(*ino)]);
        let records = self.read_all(keys).await?;
        let mut owners = Vec::with_capacity(inos.len());
        for (ino, records) in inos.iter().zip(records.chunks_exact(2)) {
            let steps = hidden.remove(ino).unwrap_or_default();
            let mut still = named.remove(ino).unwrap_or_default();
            let inode = key::inode(*ino);
            let (guard, pages) = match records {
                [Some(record), _] => match self.look_for_hidden(*ino, record, &mut still).await {
                    Ok(Some(pages)) => (Guard::Equals(inode, record.clone()), pages),
                    // A page is gone. So the inode has changed, or the page is missing.
                    Ok(None) => continue,
                    Err(why @ VolumeError::Corrupt(_)) => {
                        self.keep_damaged(&inode, &why);
                        continue;
                    }
                    Err(error) => return Err(error),
                },
                // It is being reaped a few blocks at a time. What it has hidden goes after it.
                [None, Some(_)] => continue,
                // Whatever it named it has let go of.
                _ => {
                    still.named.clear();
                    (Guard::Absent(inode), HashSet::new())
                }
            };
            owners.push(Owner { ino: *ino, guard, still, pages, steps });
        }
        Ok(owners)
    }

    /// Takes note of the listed blocks that a file names. Answers with the pages of its content
    /// map, or with none if one of them is not there.
    async fn look_for_hidden(
        &self,
        ino: Ino,
        record: &Value,
        still: &mut StillNamed,
    ) -> Result<Option<HashSet<u32>>, VolumeError> {
        let at = key::inode(ino);
        let inode = Inode::decode(&at, record).map_err(|error| corrupt(&at, &error))?;
        let refs = match inode.file().map(|file| &file.content) {
            None | Some(Content::Inline(_)) => return Ok(Some(HashSet::new())),
            Some(Content::Slices(slices)) => {
                still.take(slices.iter().map(|slice| slice.block));
                return Ok(Some(HashSet::new()));
            }
            Some(Content::Pages(refs)) => refs,
        };
        let pages: HashSet<u32> = refs.iter().map(|page| page.page).collect();
        let unseen: Vec<u32> = pages.difference(&still.pages).copied().collect();
        let mut complete = true;
        for unseen in unseen.chunks(PAGES_AT_ONCE) {
            let keys: Vec<Key> = unseen.iter().map(|page| key::map_page(ino, *page)).collect();
            let records = self.read_all(keys.iter().cloned()).await?;
            for ((page, key), record) in unseen.iter().zip(&keys).zip(records) {
                let Some(record) = record else {
                    complete = false;
                    continue;
                };
                let slices = MapPage::decode(key, &record).map_err(|error| corrupt(key, &error))?;
                still.take(slices.0.iter().map(|slice| slice.block));
                still.pages.insert(*page);
            }
        }
        Ok(complete.then_some(pages))
    }

    pub(crate) async fn read_all(
        &self,
        keys: impl Iterator<Item = Key>,
    ) -> Result<Vec<Option<Value>>, VolumeError> {
        let reads: Vec<Read> = keys.map(|key| Read::Record { key, follow: None }).collect();
        let found = self.session.store().read(&reads).await?;
        Ok(found.iter().map(|found| value(Some(found))).collect())
    }

    /// Takes the next steps of each owner, as many as one plan holds. Answers with how many were taken,
    /// with the owners that have steps left, and with those that have changed since they were looked at.
    /// Of what somebody else has taken meanwhile the rest comes again in a later pass.
    async fn reap_some_of_each(
        &self,
        mut owners: Vec<Owner>,
    ) -> Result<(u64, Vec<Owner>, Vec<Owner>), VolumeError> {
        let room = self.session.limits().plan_items.saturating_sub(16) / ITEMS_PER_BLOCK;
        let steps: Vec<Vec<HiddenStep>> =
            owners.iter_mut().map(|owner| owner.next_steps(room.max(1))).collect();
        let blocks: Vec<Vec<HiddenBlock>> = steps.iter().map(|steps| blocks_of(steps)).collect();
        let (mut references, mut plans) = (Vec::new(), Vec::new());
        for (owner, blocks) in owners.iter().zip(&blocks) {
            references.extend(blocks.iter().map(|hidden| reference(hidden, owner.ino)));
        }
        let found = self.owners(&references).await?;
        let mut rest = found.as_slice();
        for ((owner, steps), blocks) in owners.iter().zip(&steps).zip(&blocks) {
            let (own, others) = rest.split_at_checked(blocks.len()).unwrap_or_default();
            plans.push(owner.plan(steps, blocks, own));
            rest = others;
        }
        let outcomes = stream::iter(plans)
            .map(|plan| self.session.commit_plan(plan))
            .buffered(OWNERS_AT_ONCE)
            .collect::<Vec<_>>()
            .await;
        let (mut reaped, mut left, mut changed) = (0, Vec::new(), Vec::new());
        let mut rest = found.as_slice();
        let taken = owners.into_iter().zip(steps).zip(blocks).zip(outcomes);
        for (((mut owner, steps), blocks), outcome) in taken {
            let (own, others) = rest.split_at_checked(blocks.len()).unwrap_or_default();
            rest = others;
            // The orphans are guarded first, and then the owner.
            if matches!(outcome, Outcome::Refused { guard, .. } if guard >= steps.len()) {
                steps.into_iter().rev().for_each(|step| owner.steps.push_front(step));
                changed.push(owner);
            } else if progress(outcome)? > 0 {
                reaped += steps.len() as u64;
                self.forget_hidden(&owner, &blocks, own);
                if !owner.steps.is_empty() {
                    left.push(owner);
                }
            }
        }
        Ok((reaped, left, changed))
    }

    /// Frees the memory of blocks that are gone, and takes note of packs of which little is left.
    fn forget_hidden(&self, owner: &Owner, blocks: &[HiddenBlock], owners: &[Owners]) {
        let (mut references, mut of_packs) = (Vec::new(), Vec::new());
        for (hidden, owners) in blocks.iter().zip(owners) {
            let stays = owner.still.named.contains(&hidden.block);
            if hidden.block.is_pack() {
                references.push(reference(hidden, owner.ino));
                of_packs.push(owners.clone());
            } else if owners.is_last() && !stays {
                let end = hidden.block_length.div_ceil(SUB_BLOCK_BYTES);
                let end = end.saturating_mul(SUB_BLOCK_BYTES);
                self.staging.reader.forget(hidden.block, 0..end);
            }
        }
        self.note_sparse(&references, &of_packs);
    }
}

impl StillNamed {
    fn take(&mut self, blocks: impl Iterator<Item = BlockId>) {
        let listed = &self.listed;
        self.named.extend(blocks.filter(|block| listed.contains(block)));
    }
}

/// What an owner lets go of with a block that is hidden. The plan that hid it has taken its bytes from
/// the counter of a pack.
fn reference(hidden: &HiddenBlock, owner: Ino) -> Reference {
    Reference { block: hidden.block, owner, bytes: 0, block_length: hidden.block_length }
}

/// The blocks of several steps, each once.
fn blocks_of(steps: &[HiddenStep]) -> Vec<HiddenBlock> {
    let blocks = steps.iter().flat_map(|step| &step.blocks);
    let once: BTreeMap<BlockId, HiddenBlock> =
        blocks.map(|hidden| (hidden.block, *hidden)).collect();
    once.into_values().collect()
}

impl Owner {
    /// The next steps that fit into one plan, of which `blocks_max` blocks are let go of at most: of
    /// several orphans one each, or one more step of the same.
    fn next_steps(&mut self, blocks_max: usize) -> Vec<HiddenStep> {
        let mut steps: Vec<HiddenStep> = Vec::new();
        let (mut blocks, mut pages) = (0, 0);
        while let Some(step) = self.steps.front() {
            (blocks, pages) = (blocks + step.blocks.len(), pages + step.pages.len());
            let fits = blocks + pages <= blocks_max
                && blocks <= BLOCKS_PER_PLAN
                && pages <= PAGES_PER_PLAN
                && steps.len() < ORPHANS_PER_PLAN
                && steps.last().is_none_or(|last| last.orphan != step.orphan);
            if !steps.is_empty() && !fits {
                break;
            }
            steps.extend(self.steps.pop_front());
        }
        steps
    }

    /// The plan of steps that name these blocks, each once.
    fn plan(&self, steps: &[HiddenStep], blocks: &[HiddenBlock], owners: &[Owners]) -> Plan {
        let guard = |step: &HiddenStep| Guard::Equals(step.orphan.clone(), step.before.clone());
        let write = |step: &HiddenStep| match &step.after {
            Some(after) => Write::Put(step.orphan.clone(), after.clone()),
            None => Write::Delete(step.orphan.clone()),
        };
        let guards = steps.iter().map(guard).chain([self.guard.clone()]).collect();
        let mut plan = Plan { guards, writes: steps.iter().map(write).collect() };
        for (hidden, owners) in blocks.iter().zip(owners) {
            if !self.still.named.contains(&hidden.block) {
                let_go(&mut plan, reference(hidden, self.ino), owners);
            }
        }
        let listed: BTreeSet<u32> = steps.iter().flat_map(|step| &step.pages).copied().collect();
        let replaced = listed.iter().filter(|page| !self.pages.contains(page));
        plan.writes.extend(replaced.map(|page| Write::Delete(key::map_page(self.ino, *page))));
        plan
    }
}

/// What an orphan lists, in pieces that fit into a plan each: the blocks, then the pages.
fn steps(dead: &Dead, plan_items: usize) -> Vec<HiddenStep> {
    let Orphan::Hidden { owner, blocks, pages } = &dead.orphan else { return Vec::new() };
    let room = (plan_items.saturating_sub(16) / ITEMS_PER_BLOCK).max(1);
    let (mut blocks, mut pages) = (blocks.as_slice(), pages.as_slice());
    let (mut steps, mut before) = (Vec::new(), dead.value.clone());
    loop {
        let (these, later) = blocks.split_at(BLOCKS_PER_PLAN.min(room).min(blocks.len()));
        let most = if later.is_empty() { room - these.len() } else { 0 };
        let (replaced, others) = pages.split_at(PAGES_PER_PLAN.min(most).min(pages.len()));
        (blocks, pages) = (later, others);
        let done = blocks.is_empty() && pages.is_empty();
        let rest =
            || Orphan::Hidden { owner: *owner, blocks: blocks.to_vec(), pages: pages.to_vec() };
        let after = (!done).then(|| rest().encode(&dead.key));
        steps.push(HiddenStep {
            orphan: dead.key.clone(),
            before: before.clone(),
            after: after.clone(),
            blocks: these.to_vec(),
            pages: replaced.to_vec(),
        });
        match after {
            Some(after) => before = after,
            None => return steps,
        }
    }
}

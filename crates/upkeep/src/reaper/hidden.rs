//! Reaps bytes that writes have hidden in files that still exist: blocks that the content map no
//! longer references, and replaced pages of the content map.
//!
//! A block that an orphan lists may still be referenced. The writer that hid it looked only at the
//! part of the content that it wrote to, and another part may reference the block, too. Or the
//! block was referenced again since then. So the file's references are read twice: before the epoch
//! is incremented, and again after readers have ended, the second time under a guard of the inode's
//! record. A block stays if it was referenced at either time. One that was referenced only the
//! first time was hidden since then by a write that left an orphan of its own, whose readers may
//! not have ended. Pages never change, so each page is read once for both.
//!
//! For example, a file references block B at 0 and at 8 MiB. A write at 0 lists B as hidden. The
//! reaper finds B at 8 MiB and keeps it. A later write at 8 MiB lists it again, and then it is
//! released.
//!
//! The bytes of a pack that an orphan lists were subtracted from the pack's counter by the plan
//! that hid them, whether or not the block is released here. A plan that references the block again
//! adds them again. Each step removes its part from the orphan's record, so that nothing is
//! processed twice.
//!
//! *The rule for writers.* A plan that hides a run of a block lists the block, unless the plan
//! knows that the file still references it. A file that has released a block gets it from another
//! file again only if it has no share of it: an existing share belongs to the hidden bytes until
//! they are reaped.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use block::SUB_BLOCK_BYTES;
use futures::StreamExt;
use futures::stream;
use record::{BlockId, Content, HiddenBlock, Ino, Inode, MapPage, Orphan, key};
use session::{Outcome, Priority, VolumeError, closing, corrupt, value};
use store::{Guard, Key, Plan, Read, Value, Write};

use super::files::PAGES_AT_ONCE;
use super::owners::{Owners, Reference};
use super::release::{BLOCKS_PER_PLAN, ITEMS_PER_BLOCK, add_release};
use super::{Dead, committed_steps};
use crate::upkeep::Upkeep;

/// Files with hidden blocks whose records are read together.
const OWNERS_AT_ONCE: usize = 64;

/// The most replaced pages of content maps that one plan deletes.
const PAGES_PER_PLAN: usize = 256;

/// The most orphans (lists of hidden blocks) of one file that one plan processes.
const ORPHANS_PER_PLAN: usize = 64;

/// The most times that a pass reads owners of one group again because they were written to before
/// their plans were committed.
const RELOADS_MAX: u32 = 16;

/// The blocks that are listed as hidden in a file, and those of them that the file still
/// references.
#[derive(Debug, Default)]
pub(super) struct StillReferenced {
    listed: HashSet<BlockId>,
    referenced: HashSet<BlockId>,
    /// The pages of its content map that were read.
    pages: HashSet<u32>,
}

/// A part of an orphan (a list of hidden blocks and replaced pages) that is processed in one plan,
/// possibly together with parts of others.
#[derive(Clone, Debug)]
struct HiddenStep {
    orphan: Key,
    before: Value,
    /// The record of the orphan after this step, without the processed part; `None` after its last
    /// step.
    after: Option<Value>,
    blocks: Vec<HiddenBlock>,
    pages: Vec<u32>,
}

/// A file of which writes have hidden blocks or replaced pages of the content map.
#[derive(Debug)]
struct Owner {
    ino: Ino,
    /// Guards that the file's content is as it was read.
    guard: Guard,
    still: StillReferenced,
    /// The pages of its content map.
    pages: HashSet<u32>,
    steps: VecDeque<HiddenStep>,
}

impl Upkeep {
    /// Reads which of the hidden blocks, which the orphans list, their files still reference,
    /// before the pass waits for readers.
    pub(super) async fn find_still_referenced(
        &self,
        dead: &[Dead],
    ) -> Result<HashMap<Ino, StillReferenced>, VolumeError> {
        let mut all: HashMap<Ino, StillReferenced> = HashMap::new();
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
                match self.scan_references(*owner, &record, still).await {
                    // A damaged owner is read again after the wait, and reported then.
                    Ok(_) | Err(VolumeError::Corrupt(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(all)
    }

    /// Releases the blocks that writes have hidden in files and that the files no longer reference,
    /// and deletes the replaced pages of content maps. Returns the number of steps done.
    pub(super) async fn reap_hidden(
        &self,
        dead: &[Dead],
        mut referenced: HashMap<Ino, StillReferenced>,
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
            let mut owners = self.load_owners(inos, &mut hidden, &mut referenced).await?;
            let mut reloads = 0;
            while !owners.is_empty() {
                let (done, left, changed) = self.reap_next_steps(owners).await?;
                (reaped, owners) = (reaped + done, left);
                if changed.is_empty() || reloads == RELOADS_MAX {
                    continue;
                }
                // These owners were written to in between. They are read again, but the pass need
                // not wait for readers again: the references were first read before the epoch was
                // incremented.
                reloads += 1;
                let inos: Vec<Ino> = changed.iter().map(|owner| owner.ino).collect();
                for Owner { ino, still, steps, .. } in changed {
                    hidden.insert(ino, steps);
                    referenced.insert(ino, still);
                }
                owners.extend(self.load_owners(&inos, &mut hidden, &mut referenced).await?);
            }
            self.session.throttle().pause_after(step).await;
        }
        Ok(reaped)
    }

    /// Reads the files with hidden blocks again, now that readers have ended. Leaves out those that
    /// must wait for a later pass.
    async fn load_owners(
        &self,
        inos: &[Ino],
        hidden: &mut HashMap<Ino, VecDeque<HiddenStep>>,
        referenced: &mut HashMap<Ino, StillReferenced>,
    ) -> Result<Vec<Owner>, VolumeError> {
        let keys = inos.iter().flat_map(|ino| [key::inode(*ino), key::orphan(*ino)]);
        let records = self.read_all(keys).await?;
        let mut owners = Vec::with_capacity(inos.len());
        for (ino, records) in inos.iter().zip(records.chunks_exact(2)) {
            let steps = hidden.remove(ino).unwrap_or_default();
            let mut still = referenced.remove(ino).unwrap_or_default();
            let inode = key::inode(*ino);
            let (guard, pages) = match records {
                [Some(record), _] => match self.scan_references(*ino, record, &mut still).await {
                    Ok(Some(pages)) => (Guard::Equals(inode, record.clone()), pages),
                    // A page is missing: the inode has changed since it was read, or the volume is
                    // damaged.
                    Ok(None) => continue,
                    Err(why @ VolumeError::Corrupt(_)) => {
                        self.report_damaged(&inode, &why);
                        continue;
                    }
                    Err(error) => return Err(error),
                },
                // The owner is being reaped in several steps. Its hidden blocks are released after
                // it.
                [None, Some(_)] => continue,
                // The owner is gone and has released all its references.
                _ => {
                    still.referenced.clear();
                    (Guard::Absent(inode), HashSet::new())
                }
            };
            owners.push(Owner { ino: *ino, guard, still, pages, steps });
        }
        Ok(owners)
    }

    /// Records in `still` those of the listed hidden blocks that a file references. Returns the
    /// pages of its content map, or `None` if one of them is missing.
    async fn scan_references(
        &self,
        ino: Ino,
        record: &Value,
        still: &mut StillReferenced,
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
        // Pages never change, so a page that was read before the wait is not read again.
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

    /// Processes the next steps (parts of lists of hidden blocks) of each file, as many as one plan
    /// holds. Returns the number of steps done, the files with steps left, and the files that
    /// changed since they were read. Steps of an orphan that another reaper has changed are left to
    /// a later pass.
    async fn reap_next_steps(
        &self,
        mut owners: Vec<Owner>,
    ) -> Result<(u64, Vec<Owner>, Vec<Owner>), VolumeError> {
        let capacity = self.session.limits().plan_items.saturating_sub(16) / ITEMS_PER_BLOCK;
        let steps: Vec<Vec<HiddenStep>> =
            owners.iter_mut().map(|owner| owner.next_steps(capacity.max(1))).collect();
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
            // The guards of the orphans come first and that of the owner last, so the index of the
            // refused guard shows which one changed.
            if matches!(outcome, Outcome::Refused { guard, .. } if guard >= steps.len()) {
                steps.into_iter().rev().for_each(|step| owner.steps.push_front(step));
                changed.push(owner);
            } else if committed_steps(outcome)? > 0 {
                reaped += steps.len() as u64;
                self.evict_hidden(&owner, &blocks, own);
                if !owner.steps.is_empty() {
                    left.push(owner);
                }
            }
        }
        Ok((reaped, left, changed))
    }

    /// Removes released blocks from the cache, and queues packs (blocks of several files) of which
    /// little is live now for the relocator.
    fn evict_hidden(&self, owner: &Owner, blocks: &[HiddenBlock], owners: &[Owners]) {
        let (mut references, mut pack_owners) = (Vec::new(), Vec::new());
        for (hidden, owners) in blocks.iter().zip(owners) {
            let stays = owner.still.referenced.contains(&hidden.block);
            if hidden.block.is_pack() {
                references.push(reference(hidden, owner.ino));
                pack_owners.push(owners.clone());
            } else if owners.is_last() && !stays {
                let end = hidden.block_length.div_ceil(SUB_BLOCK_BYTES);
                let end = end.saturating_mul(SUB_BLOCK_BYTES);
                self.staging.reader.forget(hidden.block, 0..end);
            }
        }
        self.note_sparse(&references, &pack_owners);
    }
}

impl StillReferenced {
    fn take(&mut self, blocks: impl Iterator<Item = BlockId>) {
        let listed = &self.listed;
        self.referenced.extend(blocks.filter(|block| listed.contains(block)));
    }
}

/// Returns the owner's reference to a hidden block. It counts no bytes, because the plan that hid
/// the block has subtracted them from the pack's counter.
fn reference(hidden: &HiddenBlock, owner: Ino) -> Reference {
    Reference { block: hidden.block, owner, bytes: 0, block_length: hidden.block_length }
}

/// Returns the blocks of several steps (parts of lists of hidden blocks), each once.
fn blocks_of(steps: &[HiddenStep]) -> Vec<HiddenBlock> {
    let blocks = steps.iter().flat_map(|step| &step.blocks);
    // A plan may release a block of an owner once only, because the second release would find no
    // share.
    let once: BTreeMap<BlockId, HiddenBlock> =
        blocks.map(|hidden| (hidden.block, *hidden)).collect();
    once.into_values().collect()
}

impl Owner {
    /// Removes the next steps (parts of lists of hidden blocks) that fit into one plan with at most
    /// `blocks_max` blocks. Consecutive steps of different orphans are combined; of one orphan the
    /// plan takes one step only, because the next one guards the record that this one writes.
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

    /// Returns the plan of these steps, which releases their blocks. Each block is in `blocks`
    /// once, with its other owners at the same index of `owners`.
    fn plan(&self, steps: &[HiddenStep], blocks: &[HiddenBlock], owners: &[Owners]) -> Plan {
        let guard = |step: &HiddenStep| Guard::Equals(step.orphan.clone(), step.before.clone());
        let write = |step: &HiddenStep| match &step.after {
            Some(after) => Write::Put(step.orphan.clone(), after.clone()),
            None => Write::Delete(step.orphan.clone()),
        };
        let guards = steps.iter().map(guard).chain([self.guard.clone()]).collect();
        let mut plan = Plan { guards, writes: steps.iter().map(write).collect() };
        for (hidden, owners) in blocks.iter().zip(owners) {
            if !self.still.referenced.contains(&hidden.block) {
                add_release(&mut plan, reference(hidden, self.ino), owners);
            }
        }
        let listed: BTreeSet<u32> = steps.iter().flat_map(|step| &step.pages).copied().collect();
        let replaced = listed.iter().filter(|page| !self.pages.contains(page));
        plan.writes.extend(replaced.map(|page| Write::Delete(key::map_page(self.ino, *page))));
        plan
    }
}

/// Splits an orphan's list of hidden blocks and replaced pages into steps that fit into one plan
/// each: the blocks first, then the pages.
fn steps(dead: &Dead, plan_items: usize) -> Vec<HiddenStep> {
    let Orphan::Hidden { owner, blocks, pages } = &dead.orphan else { return Vec::new() };
    let capacity = (plan_items.saturating_sub(16) / ITEMS_PER_BLOCK).max(1);
    let (mut blocks, mut pages) = (blocks.as_slice(), pages.as_slice());
    let (mut steps, mut before) = (Vec::new(), dead.value.clone());
    loop {
        let (these, later) = blocks.split_at(BLOCKS_PER_PLAN.min(capacity).min(blocks.len()));
        let most = if later.is_empty() { capacity - these.len() } else { 0 };
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

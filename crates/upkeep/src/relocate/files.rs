//! Files whose blocks later writes have mostly hidden.
//!
//! A block exists as long as any byte of it is referenced. So if less than half of a block is
//! visible, its visible runs are copied to a new block, in the order of the file. For example, a
//! program writes a 1 GiB file once and then overwrites 60 % of it at random. Of each old block of
//! 16 MiB, 6.4 MiB are visible and copied, and after that the reaper deletes the old blocks.
//!
//! *Limits*: a step copies at most one block and changes a few pages of the content map; a file
//! gets [`STEPS_AT_ONCE`] steps before other files have their turn. Of one file, the visible bytes
//! of a limited number of blocks are counted at a time.
//!
//! **Concurrent writers.** If the file has changed, the plan is computed again from its newest
//! record: runs that were overwritten meanwhile keep the new bytes, and all other copied runs are
//! moved, because blocks never change. So a file under constant writes is compacted, too.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use block::BLOCK_BYTES_MAX;
use bytes::Bytes;
use namespace::pages_of;
use record::{BlockId, Content, Ino, Inode, key::space};
use session::scan::slices_of;
use session::{Priority, VolumeError, closing};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::batch::{Batch, Owner};
use super::protect::protection;
use super::select::{FileSelection, PAGES_AT_ONCE};
use super::step::Moves;
use crate::relocation_queue::{Note, Policy, is_sparse};
use crate::upkeep::Upkeep;

/// The time since the last write after which a file's short runs are joined.
pub const JOIN_DELAY: Duration = Duration::from_secs(10);

/// The most times that the plan which moves runs of one file is computed because the file was
/// written to.
const SWAP_TRIES_MAX: u32 = 32;

/// The steps of copying that a file gets before other files have their turn.
const STEPS_AT_ONCE: u32 = 64;

/// After a look at a file, the file is left alone for this many times the duration of the look, but
/// at most for `REST_MAX`.
const REST_FACTOR: u32 = 9;
const REST_MAX: Duration = Duration::from_mins(10);

/// The most bytes that one step copies, unless a single run is longer.
const BATCH_BYTES: u32 = 8 << 20;
const _: () = assert!(BATCH_BYTES <= BLOCK_BYTES_MAX);

/// The most packs (blocks of several files) out of which one step moves runs. The plan writes a
/// counter for each.
const PACKS_MAX: usize = 256;

/// Inodes that one step of the survey reads.
pub(super) const WALK_INODES: u32 = 500;

/// The result of compacting one file: of moving its visible bytes out of mostly hidden blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FileDone {
    pub(super) moves: Moves,
    /// True if the file is to be looked at again: it has short runs that were not joined, or runs
    /// that were not moved because they changed.
    pub(super) again: bool,
    /// Steps that were done.
    steps: u32,
}

/// Returns true if a file may have blocks of which little is visible, judged by its inode's record
/// alone. A content map in pages is not read here, so every such file qualifies that was ever
/// written in place.
fn may_need_compaction(inode: &Inode) -> bool {
    match inode.file().map(|file| (&file.content, file.pages_made)) {
        Some((Content::Pages(pages), made)) => made as usize > pages.len(),
        Some((Content::Slices(_), _)) => {
            let mut live: BTreeMap<BlockId, (u64, u32)> = BTreeMap::new();
            // Packs have counters of their live bytes, and the policy for packs moves them.
            for slice in slices_of(inode).iter().filter(|slice| !slice.block.is_pack()) {
                let (live, length) = live.entry(slice.block).or_default();
                (*live, *length) = (*live + u64::from(slice.length), slice.block_length);
            }
            live.values().any(|(live, length)| is_sparse(*live, *length))
        }
        Some((Content::Inline(_), _)) | None => false,
    }
}

impl Upkeep {
    /// Queues a file that was written to for the relocator, given its present inode, if many bytes
    /// of its blocks may be hidden by later writes.
    pub fn note_written(&self, ino: Ino, inode: &Inode) {
        if may_need_compaction(inode) {
            self.files.note(ino);
        }
    }

    /// Queues those files of one page of the survey whose blocks may be mostly hidden. Returns the
    /// position of the next page.
    pub(super) async fn survey_files(
        &self,
        resume: Option<Bytes>,
    ) -> Result<Option<Bytes>, VolumeError> {
        let page = self.session.store().walk(space::INODE, resume, WALK_INODES).await?;
        for (key, record) in page.records {
            // A record that cannot be decoded is reported by the operation that needs it.
            if let Ok(inode) = Inode::decode(&key, &record) {
                self.note_written(Ino(key.partition()), &inode);
            }
        }
        Ok(page.resume)
    }

    /// Compacts a file that was taken from the queue (moves its visible bytes out of mostly hidden
    /// blocks), and queues it again if something is left to do.
    pub(super) async fn compact_noted(&self, ino: Ino, note: Note) {
        let now = Instant::now();
        let later = |due| self.files.note_for_later(ino, Note { due, ..note });
        match self.compact_file(ino, Some(note)).await {
            Ok(FileDone { moves, again, steps }) => {
                debug!(ino = ino.0, ?moves, "file compacted");
                // A file that used up its steps goes to the end of the queue.
                if steps >= STEPS_AT_ONCE {
                    later(now);
                } else if again {
                    later(now.max(note.changed) + JOIN_DELAY);
                }
            }
            Err(error) if self.session.closing().is_cancelled() => {
                debug!(%error, "compacting ended");
            }
            Err(error) => {
                warn!(ino = ino.0, %error, "compacting a file failed; retrying later");
                later(now + Policy::Compact.retry_pause());
            }
        }
    }

    /// Selects the blocks of a file of which less than half is visible, and moves their visible
    /// bytes into new blocks. With a note the steps are limited and throttled. Without one a caller
    /// waits, and short runs are joined.
    pub(super) async fn compact_file(
        &self,
        ino: Ino,
        note: Option<Note>,
    ) -> Result<FileDone, VolumeError> {
        let joins = note.is_none_or(|note| Instant::now() >= note.changed + JOIN_DELAY);
        let throttled = note.is_some();
        let _one = self.files.step.lock().await;
        let (mut done, mut part) = (FileDone::default(), 0);
        let is_over = |done: &FileDone| throttled && done.steps >= STEPS_AT_ONCE;
        loop {
            let began = Instant::now();
            let Some(mut selection) = self.select_blocks(ino, part, joins).await? else {
                break;
            };
            // A file whose map takes long to read is looked at less often.
            self.files.rest(ino, (began.elapsed() * REST_FACTOR).min(REST_MAX));
            done.again |= selection.is_crowded && !selection.joins;
            let mut from = Some(0);
            while let Some(at) = from.filter(|_| !selection.is_done() && !is_over(&done)) {
                done.steps += 1;
                from = self.compact_step(ino, &mut selection, at, throttled, &mut done).await?;
            }
            part += 1;
            if part >= selection.parts || is_over(&done) {
                break;
            }
        }
        done.moves.sources = u64::from(done.moves.bytes > 0);
        self.count(Policy::Compact, &done.moves);
        Ok(done)
    }

    /// Moves the visible bytes of the next part of the content map, from position `from` of the
    /// file, out of the selected blocks. Returns the position at which to continue; `None` at the
    /// end of the map.
    pub(super) async fn compact_step(
        &self,
        ino: Ino,
        selection: &mut FileSelection,
        from: u64,
        throttled: bool,
        done: &mut FileDone,
    ) -> Result<Option<u64>, VolumeError> {
        if self.session.closing().is_cancelled() {
            return Err(closing());
        }
        let urgent = selection.is_urgent || !throttled;
        let priority = if urgent { Priority::Urgent } else { Priority::Background };
        let step = self.session.throttle().begin_step(priority);
        // Pinned from before the map is read until the outcome of the plan is known, so that no
        // page or block that was found is deleted.
        let reading = self.session.reading();
        let (mut batch, next) = self.collect_runs(ino, selection, from).await?;
        let settled = self.relocate(&mut batch, &reading).await?;
        // Damaged blocks are left out of the following steps, too.
        settled.damaged.into_iter().for_each(|block| selection.exclude_unreadable(block));
        done.again |= !settled.stayed.is_empty();
        done.moves += settled.step.done;
        // The pin must not last for the pause below, or it would delay the reaper.
        drop(reading);
        let limited = if urgent { 0 } else { settled.step.traffic };
        self.pause_after_step(step, limited).await;
        Ok(next)
    }

    /// Collects the runs (pieces of the file in selected blocks) to copy, from position `from` of
    /// the file, as many as one block and a few pages of the content map hold. Returns them, and
    /// the position at which the next batch begins: `None` at the end of the content map.
    async fn collect_runs(
        &self,
        ino: Ino,
        selection: &FileSelection,
        from: u64,
    ) -> Result<(Batch, Option<u64>), VolumeError> {
        let (mut loaded, mut next, mut encryption) = (Vec::new(), None, None);
        let content = self.file_now(ino).await?.map(|file| {
            encryption = file.encryption;
            file.content
        });
        match content {
            None | Some(Content::Inline(_)) => {}
            Some(Content::Slices(slices)) => loaded.push(slices),
            Some(Content::Pages(pages)) => {
                let first = pages_of(&pages, from, u64::MAX).start;
                let last = pages.len().min(first + PAGES_AT_ONCE);
                // One plan covers these pages only, so the next batch begins with the page behind
                // them.
                next = pages.get(last).map(|page| page.start);
                loaded = self.load_pages(ino, &pages[first..last]).await?;
            }
        }
        let bytes_max = BATCH_BYTES.min(self.staging.block_bytes).max(1);
        let (mut owner, mut bytes, mut packs) = (Owner::default(), 0_u32, BTreeSet::new());
        let movers = loaded.iter().flat_map(|slices| selection.movers(slices));
        for slice in movers.filter(|slice| slice.position >= from) {
            let another = slice.block.is_pack() && !packs.contains(&slice.block);
            bytes = bytes.saturating_add(slice.length);
            let full = bytes > bytes_max || another && packs.len() >= PACKS_MAX;
            if !owner.slices.is_empty() && full {
                next = Some(slice.position);
                break;
            }
            packs.extend(another.then_some(slice.block));
            owner.slices.push(*slice);
        }
        let within = from..owner.slices.last().map_or(from, record::Slice::end);
        let was_encrypted = owner.slices.iter().any(|slice| slice.block.is_secret());
        let protection = protection(encryption.as_ref(), was_encrypted);
        let stays = owner.slices.is_empty() || protection.is_none();
        let owners = if stays { BTreeMap::new() } else { [(ino, owner)].into() };
        // An ordinary block id: the file is the block's only owner.
        let (is_pack, reads_whole, refusals_max) = (false, false, SWAP_TRIES_MAX);
        Ok((Batch { owners, within, is_pack, reads_whole, protection, refusals_max }, next))
    }
}

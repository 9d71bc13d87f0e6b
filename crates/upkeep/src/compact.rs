//! The compactor: moves the visible bytes of a file out of blocks that later writes have mostly
//! hidden.
//!
//! A file that is overwritten at random hides its blocks run by run, but a block exists as long as
//! any byte of it is referenced. So if less than half of a block is visible, the visible runs are
//! copied to a new block, in the order of the file. The new block is durable before any plan
//! references it. Then one plan swaps the part of the content map that was read: it writes the new
//! slices and pages, and an orphan that lists the blocks and pages that are no longer referenced,
//! as a write does.
//!
//! For example, a program writes a 1 GiB file once and then overwrites 60 % of it at random in runs
//! of 4 KiB. Of each old block of 16 MiB, 6.4 MiB are visible. The compactor copies them, and after
//! that the reaper deletes the old blocks.
//!
//! *Trigger*: a write queues its file for [`crate::COMPACT_DELAY`] later; a survey of all inodes
//! finds the files that other gateways or earlier processes have left. *Limits*: a step copies at
//! most one block and swaps a few pages; a file gets [`STEPS_AT_ONCE`] steps before other files
//! have their turn; and bytes per second are limited as for the rewriter, except for files whose
//! blocks take up much more than their visible bytes.
//!
//! **Invariant.** At every instant the content map references the old runs or their copies, which
//! hold the same bytes. Readers may still use the old runs, so the orphan keeps the old blocks
//! until these readers have ended: see the reaper.
//!
//! **Concurrent writers.** The plan guards the exact record of the inode. If the file has changed,
//! the plan is computed again from its newest record: runs that were overwritten meanwhile keep the
//! new bytes, and all other copied runs are moved, which is correct because blocks never change. So
//! a file that is written to all the time is compacted all the same. Two compactors do no harm: the
//! second one finds none of its runs in the map any more, and deletes its block.
//!
//! **Bounded memory.** For one file, the visible bytes of a limited number of blocks are counted at
//! a time. A larger content map is read several times, for a part of its blocks each time.
//!
//! **Short runs.** If a page of the content map is full of short adjacent runs, they are copied
//! together, once the file has not been written for a while or has very many pages.
//!
//! Packs of files whose content map is in their record are moved by [`crate::repack`]. The
//! compactor does not know names. Of a file it knows only the slices.

mod collect;
mod copy;
mod select;
mod survey;

use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::Duration;

use namespace::{FsError, Next, RelocateContent, Relocated, Run};
use record::{Ino, Inode};
use session::{Outcome, Priority, ReaderGuard, VolumeError, closing};
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::compact_queue::{Note, may_need_compaction};
use crate::repack::REPACK_BYTES_PER_SECOND;
use crate::upkeep::Upkeep;
use collect::Batch;
use copy::Copied;
use select::FileSelection;
use survey::Survey;

/// The time since the last write after which a file's short runs are joined.
pub const JOIN_DELAY: Duration = Duration::from_secs(10);

/// The pause of the compactor after a failure.
pub const COMPACT_RETRY: Duration = Duration::from_secs(30);

/// The most times that the plan which moves runs of one file is computed again because the file was
/// written to.
const SWAP_TRIES_MAX: u32 = 32;

/// The steps of copying that a file gets before other files have their turn.
const STEPS_AT_ONCE: u32 = 64;

/// After the compactor has looked at a file, it leaves the file alone for this many times the
/// duration of the look, but at most for `REST_MAX`.
const REST_FACTOR: u32 = 9;
const REST_MAX: Duration = Duration::from_mins(10);

/// The most times that [`Upkeep::compact_now`] looks at all files. Several times are needed because
/// releases by other files may change how much of a shared block is visible.
const ROUNDS_MAX: u32 = 8;

/// The result of moving visible bytes out of blocks that later writes have mostly hidden.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Files of which bytes were moved.
    pub files: u64,
    /// Bytes that were moved.
    pub bytes: u64,
    /// Plans that were refused because the file had changed. Most were planned again.
    pub refused: u64,
}

impl Compacted {
    fn add(&mut self, more: Compacted) {
        self.files += more.files;
        self.bytes += more.bytes;
        self.refused += more.refused;
    }
}

/// The options of compacting a file.
#[derive(Clone, Copy, Debug)]
struct CompactOptions {
    /// True if short runs (pieces of the file in a block) are copied together.
    joins: bool,
    /// True if the steps of copying pause while requests are served.
    throttled: bool,
}

/// The result of compacting one file: of moving its visible bytes out of mostly hidden blocks.
#[derive(Clone, Copy, Debug, Default)]
struct FileDone {
    moved: Compacted,
    /// True if the file is to be looked at again: it has short runs that were not joined, or runs
    /// that were not moved because they changed.
    again: bool,
    /// Steps that were done.
    steps: u32,
}

impl Upkeep {
    /// Queues a file that was written to for the compactor, given its present inode, if many bytes
    /// of its blocks may be hidden by later writes.
    pub fn note_written(&self, ino: Ino, inode: &Inode) {
        if may_need_compaction(inode) {
            self.compacting.note(ino);
        }
    }

    /// Queues files for the compactor whose blocks later writes may have mostly hidden.
    pub(crate) fn note_hidden(&self, files: impl IntoIterator<Item = Ino>) {
        files.into_iter().for_each(|ino| self.compacting.note(ino));
    }

    /// Compacts every file that needs it: moves its visible bytes out of blocks that later writes
    /// have mostly hidden. The reaper removes the old blocks afterwards.
    ///
    /// # Errors
    /// If a store cannot be reached. Bytes that were moved before stay moved.
    pub async fn compact_now(&self) -> Result<Compacted, VolumeError> {
        let mut all = Compacted::default();
        for _ in 0..ROUNDS_MAX {
            self.survey_files().await?;
            let mut round = Compacted::default();
            while let Some((ino, note)) = self.compacting.take_due(None) {
                let options = CompactOptions { joins: true, throttled: false };
                match self.compact_file(ino, options).await {
                    Ok(done) => round.add(done.moved),
                    Err(error) => {
                        self.compacting.note_for_later(ino, note);
                        return Err(error);
                    }
                }
            }
            all.add(round);
            if round.bytes == 0 {
                break;
            }
        }
        Ok(all)
    }

    /// Compacts a file that was taken from the queue (moves its visible bytes out of mostly hidden
    /// blocks), and queues it again if something is left to do.
    async fn compact_noted(&self, ino: Ino, note: Note) {
        let now = Instant::now();
        let joins = now >= note.written + JOIN_DELAY;
        let later = |due| Note { due, ..note };
        match self.compact_file(ino, CompactOptions { joins, throttled: true }).await {
            Ok(FileDone { moved: Compacted { bytes, refused, .. }, again, steps }) => {
                debug!(ino = ino.0, bytes, refused, "file compacted");
                // A file that used up its steps goes to the end of the queue.
                if steps >= STEPS_AT_ONCE {
                    self.compacting.note_for_later(ino, later(now));
                } else if again {
                    let due = now.max(note.written) + JOIN_DELAY;
                    self.compacting.note_for_later(ino, later(due));
                }
            }
            Err(error) if self.session.closing().is_cancelled() => {
                debug!(%error, "compacting ended");
            }
            Err(error) => {
                warn!(ino = ino.0, %error, "compacting a file failed; retrying later");
                self.compacting.note_for_later(ino, later(now + COMPACT_RETRY));
            }
        }
    }

    /// Selects the blocks of a file of which less than half is visible, and moves their visible
    /// bytes into new blocks.
    async fn compact_file(
        &self,
        ino: Ino,
        options: CompactOptions,
    ) -> Result<FileDone, VolumeError> {
        let _one = self.compacting.round.lock().await;
        let (mut done, mut part) = (FileDone::default(), 0);
        loop {
            let began = Instant::now();
            let Some(mut selection) = self.select_blocks(ino, part, options.joins).await? else {
                break;
            };
            // A file whose map takes long to read is looked at less often.
            self.compacting.rest(ino, (began.elapsed() * REST_FACTOR).min(REST_MAX));
            done.again |= selection.is_crowded && !selection.joins;
            let mut from = Some(0);
            while let Some(at) = from.filter(|_| !selection.is_done()) {
                if options.throttled && done.steps >= STEPS_AT_ONCE {
                    break;
                }
                done.steps += 1;
                from = self.step(ino, &mut selection, at, options, &mut done).await?;
            }
            part += 1;
            if part >= selection.parts || options.throttled && done.steps >= STEPS_AT_ONCE {
                break;
            }
        }
        let moved = &mut done.moved;
        moved.files = u64::from(moved.bytes > 0);
        self.meters.files_compacted.add(moved.files);
        Ok(done)
    }

    /// Moves the visible bytes of the next part of the content map, from position `from` of the
    /// file, out of the selected blocks. Returns the position at which to continue; `None` at the
    /// end of the map.
    async fn step(
        &self,
        ino: Ino,
        selection: &mut FileSelection,
        from: u64,
        options: CompactOptions,
        done: &mut FileDone,
    ) -> Result<Option<u64>, VolumeError> {
        if self.session.closing().is_cancelled() {
            return Err(closing());
        }
        let urgent = selection.is_urgent || !options.throttled;
        let priority = if urgent { Priority::Urgent } else { Priority::Background };
        let throttled = self.session.throttle().begin_step(priority);
        // Pinned from before the map is read until the outcome of the swap is known, so that no
        // page or block that was found is deleted.
        let reading = self.session.reading();
        let batch = self.collect_runs(ino, selection, from).await?;
        // Each byte is read once and written once.
        let (next, traffic) = (batch.next, u64::from(batch.bytes) * 2);
        done.again |= batch.has_overlaps;
        if !batch.taken.is_empty() {
            match self.move_batch(ino, &batch, &reading, done).await? {
                ControlFlow::Continue(()) => {}
                ControlFlow::Break(damaged) => {
                    // A damaged block is skipped, and the step is repeated without it.
                    selection.exclude_unreadable(damaged);
                    return Ok(Some(from));
                }
            }
        }
        // The pin must not last for the pause below, or it would delay the reaper.
        drop(reading);
        self.session.throttle().pause_after(throttled).await;
        if !urgent {
            let pause = traffic.saturating_mul(1_000) / REPACK_BYTES_PER_SECOND;
            tokio::select! {
                () = self.session.closing().cancelled() => {}
                () = tokio::time::sleep(Duration::from_millis(pause)) => {}
            }
        }
        Ok(next)
    }

    /// Copies the runs of a batch into a new block and makes the file reference the copies. Breaks
    /// with the id of a block that cannot be read; then nothing was moved.
    async fn move_batch(
        &self,
        ino: Ino,
        batch: &Batch,
        reading: &ReaderGuard,
        done: &mut FileDone,
    ) -> Result<ControlFlow<record::BlockId>, VolumeError> {
        let timeout = self.staging.deadlines.block;
        let _permit = self.staging.budget.acquire(copy::memory_for(batch), timeout).await?;
        let (block, to) = match self.copy_batch(batch).await? {
            Copied::Damaged(damaged) => return Ok(ControlFlow::Break(damaged)),
            Copied::Sealed(block, to) => (block, to),
        };
        let hidden_ino = *self.session.allocate_inodes(1).await?.first().ok_or_else(closing)?;
        self.put_pack(&block).await?;
        let within = batch.within.clone();
        let operation = RelocateContent { ino, to: &to, within, hidden_ino };
        let relocated = self.relocate(&operation, reading, &mut done.moved.refused).await;
        match relocated {
            Ok(Some(Relocated { bytes, .. })) if bytes > 0 => {
                done.moved.bytes += bytes;
                self.meters.bytes_compacted.add(bytes);
                self.session.wake_reaper();
                Ok(ControlFlow::Continue(()))
            }
            // The plan that references the block may still be committed, so the block must not be
            // deleted.
            Err(error @ VolumeError::Unknown(_)) => Err(error),
            none => {
                self.delete_pack(block.id()).await;
                done.again |= none?.is_none();
                Ok(ControlFlow::Continue(()))
            }
        }
    }

    /// Replaces a file's references to old blocks by references to their durable copy. Adds the
    /// plans that were refused to `refused`. Returns `None` if the file was written to so often
    /// meanwhile that this is left for later.
    async fn relocate(
        &self,
        operation: &RelocateContent<'_>,
        reading: &ReaderGuard,
        refused: &mut u64,
    ) -> Result<Option<Relocated>, VolumeError> {
        let mut run = Run::new(operation, self.session.env());
        for _ in 0..SWAP_TRIES_MAX {
            let (plan, relocated) = loop {
                match run.advance(&namespace::NoHints) {
                    Next::Read(reads) => {
                        let found = self.session.store().read(&reads).await?;
                        run.learn(reads, found);
                    }
                    Next::Commit(plan, relocated) => break (plan, relocated),
                    Next::Done(Ok(nothing)) => return Ok(Some(nothing)),
                    // The file is gone, and so are its references.
                    Next::Done(Err(FsError::Stale)) => return Ok(Some(Relocated::default())),
                    Next::Done(Err(error)) => return Err(error.into()),
                    Next::Corrupt(key, error) => return Err(session::corrupt(&key, &error)),
                }
            };
            let guards = plan.guards.clone();
            match self.session.commit_reading(plan, reading.clone()).await {
                Outcome::Committed => return Ok(Some(relocated)),
                Outcome::Refused { guard, found } => {
                    *refused += 1;
                    self.meters.compactions_refused.add(1);
                    if let Some(guard) = guards.get(guard) {
                        run.refused(guard, found);
                    }
                }
                Outcome::Aborted(why) => return Err(VolumeError::Unavailable(why)),
                Outcome::Failed(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

/// Compacts queued files and surveys all inodes, until the volume is closed.
pub(crate) async fn run_compactor(volume: Weak<Upkeep>) {
    let mut survey = Survey::begin();
    loop {
        let Some(alive) = volume.upgrade() else { return };
        let (closing, noted) =
            (alive.session.closing().clone(), Arc::clone(&alive.compacting.noted));
        let due = alive.compacting.next_due();
        drop(alive);
        tokio::select! {
            () = closing.cancelled() => return,
            () = tokio::time::sleep_until(due.map_or(survey.due, |due| due.min(survey.due))) => {}
            () = noted.notified() => continue,
        }
        let Some(alive) = volume.upgrade() else { return };
        if closing.is_cancelled() || alive.session.is_fenced() {
            return;
        }
        let now = Instant::now();
        // The survey takes one page per turn, so that it does not delay queued files.
        if now >= survey.due
            && let Err(error) = alive.survey_some(&mut survey).await
        {
            warn!(%error, "the survey of files to compact failed; retrying later");
            survey.due = now + COMPACT_RETRY;
        }
        if let Some((ino, note)) = alive.compacting.take_due(Some(now)) {
            alive.compact_noted(ino, note).await;
        }
    }
}

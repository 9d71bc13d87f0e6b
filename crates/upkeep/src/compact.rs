//! Moves what is left of a file's blocks out of those that writes have hidden most of.
//!
//! What is written over at random leaves its blocks run by run, and a block lives as long as anything
//! of it is named. So where less than half of a block shows, what shows is copied to a new one, in the
//! order of the file. The new block is durable before any plan names it. Then one plan swaps the part
//! of the content map that was looked at: the new slices, new pages, and an orphan that lists the
//! blocks and pages which are named no longer, as a write would leave it. Readers may still be at the
//! old places, and the reaper waits for them.
//!
//! **Beside writers.** The plan guards the exact record of the inode. A file that has changed since is
//! planned again from its newest record: what was written over in between stays as it was written,
//! and all else that was copied moves, because blocks do not change. So a file that is written to all
//! the time is compacted all the same. Two compactors do no harm: the second one finds nothing where
//! it copied from, and deletes its block.
//!
//! **In bounded steps.** A step copies one block and swaps a few pages, then goes on behind them. What
//! is remembered of a file is how much of each block shows, of so many blocks at a time: a larger map
//! is gone over several times, for some of its blocks each time.
//!
//! **Short runs.** A page of the map that is full of short runs, one behind the other, has them copied
//! together, once the file has rested or has very many pages.
//!
//! Whoever writes to a file notes it. That says only that it is worth a look. What other gateways, or
//! earlier processes, have left is found by a walk over all inodes, a page at a time. Packs of files
//! whose map stands in their records are the business of [`crate::repack`].
//!
//! It knows nothing of names, and of a file nothing but where its bytes lie.

mod collect;
mod copy;
mod look;
mod survey;

use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use std::time::Duration;

use namespace::{FsError, Next, RelocateContent, Relocated, Run};
use record::{Ino, Inode};
use session::{Outcome, Priority, ReaderGuard, VolumeError, closing};
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::compacting::{Note, is_worth_a_look};
use crate::repack::REPACK_BYTES_PER_SECOND;
use crate::upkeep::Upkeep;
use collect::Batch;
use copy::Copied;
use look::FileLook;
use survey::Survey;

/// How long a file has rested before its short runs are joined.
pub const JOIN_DELAY: Duration = Duration::from_secs(10);

/// The pause after a failure.
pub const COMPACT_RETRY: Duration = Duration::from_secs(30);

/// How often one swap is planned again because the file was written to.
const SWAP_TRIES_MAX: u32 = 32;

/// Steps that a file is given before others have their turn.
const STEPS_AT_ONCE: u32 = 64;

/// How many times as long as a look took the file is left alone afterwards, at most so long.
const REST_FACTOR: u32 = 9;
const REST_MAX: Duration = Duration::from_mins(10);

/// How often [`Upkeep::compact_now`] looks at a file: what other files let go of may change how much of
/// a shared block shows.
const ROUNDS_MAX: u32 = 8;

/// What the compactor did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Files of which anything was moved.
    pub files: u64,
    /// Bytes that were moved.
    pub bytes: u64,
    /// Plans that met a file which had changed; most were made again.
    pub refused: u64,
}

impl Compacted {
    fn add(&mut self, more: Compacted) {
        self.files += more.files;
        self.bytes += more.bytes;
        self.refused += more.refused;
    }
}

/// How a file is compacted.
#[derive(Clone, Copy, Debug)]
struct Manner {
    /// Whether short runs are joined.
    joins: bool,
    /// Whether it leaves time to others.
    throttled: bool,
}

/// What became of a file.
#[derive(Clone, Copy, Debug, Default)]
struct FileDone {
    moved: Compacted,
    /// Whether it is to be looked at again: it has short runs that were not joined, or runs that
    /// were not moved because they changed.
    again: bool,
    /// Steps that were taken.
    steps: u32,
}

impl Upkeep {
    /// Takes note of a file that was written to, whose inode is this now: the compactor looks at it if
    /// much of its blocks may be hidden.
    pub fn note_written(&self, ino: Ino, inode: &Inode) {
        if is_worth_a_look(inode) {
            self.compacting.note(ino);
        }
    }

    /// Takes note of files that are worth a look.
    pub(crate) fn note_hidden(&self, files: impl IntoIterator<Item = Ino>) {
        files.into_iter().for_each(|ino| self.compacting.note(ino));
    }

    /// Compacts every file that is worth it. What they leave behind is the reaper's.
    ///
    /// # Errors
    /// If a store cannot be reached; what was moved until then stays moved.
    pub async fn compact_now(&self) -> Result<Compacted, VolumeError> {
        let mut all = Compacted::default();
        for _ in 0..ROUNDS_MAX {
            self.survey_files().await?;
            let mut round = Compacted::default();
            while let Some((ino, note)) = self.compacting.take_due(None) {
                let manner = Manner { joins: true, throttled: false };
                match self.compact_file(ino, manner).await {
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

    /// Compacts a file that was noted, and notes it again if something is left to do.
    async fn compact_noted(&self, ino: Ino, note: Note) {
        let now = Instant::now();
        let joins = now >= note.written + JOIN_DELAY;
        let later = |due| Note { due, ..note };
        match self.compact_file(ino, Manner { joins, throttled: true }).await {
            Ok(FileDone { moved: Compacted { bytes, refused, .. }, again, steps }) => {
                debug!(ino = ino.0, bytes, refused, "file compacted");
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
                warn!(ino = ino.0, %error, "compacting a file failed; it is tried again");
                self.compacting.note_for_later(ino, later(now + COMPACT_RETRY));
            }
        }
    }

    /// Looks at a file, and moves what is left of the blocks of which little shows.
    async fn compact_file(&self, ino: Ino, manner: Manner) -> Result<FileDone, VolumeError> {
        let _one = self.compacting.round.lock().await;
        let (mut done, mut share) = (FileDone::default(), 0);
        loop {
            let began = Instant::now();
            let Some(mut look) = self.look_at_file(ino, share, manner.joins).await? else { break };
            // What takes long to look at is looked at seldom.
            self.compacting.rest(ino, (began.elapsed() * REST_FACTOR).min(REST_MAX));
            done.again |= look.is_crowded && !look.joins;
            let mut from = Some(0);
            while let Some(at) = from.filter(|_| !look.is_done()) {
                if manner.throttled && done.steps >= STEPS_AT_ONCE {
                    break;
                }
                done.steps += 1;
                from = self.step(ino, &mut look, at, manner, &mut done).await?;
            }
            share += 1;
            if share >= look.shares || manner.throttled && done.steps >= STEPS_AT_ONCE {
                break;
            }
        }
        let moved = &mut done.moved;
        moved.files = u64::from(moved.bytes > 0);
        self.meters.files_compacted.add(moved.files);
        Ok(done)
    }

    /// Moves what the next part of a content map has in the blocks that were chosen. Answers where to go
    /// on; `None` at the map's end.
    async fn step(
        &self,
        ino: Ino,
        look: &mut FileLook,
        from: u64,
        manner: Manner,
        done: &mut FileDone,
    ) -> Result<Option<u64>, VolumeError> {
        if self.session.closing().is_cancelled() {
            return Err(closing());
        }
        let urgent = look.is_urgent || !manner.throttled;
        let priority = if urgent { Priority::Urgent } else { Priority::Background };
        let throttled = self.session.throttle().begin_step(priority);
        // From before anything is found until the outcome of the swap is known.
        let reading = self.session.reading();
        let batch = self.collect_runs(ino, look, from).await?;
        let (next, traffic) = (batch.next, u64::from(batch.bytes) * 2);
        done.again |= batch.left;
        if !batch.taken.is_empty() {
            match self.move_batch(ino, &batch, &reading, done).await? {
                ControlFlow::Continue(()) => {}
                ControlFlow::Break(damaged) => {
                    look.leave(damaged);
                    return Ok(Some(from));
                }
            }
        }
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

    /// Copies a batch into a new block and has the file name it; breaks off with a block that cannot be
    /// read.
    async fn move_batch(
        &self,
        ino: Ino,
        batch: &Batch,
        reading: &ReaderGuard,
        done: &mut FileDone,
    ) -> Result<ControlFlow<record::BlockId>, VolumeError> {
        let patience = self.staging.deadlines.block;
        let _permit = self.staging.budget.acquire(copy::memory_for(batch), patience).await?;
        let (block, to) = match self.copy_batch(batch).await? {
            Copied::Damaged(damaged) => return Ok(ControlFlow::Break(damaged)),
            Copied::Sealed(block, to) => (block, to),
        };
        let hidden_as = *self.session.allocate_inodes(1).await?.first().ok_or_else(closing)?;
        self.put_pack(&block).await?;
        let within = batch.within.clone();
        let operation = RelocateContent { ino, to: &to, within, hidden_as };
        let relocated = self.relocate(&operation, reading, &mut done.moved.refused).await;
        match relocated {
            Ok(Some(Relocated { bytes, .. })) if bytes > 0 => {
                done.moved.bytes += bytes;
                self.meters.bytes_compacted.add(bytes);
                self.session.wake_reaper();
                Ok(ControlFlow::Continue(()))
            }
            // A plan that names the block may happen yet.
            Err(error @ VolumeError::Unknown(_)) => Err(error),
            none => {
                self.delete_pack(block.id()).await;
                done.again |= none?.is_none();
                Ok(ControlFlow::Continue(()))
            }
        }
    }

    /// Has a file name a copy of its bytes that is durable; `None` if it was written to so often
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
                    // It is gone, and what it had with it.
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

/// Compacts files as they are noted, and looks for others, for as long as the volume lives.
pub(crate) async fn compact_always(volume: Weak<Upkeep>) {
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
        if now >= survey.due
            && let Err(error) = alive.survey_some(&mut survey).await
        {
            warn!(%error, "looking for files to compact failed; it is tried again in a while");
            survey.due = now + COMPACT_RETRY;
        }
        if let Some((ino, note)) = alive.compacting.take_due(Some(now)) {
            alive.compact_noted(ino, note).await;
        }
    }
}

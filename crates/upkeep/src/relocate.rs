//! The relocator: moves content into new blocks, so that records stay short and blocks with few
//! live bytes can be deleted.
//!
//! Three policies choose the content: *destage* moves [bodies] that are staged inline, *repack* the
//! live bytes of [packs] of which less than half is live, and *compact* the visible bytes of
//! [files] out of blocks that later writes have mostly hidden. Each has a queue of candidates with
//! delays, and a survey, which finds the candidates that other gateways or earlier processes have
//! left. Each runs in a task of its own, so that a long compaction does not delay bodies in
//! records.
//!
//! All share the [step]: it copies the bytes of a [batch] into one new block, compares them with
//! the bytes that were read, puts the block, and makes each file reference the copy by a plan of
//! its own. For example, a step takes five sparse packs from the queue, copies 6 MiB of live bytes,
//! and changes the inodes of 80 files. The reaper deletes the old packs when their readers have
//! ended.
//!
//! **Invariant.** At every instant a file references the old bytes or their copy in a durable
//! block, and both are the same. The bytes are verified by the old block's checksums when they are
//! read, and the new block is compared with them before it is put. Each plan guards the exact
//! record of the inode. Readers may still use the old bytes, so the plan leaves an orphan, and the
//! reaper releases the old blocks after these readers have ended.
//!
//! *Limits*: one new block for each step; a pause after each step while requests are served, and
//! [`RELOCATE_BYTES_PER_SECOND`]. Each gateway has one relocator. Two that work on the same content
//! do no harm, because one of two plans is refused.
//!
//! The relocator does not know names. Of a file it knows only the content.

mod batch;
mod bodies;
mod copy;
mod files;
mod packs;
mod protect;
mod retire;
mod select;
mod step;

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use content::DESTAGE_DELAY;
use session::{Priority, ThrottledStep, VolumeError, closing};
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::relocation_queue::Policy;
use crate::upkeep::Upkeep;
pub use files::JOIN_DELAY;
pub use retire::{KnownBlocks, RetirePass, RetireProgress, WRITERS_GRACE};
pub use step::{Moves, RelocationStep};

/// The delay of the first survey after the start.
pub const SURVEY_DELAY: Duration = Duration::from_mins(1);

/// The interval of surveys. A survey reads the records of all candidates.
const SURVEY_INTERVAL: Duration = Duration::from_hours(1);

/// The limit of bytes of blocks that the relocator reads and writes per second, averaged over a
/// step.
const RELOCATE_BYTES_PER_SECOND: u64 = 32 << 20;

/// If more packs than this are queued, the steps are not throttled.
const PACKS_THROTTLED_MAX: usize = 256;

/// The most times that [`Upkeep::repack_now`] processes the queue.
const REPACK_ROUNDS_MAX: u32 = 16;

/// The most times that [`Upkeep::compact_now`] looks at all files. Several times are needed because
/// releases by other files may change how much of a shared block is visible.
const COMPACT_ROUNDS_MAX: u32 = 8;

/// The position of a survey, a walk over all records that may have candidates of a policy.
#[derive(Debug)]
struct Survey {
    /// The time at which the next page is due.
    due: Instant,
    /// The time at which this walk began.
    began: Instant,
    resume: Option<Bytes>,
}

impl Upkeep {
    /// Destages every body of all sessions, whether or not it is due: moves it from its inode's
    /// record into a block.
    ///
    /// # Errors
    /// Fails if a store cannot be reached, or if the volume is closed meanwhile. Bodies that were
    /// destaged before stay destaged.
    pub async fn destage_now(&self) -> Result<Moves, VolumeError> {
        let (mut all, until) = (Moves::default(), Instant::now());
        while let Some(own) = self.destage_some(until).await? {
            all += own;
        }
        all += self.survey_all(Policy::Destage).await?;
        Ok(all)
    }

    /// Rewrites every sparse pack: copies the live bytes of each block of several files of which
    /// less than half is live into a new pack. The reaper removes the old packs afterwards.
    ///
    /// # Errors
    /// Fails if a store cannot be reached, or if the volume is closed meanwhile. Packs that were
    /// rewritten before stay rewritten.
    pub async fn repack_now(&self) -> Result<Moves, VolumeError> {
        let mut all = self.survey_all(Policy::Repack).await?;
        for _ in 0..REPACK_ROUNDS_MAX {
            let mut again = BTreeSet::new();
            let ended = loop {
                match self.repack_some(&mut again).await {
                    Ok(Some(step)) => all += step.done,
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                }
            };
            let done = again.is_empty();
            // Queue them before an error is returned, so that they are not lost.
            self.note_sparse_packs(again);
            ended?;
            if done {
                break;
            }
        }
        Ok(all)
    }

    /// Compacts every file that needs it: moves its visible bytes out of blocks that later writes
    /// have mostly hidden. The reaper removes the old blocks afterwards.
    ///
    /// # Errors
    /// Fails if a store cannot be reached, or if the volume is closed meanwhile. Bytes that were
    /// moved before stay moved.
    pub async fn compact_now(&self) -> Result<Moves, VolumeError> {
        let mut all = Moves::default();
        for _ in 0..COMPACT_ROUNDS_MAX {
            let mut round = self.survey_all(Policy::Compact).await?;
            while let Some((ino, note)) = self.files.take_due(None) {
                let done = self.compact_file(ino, None).await;
                round += done.inspect_err(|_| self.files.note_for_later(ino, note))?.moves;
            }
            all += round;
            if round.bytes == 0 {
                break;
            }
        }
        Ok(all)
    }

    /// Reads one page of a policy's survey. Queues its candidates, or moves them at once if they
    /// are bodies. Returns the moves, and the position of the next page.
    async fn survey_page(
        &self,
        policy: Policy,
        resume: Option<Bytes>,
    ) -> Result<(Moves, Option<Bytes>), VolumeError> {
        Ok(match policy {
            Policy::Destage => self.destage_marked(resume).await?,
            Policy::Repack => (Moves::default(), self.survey_packs(resume).await?),
            Policy::Compact => (Moves::default(), self.survey_files(resume).await?),
        })
    }

    async fn survey_all(&self, policy: Policy) -> Result<Moves, VolumeError> {
        let (mut all, mut resume) = (Moves::default(), None);
        loop {
            let (moves, next) = self.survey_page(policy, resume).await?;
            all += moves;
            if next.is_none() {
                return Ok(all);
            }
            if self.session.closing().is_cancelled() {
                return Err(closing());
            }
            resume = next;
        }
    }

    /// Reads the next page of a survey. After the last page a new walk begins, one interval after
    /// this one began.
    async fn survey_some(&self, policy: Policy, survey: &mut Survey) -> Result<(), VolumeError> {
        let now = Instant::now();
        if survey.resume.is_none() {
            survey.began = now;
        }
        let step = self.session.throttle().begin_step(Priority::Background);
        (_, survey.resume) = self.survey_page(policy, survey.resume.clone()).await?;
        // Only the survey of bodies moves content.
        if policy == Policy::Destage {
            self.pause_after_step(step, 0).await;
        }
        survey.due = match survey.resume {
            Some(_) => now + policy.survey_pause(),
            None => survey.began + SURVEY_INTERVAL,
        };
        Ok(())
    }

    /// Returns the time at which the next candidate of a policy is due; `None` if none is queued.
    fn next_due(&self, policy: Policy) -> Option<Instant> {
        match policy {
            Policy::Destage => self.staging.staged_inline.next_due(),
            Policy::Repack => self.packs.next_due(),
            Policy::Compact => self.files.next_due(),
        }
    }

    /// Returns the `Notify` that is notified when a candidate of a policy is due before the others.
    fn earlier(&self, policy: Policy) -> Arc<Notify> {
        match policy {
            Policy::Destage => self.staging.staged_inline.added(),
            Policy::Repack => Arc::clone(&self.packs.earlier),
            Policy::Compact => Arc::clone(&self.files.earlier),
        }
    }

    /// Moves the content of candidates of a policy that are due. It ends after one new block; after
    /// several if the candidate is a file.
    async fn relocate_due(&self, policy: Policy) -> Result<(), VolumeError> {
        let now = Instant::now();
        if self.next_due(policy).is_none_or(|due| due > now) {
            return Ok(());
        }
        match policy {
            Policy::Destage => {
                let step = self.session.throttle().begin_step(Priority::Background);
                let until = now.checked_sub(DESTAGE_DELAY).unwrap_or(now);
                let moves = self.destage_some(until).await?;
                debug!(?moves, "bodies destaged");
                self.pause_after_step(step, 0).await;
            }
            Policy::Repack => {
                // Dead bytes must not accumulate while requests are served.
                let urgent = self.packs.len() > PACKS_THROTTLED_MAX;
                let priority = if urgent { Priority::Urgent } else { Priority::Background };
                let step = self.session.throttle().begin_step(priority);
                let mut again = BTreeSet::new();
                let repacked = self.repack_some(&mut again).await;
                // These packs are looked at again after a delay.
                self.note_sparse_packs(again);
                if let Some(RelocationStep { done, traffic }) = repacked? {
                    debug!(moves = ?done, "packs rewritten");
                    self.pause_after_step(step, traffic).await;
                }
            }
            Policy::Compact => {
                if let Some((ino, note)) = self.files.take_due(Some(now)) {
                    self.compact_noted(ino, note).await;
                }
            }
        }
        Ok(())
    }

    /// Adds the moves of a policy to its counters.
    fn count(&self, policy: Policy, moves: &Moves) {
        let m = &self.meters;
        let (sources, bytes, refused) = match policy {
            Policy::Destage => (&m.bodies_destaged, &m.bytes_destaged, &m.destagings_refused),
            Policy::Repack => (&m.packs_rewritten, &m.bytes_repacked, &m.repackings_refused),
            Policy::Compact => (&m.files_compacted, &m.bytes_compacted, &m.compactions_refused),
        };
        if policy == Policy::Repack {
            m.packs_left.add(moves.skipped);
        }
        refused.add(moves.refused);
        sources.add(moves.sources);
        bytes.add(moves.bytes);
    }

    /// Ends a step of the relocator: pauses while requests are served, and so that not more than
    /// [`RELOCATE_BYTES_PER_SECOND`] of `traffic`, in bytes, are moved.
    async fn pause_after_step(&self, step: ThrottledStep, traffic: u64) {
        self.session.throttle().pause_after(step).await;
        if traffic > 0 {
            let pause = traffic.saturating_mul(1_000) / RELOCATE_BYTES_PER_SECOND;
            wait(self, Duration::from_millis(pause)).await;
        }
    }
}

/// Waits for this time, or until the volume is closed.
async fn wait(upkeep: &Upkeep, time: Duration) {
    tokio::select! {
        () = upkeep.session.closing().cancelled() => {}
        () = tokio::time::sleep(time) => {}
    }
}

/// Moves the content of a policy's candidates when they are due, and surveys all records, until the
/// volume is closed.
pub(crate) async fn run_relocator(upkeep: Weak<Upkeep>, policy: Policy) {
    let began = Instant::now();
    let mut survey = Survey { due: began + SURVEY_DELAY, began, resume: None };
    loop {
        let Some(alive) = upkeep.upgrade() else { return };
        let closing = alive.session.closing().clone();
        let (due, earlier) = (alive.next_due(policy), alive.earlier(policy));
        drop(alive);
        tokio::select! {
            () = closing.cancelled() => return,
            () = tokio::time::sleep_until(due.map_or(survey.due, |due| due.min(survey.due))) => {}
            // Bodies come in the order in which they are due, so only the first one ends the wait.
            () = earlier.notified(), if due.is_none() || policy != Policy::Destage => continue,
        }
        let Some(alive) = upkeep.upgrade() else { return };
        if closing.is_cancelled() || alive.session.is_fenced() {
            return;
        }
        let now = Instant::now();
        // The survey takes one page per turn, so that it does not delay queued candidates.
        if now >= survey.due
            && let Err(error) = alive.survey_some(policy, &mut survey).await
        {
            warn!(?policy, %error, "the survey of content to move failed; retrying later");
            survey.due = now + policy.retry_pause();
        }
        match alive.relocate_due(policy).await {
            Ok(()) => {}
            Err(error) if closing.is_cancelled() => debug!(?policy, %error, "moving content ended"),
            Err(error) => {
                warn!(?policy, %error, "moving content failed; retrying later");
                wait(&alive, policy.retry_pause()).await;
            }
        }
    }
}

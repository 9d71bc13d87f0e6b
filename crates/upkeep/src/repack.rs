//! The rewriter: copies the live bytes of sparse packs into new packs, so that the old packs can be
//! deleted.
//!
//! A pack exists as long as one of its owners, and most of its bytes may be dead by then. A pack of
//! which less than half is live is *sparse*. Its live bytes are copied into a new pack, together
//! with those of other sparse packs. The new pack is durable before any plan references it. Then
//! each owner's inode is swapped by a plan of its own, under a guard of its exact record. The plan
//! writes the new slices, a share in the new pack, and an orphan for the share in the old pack. If
//! an owner changed meanwhile, its plan is refused and the owner stays in the old pack. This leaves
//! dead bytes in the new pack and does no other harm.
//!
//! For example, ten packs of 8 MiB with 1 MiB of live bytes each become two new packs, and
//! the ten old packs are deleted when their readers have ended.
//!
//! *Trigger*: [`REPACK_DELAY`] after a pack was queued; every [`SURVEY_INTERVAL`] a survey of all
//! packs. *Limits*: one new pack per round, and [`REPACK_BYTES_PER_SECOND`].
//!
//! **Invariant.** At every instant a file references the old pack or the new one, and both hold the
//! same bytes. The bytes are verified by the old block's checksums when they are read, and the new
//! block is compared with them before it is put. Readers may still use the old pack, so the old
//! share is removed by the reaper after these readers have ended, and the old pack is deleted with
//! its last share.
//!
//! The counter of a pack only shows whether the pack is worth a look. The reaper queues packs that
//! its releases made sparse; a survey of the counters finds the others. A pack with an owner that
//! cannot be moved (a part of an upload) is left as it is. An owner whose content map is in pages
//! is left to [`crate::compact`]; the other owners are moved after it has released the pack. Each
//! gateway has one rewriter. Two that work on the same pack do no harm, because one of two swaps is
//! refused.
//!
//! The rewriter does not know names. Of a file it knows only the slices.

mod batch;
mod rewrite;
mod survey;

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use record::BlockId;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use session::VolumeError;

use crate::upkeep::Upkeep;
pub use rewrite::{RepackRound, Repacked};

/// The delay between a notification of sparse packs and the rewriter's round, so that the live
/// bytes of several packs go into one new pack.
pub const REPACK_DELAY: Duration = Duration::from_secs(10);

/// The delay of the first survey (a look at the counters of all packs) after the start.
pub const SURVEY_DELAY: Duration = Duration::from_mins(1);

/// The interval of surveys, that is, looks at the counters of all packs.
pub const SURVEY_INTERVAL: Duration = Duration::from_hours(1);

/// The limit of bytes that the rewriter of packs reads and writes per second, averaged over a
/// round.
pub const REPACK_BYTES_PER_SECOND: u64 = 32 << 20;

/// The pause of the rewriter after a failure.
const RETRY_PAUSE: Duration = Duration::from_secs(30);

/// The most times that [`Upkeep::repack_now`] processes the queue.
const ROUNDS_MAX: u32 = 16;

impl Upkeep {
    /// Queues packs (blocks of several files) for the rewriter of which less than half may be live,
    /// that is, referenced. The next round looks at them.
    pub fn note_sparse_packs(&self, packs: impl IntoIterator<Item = BlockId>) {
        self.repacking.note(packs);
    }

    /// Rewrites every sparse pack: copies the live bytes of each block of several files of which
    /// less than half is live into a new pack. The reaper removes the old packs afterwards.
    ///
    /// # Errors
    /// If a store cannot be reached. Packs that were rewritten before stay rewritten.
    pub async fn repack_now(&self) -> Result<Repacked, VolumeError> {
        self.survey_packs().await?;
        let mut all = Repacked::default();
        for _ in 0..ROUNDS_MAX {
            let mut again = BTreeSet::new();
            let ended = loop {
                match self.repack_some(&mut again).await {
                    Ok(Some(round)) => all.add(round.done),
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                }
            };
            let done = again.is_empty();
            // Queue them before an error is returned, so that they are not lost.
            self.repacking.note(again);
            ended?;
            if done {
                break;
            }
        }
        Ok(all)
    }
}

/// Rewrites packs (blocks of several files) of which less than half is still live, until the volume
/// is closed.
pub(crate) async fn run_repacker(volume: Weak<Upkeep>) {
    let mut survey = Instant::now() + SURVEY_DELAY;
    loop {
        let Some(alive) = volume.upgrade() else { return };
        let (closing, noted) =
            (alive.session.closing().clone(), Arc::clone(&alive.repacking.noted));
        drop(alive);
        tokio::select! {
            () = closing.cancelled() => return,
            () = tokio::time::sleep_until(survey) => {}
            () = async {
                noted.notified().await;
                tokio::time::sleep(REPACK_DELAY).await;
            } => {}
        }
        if Instant::now() >= survey {
            survey = Instant::now() + SURVEY_INTERVAL;
            let Some(alive) = volume.upgrade() else { return };
            if let Err(error) = alive.survey_packs().await {
                warn!(%error, "the survey of sparse packs failed; retrying later");
            }
        }
        if repack_all(&volume, &closing).await.is_none() {
            return;
        }
    }
}

/// Rewrites the queued packs of which little is live, within the limit of bytes per second. Returns
/// `None` when the volume is closing.
async fn repack_all(volume: &Weak<Upkeep>, closing: &CancellationToken) -> Option<()> {
    let mut again = BTreeSet::new();
    loop {
        let alive = volume.upgrade()?;
        if closing.is_cancelled() || alive.session.is_fenced() {
            return None;
        }
        let step = alive.session.throttle().begin_step(alive.repacking.priority());
        let pause = match alive.repack_some(&mut again).await {
            Ok(None) => break,
            Ok(Some(RepackRound { done, traffic })) => {
                let Repacked { packs, bytes, skipped, refused } = done;
                debug!(packs, bytes, skipped, refused, "packs rewritten");
                alive.session.throttle().pause_after(step).await;
                Duration::from_millis(traffic.saturating_mul(1_000) / REPACK_BYTES_PER_SECOND)
            }
            Err(error) => {
                warn!(%error, "rewriting packs failed; retrying later");
                RETRY_PAUSE
            }
        };
        drop(alive);
        tokio::select! {
            () = closing.cancelled() => return None,
            () = tokio::time::sleep(pause) => {}
        }
    }
    // These packs are looked at again in the next round, after a delay.
    volume.upgrade()?.repacking.note(again);
    Some(())
}

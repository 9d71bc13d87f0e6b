//! Rewrites packs of which little is alive, so that what is dead in them can be deleted.
//!
//! A pack lives as long as any of its owners, and most of it may be dead by then. One below half is
//! *sparse*: what is alive in it is copied into a new pack, together with what is left of other
//! such packs. The new pack is durable before any plan names it. Then each owner's inode is swapped
//! in a plan of its own, under the guard of its exact record: the new slices, a share in the new
//! pack, and an orphan that stands for the share in the old one. An owner that changed meanwhile is
//! refused and stays where it was, which leaves dead bytes in the new pack and does no other harm.
//! Readers may still hold the old place, so the old share goes with the orphan, by the reaper,
//! after their epochs; and the old pack with its last share.
//!
//! So a file is at each instant in the one place or in the other, and both hold the same bytes:
//! they are verified against the old block's checksums as they are read, and compared by checksum
//! with what the new block holds under the slices that are about to be published.
//!
//! The counter of a pack only says whether it is worth a look. The reaper notes packs that became
//! sparse through it; others are found by a walk over the counters now and then. A pack with an
//! owner that cannot be moved (a part of an upload) is left as it is. One whose content map is in
//! pages is left to [`crate::compact`], and the others move when it has let go. There is one rewriter
//! in each gateway. Two that work on the same pack do no harm:
//! of two swaps one is refused.
//!
//! It knows nothing of names, and of a file nothing but where its bytes lie.

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

/// How long the rewriter waits after a notification, so that what is left of several packs goes
/// into one.
pub const REPACK_DELAY: Duration = Duration::from_secs(10);

/// How long after the start it looks for sparse packs that nobody noted.
pub const SURVEY_DELAY: Duration = Duration::from_mins(1);

/// How often it does so then.
pub const SURVEY_INTERVAL: Duration = Duration::from_hours(1);

/// Bytes that the rewriter reads and writes in a second, at most, in the long run.
pub const REPACK_BYTES_PER_SECOND: u64 = 32 << 20;

/// The pause after a failure.
const RETRY_PAUSE: Duration = Duration::from_secs(30);

/// How often [`Upkeep::repack_now`] goes over what was noted.
const ROUNDS_MAX: u32 = 16;

impl Upkeep {
    /// Takes note of packs that may be sparse: the next round looks at them.
    pub fn note_sparse_packs(&self, packs: impl IntoIterator<Item = BlockId>) {
        self.repacking.note(packs);
    }

    /// Rewrites every sparse pack. What they leave behind is the reaper's.
    ///
    /// # Errors
    /// If a store cannot be reached; what was rewritten until then stays rewritten.
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
            self.repacking.note(again);
            ended?;
            if done {
                break;
            }
        }
        Ok(all)
    }
}

/// Rewrites packs that became sparse, for as long as the volume lives.
pub(crate) async fn repack_always(volume: Weak<Upkeep>) {
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
                warn!(%error, "looking for sparse packs failed; it is tried again in a while");
            }
        }
        if repack_all(&volume, &closing).await.is_none() {
            return;
        }
    }
}

/// Goes once over what was noted, no faster than it should; `None` when the volume is going.
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
                let Repacked { packs, bytes, left, refused } = done;
                debug!(packs, bytes, left, refused, "packs rewritten");
                alive.session.throttle().pause_after(step).await;
                Duration::from_millis(traffic.saturating_mul(1_000) / REPACK_BYTES_PER_SECOND)
            }
            Err(error) => {
                warn!(%error, "rewriting packs failed; it is tried again");
                RETRY_PAUSE
            }
        };
        drop(alive);
        tokio::select! {
            () = closing.cancelled() => return None,
            () = tokio::time::sleep(pause) => {}
        }
    }
    // They come with the next round, a while from now.
    volume.upgrade()?.repacking.note(again);
    Some(())
}

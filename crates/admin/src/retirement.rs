//! The retirement of a ring key: all content under it moves to the current keys, and then the key
//! is removed.
//!
//! ```text
//!  retire ──▶ passes that move content ──▶ close ──▶ wait for writers ──▶ pass that finds nothing
//!               ▲          │                                    │                     │
//!               └── reap ◀─┘                                    └─▶ more passes       ▼ remove
//! ```
//!
//! For example, `ashlar ring retire 1` calls [`Admin::retire_ring_key`]. If the process is killed,
//! the next call begins with the states and the content that it finds.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use block::BlockStore;
use keystore::{KeyStore, KeyStoreError};
use maintained::MaintainedVolume;
use record::RingNumber;
use upkeep::{KnownBlocks, Moves, RetirePass, RetireProgress, Upkeep};
use volume::VolumeOptions;

use crate::{Admin, AdminError};

/// The most passes in a row that move nothing, while a later one may find less.
const IDLE_PASSES_MAX: u32 = 6;

/// The pause after the first pass in a row that moved nothing. Each further pause is twice as long.
const IDLE_PAUSE: Duration = Duration::from_millis(500);

/// The interval at which the records of the ring are read, so that content never moves to a key
/// that another operator retires meanwhile.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

/// Options of the retirement of a ring key.
#[derive(Clone, Copy, Debug, Default)]
pub struct Retirement {
    /// True if no other process uses the metadata store; see [`crate::Collection::sole`].
    pub sole: bool,
    /// The time for which a block is kept after a commit has freed it. `None` for the default of
    /// the store.
    pub deletion_grace: Option<Duration>,
}

/// The result of the retirement of a ring key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retired {
    /// The content that was moved.
    pub moved: Moves,
    /// The content that is left under the key, which stays retired. `None`: nothing is left, and
    /// the key is removed.
    pub left: Option<RetirePass>,
}

impl Admin {
    /// Moves all content under a ring key to the current keys, and removes the key if nothing is
    /// left under it. Runs in a session of its own, beside gateways that serve. Content that cannot
    /// move is counted; a later call continues. A key that was removed before is a success.
    ///
    /// # Errors
    /// [`AdminError::NoVolume`]; [`AdminError::Ring`] if the key is a current one, does not exist
    /// or cannot be used; and if a store cannot be read or changed. Content that was moved stays
    /// moved.
    pub async fn retire_ring_key(
        &self,
        blocks: Arc<dyn BlockStore>,
        ring: &Arc<KeyStore>,
        number: RingNumber,
        how: Retirement,
        progress: &dyn RetireProgress,
    ) -> Result<Retired, AdminError> {
        self.check_volume().await?;
        match ring.retire(number).await {
            Err(KeyStoreError::NoSuchKey(_)) if ring.was_removed(number) => {
                return Ok(Retired::default());
            }
            retired => retired?,
        }
        // Without the key none of its content can be read, so nothing is begun.
        ring.check_usable(number).await?;
        let session = self.session_options(how.sole);
        let rings = Arc::clone(ring) as Arc<dyn keyring::Rings>;
        let options = VolumeOptions { session, rings, ..VolumeOptions::default() };
        let (grace, store) = (how.deletion_grace, Arc::clone(&self.store));
        let volume = MaintainedVolume::open_without_tasks(options, grace, store, blocks).await?;
        let retired = following(ring, empty(volume.upkeep(), ring, number, progress)).await;
        // The session ends before the result is returned, also after an error.
        volume.close().await;
        retired
    }
}

/// Runs passes until nothing is left under the key or nothing more can be moved.
async fn empty(
    upkeep: &Upkeep,
    ring: &KeyStore,
    number: RingNumber,
    progress: &dyn RetireProgress,
) -> Result<Retired, AdminError> {
    let (mut moved, mut known) = (Moves::default(), KnownBlocks::default());
    let (mut idle_passes, mut pause, mut is_closed) = (0, IDLE_PAUSE, false);
    loop {
        let pass = upkeep.retire_pass(number, &mut known, progress).await?;
        moved += pass.moved;
        match (pass.is_clean(), is_closed) {
            (true, true) => {
                ring.remove(number).await?;
                return Ok(Retired { moved, left: None });
            }
            (true, false) => {
                // Files that were being written when the key was retired may still get it.
                ring.close(number).await?;
                upkeep.wait_for_writers().await?;
                is_closed = true;
                continue;
            }
            (false, _) => {}
        }
        if !pass.may_shrink() {
            return Ok(Retired { moved, left: Some(pass) });
        }
        let reaped = upkeep.reap_now().await?;
        if pass.moved.sources > 0 || reaped.blocks > 0 {
            (idle_passes, pause) = (0, IDLE_PAUSE);
            continue;
        }
        idle_passes += 1;
        if idle_passes >= IDLE_PASSES_MAX {
            return Ok(Retired { moved, left: Some(pass) });
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
}

/// Runs work, and reads the records of the ring again meanwhile. A failure leaves the known records
/// in force; if it lasts, the work fails, too.
async fn following<T>(ring: &KeyStore, work: impl Future<Output = T>) -> T {
    // Both make progress at the same time: the work may hold a connection that the read needs.
    tokio::select! {
        done = work => done,
        never = reload_always(ring) => match never {},
    }
}

async fn reload_always(ring: &KeyStore) -> Infallible {
    loop {
        tokio::time::sleep(RELOAD_INTERVAL).await;
        let _failed = ring.reload().await;
    }
}

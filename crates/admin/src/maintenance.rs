//! Garbage collection, and checks of a whole volume.
//!
//! For example, `ashlar gc --dry-run` calls [`Admin::collect`], and `ashlar fsck` calls
//! [`Admin::check`].

use std::sync::Arc;
use std::time::Duration;

use block::BlockStore;
use maintained::MaintainedVolume;
use session::SessionOptions;
use upkeep::{Collected, Progress, Report, SweepOptions};
use volume::VolumeOptions;

use crate::{Admin, AdminError};

/// Options of garbage collection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Collection {
    /// True if no other process uses the metadata store. Open sessions then belong to processes
    /// that were killed, and are fenced, that is, ended from outside, without a wait.
    pub sole: bool,
    /// The time for which a block is kept after a commit has freed it. `None` for the default of
    /// the store.
    pub deletion_grace: Option<Duration>,
    /// The limits of the sweep, the search for blocks that no record refers to.
    pub sweep: SweepOptions,
}

impl Admin {
    /// Deletes unreferenced records and blocks, in a session of its own; see
    /// [`upkeep::Upkeep::gc`]. A dry
    /// run only counts them. The result shows if there was more than the limit of one run.
    ///
    /// # Errors
    /// [`AdminError::NoVolume`], and if the volume cannot be opened or collected to the end.
    pub async fn collect(
        &self,
        blocks: Arc<dyn BlockStore>,
        how: Collection,
    ) -> Result<Collected, AdminError> {
        self.check_volume().await?;
        let session = self.session_options(how.sole);
        let options = VolumeOptions { session, ..VolumeOptions::default() };
        let (grace, store) = (how.deletion_grace, Arc::clone(&self.store));
        let volume = MaintainedVolume::open_without_tasks(options, grace, store, blocks).await?;
        let collected = volume.upkeep().gc(how.sweep).await;
        // The session ends before the result is returned, also after an error.
        volume.close().await;
        Ok(collected?)
    }

    /// Compares the records with each other and with the blocks, and changes nothing: see
    /// [`upkeep::fsck`]. The result lists the findings.
    ///
    /// # Errors
    /// [`AdminError::NoVolume`], and if a store cannot be read to the end.
    pub async fn check(
        &self,
        blocks: Arc<dyn BlockStore>,
        progress: &dyn Progress,
    ) -> Result<Report, AdminError> {
        self.check_volume().await?;
        // With the block store of another volume the check would report each block as lost.
        session::check_block_owner(&*self.store, &*blocks).await?;
        Ok(upkeep::fsck(Arc::clone(&self.store), blocks, progress).await?)
    }

    /// Returns the options of a session for one operation, which creates no volume. `sole` is true
    /// if no other process uses the metadata store.
    pub(crate) fn session_options(&self, sole: bool) -> SessionOptions {
        SessionOptions {
            sole,
            place: self.surroundings.place.clone(),
            clock: Arc::clone(&self.surroundings.clock),
            creates_volume: false,
            ..SessionOptions::default()
        }
    }

    /// Fails with `NoVolume` if the store has no volume. Without this check a mistyped address
    /// would create an empty volume, in which a check finds nothing wrong.
    pub(crate) async fn check_volume(&self) -> Result<(), AdminError> {
        if self.has_volume().await? { Ok(()) } else { Err(AdminError::NoVolume) }
    }
}

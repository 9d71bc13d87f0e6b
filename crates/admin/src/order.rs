//! Garbage collection, and checks of a whole volume.

use std::sync::Arc;
use std::time::Duration;

use block::BlockStore;
use session::SessionOptions;
use upkeep::{Collected, Progress, Report, SweepOptions};
use volume::{Volume, VolumeOptions};

use crate::{Admin, AdminError};

/// Options of garbage collection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Collection {
    /// Whether nobody else uses the metadata store. Then sessions that look open are left over from
    /// processes that were killed, and are ended.
    pub sole: bool,
    /// How long a block is kept after a commit has freed it; `None` for the default of the store.
    pub deletion_grace: Option<Duration>,
    /// How far it may go.
    pub sweep: SweepOptions,
}

impl Admin {
    /// Deletes what is dead, in a session of its own: see [`Volume::gc`]. A dry run only counts.
    /// The result says whether there was more than may be deleted at a time.
    ///
    /// # Errors
    /// [`AdminError::NoVolume`], and if the volume cannot be opened or collected to the end.
    pub async fn collect(
        &self,
        blocks: Arc<dyn BlockStore>,
        how: Collection,
    ) -> Result<Collected, AdminError> {
        self.check_volume().await?;
        let session = SessionOptions {
            sole: how.sole,
            place: self.surroundings.place.clone(),
            clock: Arc::clone(&self.surroundings.clock),
            creates_volume: false,
            ..SessionOptions::default()
        };
        let options = VolumeOptions {
            session,
            collect: false,
            deletion_grace: how.deletion_grace,
            ..VolumeOptions::default()
        };
        let volume = Volume::open(options, Arc::clone(&self.store), blocks).await?;
        let collected = volume.gc(how.sweep).await;
        volume.close().await;
        Ok(collected?)
    }

    /// Compares the records with each other and with the blocks, and changes nothing: see
    /// [`upkeep::fsck`]. The result lists what is wrong.
    ///
    /// # Errors
    /// [`AdminError::NoVolume`], and if a store cannot be read to the end.
    pub async fn check(
        &self,
        blocks: Arc<dyn BlockStore>,
        progress: &dyn Progress,
    ) -> Result<Report, AdminError> {
        self.check_volume().await?;
        // Over another place, the check would report each block of the volume as lost.
        session::check_block_owner(&*self.store, &*blocks).await?;
        Ok(upkeep::fsck(Arc::clone(&self.store), blocks, progress).await?)
    }

    /// Refuses a store without a volume. Opening it would make a volume, and a check would find it
    /// in perfect order.
    pub(crate) async fn check_volume(&self) -> Result<(), AdminError> {
        if self.has_volume().await? { Ok(()) } else { Err(AdminError::NoVolume) }
    }
}

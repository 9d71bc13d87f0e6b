//! A volume together with its upkeep, for the tests of this crate.
//!
//! The crate `maintained` composes both for processes. The tests here cannot use it, because it has
//! the volume of the library, and these tests have a volume with their own access to its fields.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use block::BlockStore;
use record::{Ino, Inode};
use store::MetaStore;
use upkeep::Upkeep;

use crate::{BackgroundParts, Volume, VolumeError, VolumeOptions, WriteObserver};

/// A volume and its upkeep, as `maintained::MaintainedVolume`.
#[derive(Clone, Debug)]
pub(crate) struct MaintainedVolume {
    volume: Arc<Volume>,
    pub(crate) upkeep: Arc<Upkeep>,
}

#[derive(Debug)]
struct Reporting(Arc<Upkeep>);

impl WriteObserver for Reporting {
    fn note_written(&self, ino: Ino, inode: &Inode) {
        self.0.note_written(ino, inode);
    }
}

impl MaintainedVolume {
    /// Opens a volume and starts its background work.
    pub(crate) async fn open(
        options: VolumeOptions,
        store: Arc<dyn MetaStore>,
        blocks: Arc<dyn BlockStore>,
    ) -> Result<MaintainedVolume, VolumeError> {
        let opened = compose(options, None, store, blocks).await?;
        opened.upkeep.begin();
        Ok(opened)
    }

    /// Opens a volume with background work that keeps freed blocks for `grace`.
    pub(crate) async fn open_with_grace(
        options: VolumeOptions,
        grace: Duration,
        store: Arc<dyn MetaStore>,
        blocks: Arc<dyn BlockStore>,
    ) -> Result<MaintainedVolume, VolumeError> {
        let opened = compose(options, Some(grace), store, blocks).await?;
        opened.upkeep.begin();
        Ok(opened)
    }

    /// Opens a volume without background work.
    pub(crate) async fn open_without_tasks(
        options: VolumeOptions,
        store: Arc<dyn MetaStore>,
        blocks: Arc<dyn BlockStore>,
    ) -> Result<MaintainedVolume, VolumeError> {
        compose(options, None, store, blocks).await
    }
}

async fn compose(
    options: VolumeOptions,
    grace: Option<Duration>,
    store: Arc<dyn MetaStore>,
    blocks: Arc<dyn BlockStore>,
) -> Result<MaintainedVolume, VolumeError> {
    let volume = Volume::open(options, store, blocks).await?;
    let BackgroundParts { session, blocks, staging, rings, pack_bytes } = volume.background_parts();
    let upkeep = Upkeep::new(&session, &blocks, &staging, &rings, pack_bytes, grace);
    volume.observe_writes(Arc::new(Reporting(Arc::clone(&upkeep))));
    Ok(MaintainedVolume { volume, upkeep })
}

impl Deref for MaintainedVolume {
    type Target = Arc<Volume>;

    fn deref(&self) -> &Arc<Volume> {
        &self.volume
    }
}

//! A volume together with its upkeep, as a process opens them.
//!
//! Neither crate knows the other: the volume serves views, and the upkeep works on the session and
//! the blocks of the volume. [`MaintainedVolume`] composes the two, so a process that serves cannot
//! have a volume of which nothing deletes the removed blocks. For example, `ashlar serve` and the
//! worker of a mount open a [`MaintainedVolume`], and share its volume with their views.
//!
//! **Invariant.** A volume has at most one upkeep, and the volume reports each file that it has
//! written to it.
//!
//! The crate decides nothing about either part, and knows no view.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use block::BlockStore;
use record::{Ino, Inode};
use runtime::{Metered, Metric};
use store::MetaStore;
use upkeep::Upkeep;
use volume::{BackgroundParts, Volume, VolumeError, VolumeOptions, WriteObserver};

/// A volume and its upkeep. Clones are the same pair. Dereferences to the volume, whose operations
/// can be called directly.
///
/// **The order at the end.** Both parts use one session, so [`Volume::close`] and
/// [`Volume::hand_over`] end both, in this order:
///
/// 1. The caller ends the views first, because their dirty data needs the session.
/// 2. The session is marked as closing. The heartbeat and each maintenance task see this mark
///    between their steps, and end. A commit or a deletion in flight is finished.
/// 3. The session waits for the heartbeat, then for all tasks together: those of operations and
///    those of the upkeep. Each wait takes at most `session::CLOSE_PATIENCE`.
/// 4. The session disables the record cache, because it does not learn of new peers any more.
/// 5. `close` deletes the session's records in the store; `hand_over` keeps them for the next
///    process of a mount. After that, each operation fails.
/// 6. The caller closes the metadata store, then the block cache.
///
/// The volume owns its observer, and so the upkeep; the upkeep does not own the volume, and its
/// tasks hold it only during a step. So if the last owner of the volume drops it without an end,
/// the session is abandoned as if the process had been killed, and the tasks end.
#[derive(Clone, Debug)]
pub struct MaintainedVolume {
    volume: Arc<Volume>,
    upkeep: Arc<Upkeep>,
}

/// Reports written files to the relocator.
#[derive(Debug)]
struct Reporting(Arc<Upkeep>);

impl WriteObserver for Reporting {
    fn note_written(&self, ino: Ino, inode: &Inode) {
        self.0.note_written(ino, inode);
    }
}

impl MaintainedVolume {
    /// Opens the volume in `store`, or creates it if there is none and the options allow that,
    /// begins a session, and starts all maintenance tasks.
    ///
    /// `deletion_grace` is the time for which a block is kept after a commit has freed it. It must
    /// be longer than the period of commits that the metadata store may lose in a crash. `None`
    /// means [`upkeep::DELETION_GRACE_RELAXED`] while the store's settings are relaxed, that is,
    /// while it may lose commits; else 0.
    ///
    /// # Errors
    /// Those of [`Volume::open`].
    pub async fn open(
        options: VolumeOptions,
        deletion_grace: Option<Duration>,
        store: Arc<dyn MetaStore>,
        blocks: Arc<dyn BlockStore>,
    ) -> Result<MaintainedVolume, VolumeError> {
        let opened = Self::open_without_tasks(options, deletion_grace, store, blocks).await?;
        opened.upkeep.begin();
        Ok(opened)
    }

    /// Opens the volume as [`MaintainedVolume::open`] does, and starts no maintenance task: upkeep
    /// runs only when it is called. For commands that run beside a process that serves.
    ///
    /// # Errors
    /// Those of [`Volume::open`].
    pub async fn open_without_tasks(
        options: VolumeOptions,
        deletion_grace: Option<Duration>,
        store: Arc<dyn MetaStore>,
        blocks: Arc<dyn BlockStore>,
    ) -> Result<MaintainedVolume, VolumeError> {
        let volume = Volume::open(options, store, blocks).await?;
        let BackgroundParts { session, blocks, staging, rings, pack_bytes } =
            volume.background_parts();
        let upkeep = Upkeep::new(&session, &blocks, &staging, &rings, pack_bytes, deletion_grace);
        // Before any caller has the volume, so no write goes unreported.
        volume.observe_writes(Arc::new(Reporting(Arc::clone(&upkeep))));
        Ok(MaintainedVolume { volume, upkeep })
    }

    /// Returns the volume, for the views that share it.
    pub fn volume(&self) -> &Arc<Volume> {
        &self.volume
    }

    /// Returns the upkeep, for its counters and for work on demand.
    pub fn upkeep(&self) -> &Upkeep {
        &self.upkeep
    }
}

impl Deref for MaintainedVolume {
    type Target = Arc<Volume>;

    fn deref(&self) -> &Arc<Volume> {
        &self.volume
    }
}

impl Metered for MaintainedVolume {
    fn visit_metrics(&self, visit: &mut dyn FnMut(Metric)) {
        self.volume.visit_metrics(visit);
        self.upkeep.meters().visit_metrics(visit);
    }
}

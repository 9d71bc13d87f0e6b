//! The volume: one file system, opened by one session, which is one run of a process with its
//! records in the store.
//!
//! For example, `ashlar serve` opens one volume, and its S3 gateway and its mount use it together.

use std::sync::Arc;
use std::time::Duration;

use block::{BlockErrorKind, BlockStore};
use content::{Reading, Staging, Traffic, Writers};
use record::{Timestamp, VolumeRecord};
use session::{CacheValidity, Coherence, NodeWatch, Session, VolumeError};
use store::{MetaStore, Read};
use tokio::sync::watch;
use upkeep::{Collected, Moves, Reaped, SweepOptions, Swept, Upkeep};

use crate::VolumeOptions;
use crate::known_pages::KnownPages;

/// Time limit of [`Volume::check`] for each store.
pub const CHECK_DEADLINE: Duration = Duration::from_secs(2);

/// The cause that is reported for a store that does not answer a check.
const LATE: &str = "no answer in time";

/// A file system over a metadata store and a block location, opened by this process.
///
/// Dropping it without [`Volume::close`] has the effect of a killed process: acknowledged changes
/// stay committed, and another session cleans up.
#[derive(Debug)]
pub struct Volume {
    pub(crate) session: Arc<Session>,
    pub(crate) blocks: Arc<dyn BlockStore>,
    pub(crate) staging: Arc<Staging>,
    pub(crate) writers: Writers,
    pub(crate) streams: Arc<Reading>,
    pub(crate) known_pages: KnownPages,
    pub(crate) upkeep: Arc<Upkeep>,
}

/// The state of a store behind a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreState {
    /// The store answers and has space.
    Well,
    /// The store answers but is out of space: reads and deletes work, and writes fail. The text has
    /// the cause and the cure.
    Full(String),
    /// The store does not answer, or answers with errors. The text has the cause.
    Failing(String),
}

/// The health of a volume's parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The state of the metadata store.
    pub store: StoreState,
    /// The state of the block store.
    pub blocks: StoreState,
    /// The text of the error if the session has ended; then no request can be served.
    pub session: Result<(), String>,
}

impl Health {
    /// Returns true if requests can be served. A full store does not prevent that: if load
    /// balancers left the gateway out, clients could not delete objects from it.
    pub fn is_ready(&self) -> bool {
        let answers = |state: &StoreState| match state {
            StoreState::Well | StoreState::Full(_) => true,
            StoreState::Failing(_) => false,
        };
        answers(&self.store) && answers(&self.blocks) && self.session.is_ok()
    }

    /// Returns the causes and the cures of the stores that are out of space.
    pub fn shortages(&self) -> Vec<String> {
        let shortage = |state: &StoreState| match state {
            StoreState::Full(why) => Some(why.clone()),
            StoreState::Well | StoreState::Failing(_) => None,
        };
        [&self.store, &self.blocks].into_iter().filter_map(shortage).collect()
    }
}

impl Volume {
    /// Opens the volume in `store`, or creates it if there is none and the options allow that, and
    /// begins a session. Fails as [`Session::open`] does.
    pub async fn open(
        options: VolumeOptions,
        store: Arc<dyn MetaStore>,
        blocks: Arc<dyn BlockStore>,
    ) -> Result<Arc<Volume>, VolumeError> {
        // The session comes first: it checks that the blocks belong to this volume.
        let began = options.session.clone();
        let session = Session::open(began, options.block_bytes, store, &*blocks).await?;
        let traffic = Arc::<Traffic>::default();
        let staging = Arc::new(options.staging(&session, &blocks, &traffic));
        let writers = options.writers(&staging);
        let streams = Arc::new(options.reading(&staging));
        let (pack_bytes, grace) = (options.packing.pack_bytes, options.deletion_grace);
        let upkeep = Upkeep::new(&session, &blocks, &staging, pack_bytes, grace);
        // Commands that run beside a gateway open the volume without background work.
        if options.collect {
            upkeep.begin();
        }
        let known_pages = KnownPages::default();
        Ok(Arc::new(Volume { session, blocks, staging, writers, streams, known_pages, upkeep }))
    }

    /// Returns a receiver whose value changes when accounts, users or policies may have changed in
    /// the store, within about [`session::FEED_INTERVAL`], also for changes of other processes. The
    /// value itself has no meaning.
    pub fn access_changes(&self) -> watch::Receiver<u64> {
        self.session.access_changes()
    }

    /// Returns how long the watch of [`Volume::watch_nodes`], for example the kernel's cache of a
    /// mount, may cache data that it reads from now on. Call it before the read.
    pub fn cache_validity(&self) -> CacheValidity {
        self.session.cache_validity()
    }

    /// Returns how long the watch (the caches outside of this process) may cache data that was read
    /// while `before` was valid but is handed out only now. Returns a validity of no time if a
    /// record may have changed since.
    pub fn validity_if_unchanged(&self, before: CacheValidity) -> CacheValidity {
        self.session.validity_if_unchanged(before)
    }

    /// Registers `watch`, which represents caches outside of this process, such as the kernel's, in
    /// place of the watch before. It is notified of names and nodes that change, so that it drops
    /// them from these caches. It is not notified of the operations on nodes, which are the watch's
    /// own. `coherence` says if the caches may be a short time behind changes of other sessions.
    pub fn watch_nodes(&self, watch: Arc<dyn NodeWatch>, coherence: Coherence) {
        self.session.watch_nodes(watch, coherence);
    }

    /// Removes the watch that was registered last. It gets no notifications any more.
    pub fn unwatch_nodes(&self) {
        self.session.unwatch_nodes();
    }

    /// Waits until this session is fenced: another process has ended it, or the store has lost its
    /// records. No request is served after that; only a new process can serve again. If the session
    /// is not fenced, the future never completes.
    pub async fn lost(&self) {
        self.session.lost().await;
    }

    /// Finishes running operations, with waits of at most [`session::CLOSE_PATIENCE`], and ends the
    /// session. Later operations fail. The stores stay open; the caller closes them.
    pub async fn close(&self) {
        self.session.close().await;
    }

    /// Finishes running operations and keeps the session's records in the store, so that the next
    /// process of a mount can resume the session. The stores stay open; the caller closes them.
    pub async fn hand_over(&self) {
        self.session.hand_over().await;
    }

    /// Returns the current time of the volume's clock.
    pub fn now(&self) -> Timestamp {
        self.session.now()
    }

    /// Returns a time that has certainly passed on every machine, even if the clock of this one was
    /// set forward by mistake. It is for ends that must not come early, such as those of retention.
    pub fn passed(&self) -> Timestamp {
        self.session.passed()
    }

    /// Returns the volume's record.
    pub fn record(&self) -> &VolumeRecord {
        self.session.volume()
    }

    /// Deletes removed files and their blocks, then the leftovers of ended sessions: see
    /// [`Upkeep::gc`].
    pub async fn gc(&self, options: SweepOptions) -> Result<Collected, VolumeError> {
        self.upkeep.gc(options).await
    }

    /// Deletes blocks that ended sessions have written and that no record names: see
    /// [`Upkeep::sweep`].
    pub async fn sweep(&self, options: SweepOptions) -> Result<Swept, VolumeError> {
        self.upkeep.sweep(options).await
    }

    /// Deletes the blocks and records of everything that has been removed and that no reader can
    /// need: see [`Upkeep::reap_now`].
    pub async fn reap_now(&self) -> Result<Reaped, VolumeError> {
        self.upkeep.reap_now().await
    }

    /// Rewrites every sparse pack, that is, each block of several files of which less than half is
    /// live: see [`Upkeep::repack_now`].
    pub async fn repack_now(&self) -> Result<Moves, VolumeError> {
        self.upkeep.repack_now().await
    }

    /// Moves the visible rest of files out of blocks that later writes have mostly hidden: see
    /// [`Upkeep::compact_now`].
    pub async fn compact_now(&self) -> Result<Moves, VolumeError> {
        self.upkeep.compact_now().await
    }

    /// Moves every body that is staged inline (kept in its inode's record for a while) into blocks:
    /// see [`Upkeep::destage_now`].
    pub async fn destage_now(&self) -> Result<Moves, VolumeError> {
        self.upkeep.destage_now().await
    }

    /// Removes the locks of programs that ended sessions have left in the store. Returns the number
    /// of files that had such locks: see [`Upkeep::remove_ended_locks`].
    pub async fn remove_ended_locks(&self) -> Result<u64, VolumeError> {
        self.upkeep.remove_ended_locks().await
    }

    /// Checks within [`CHECK_DEADLINE`] that both stores answer.
    pub async fn check(&self) -> Health {
        // The volume's record exists in every store, so reading it checks the whole path to the
        // database.
        let volume = [Read::Record { key: record::key::volume(), follow: None }];
        let store = async {
            let store = self.session.store();
            match tokio::time::timeout(CHECK_DEADLINE, store.read(&volume)).await {
                Ok(Ok(_)) => store.shortage().map_or(StoreState::Well, StoreState::Full),
                Ok(Err(error)) => StoreState::Failing(error.to_string()),
                Err(_late) => StoreState::Failing(LATE.to_owned()),
            }
        };
        let blocks = async {
            match tokio::time::timeout(CHECK_DEADLINE, self.blocks.probe()).await {
                Ok(Ok(())) => StoreState::Well,
                Ok(Err(error)) if error.kind() == BlockErrorKind::Full => {
                    StoreState::Full(error.to_string())
                }
                Ok(Err(error)) => StoreState::Failing(error.to_string()),
                Err(_late) => StoreState::Failing(LATE.to_owned()),
            }
        };
        // Both checks run at once, so that the answer needs one time limit.
        let (store, blocks) = futures::join!(store, blocks);
        let session =
            if self.session.has_ended() { Err("the session has ended".to_owned()) } else { Ok(()) };
        Health { store, blocks, session }
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        self.session.abandon();
    }
}

//! The volume: one file system, opened by one session.

use std::sync::Arc;
use std::time::Duration;

use block::{BlockErrorKind, BlockStore};
use content::{Reading, Staging, Traffic, Writers};
use record::{Timestamp, VolumeRecord};
use session::{CacheValidity, Coherence, NodeWatch, Session, VolumeError};
use store::{MetaStore, Read};
use tokio::sync::watch;
use upkeep::{Collected, Compacted, Destaged, Reaped, Repacked, SweepOptions, Swept, Upkeep};

use crate::VolumeOptions;
use crate::known_pages::KnownPages;

/// How long [`Volume::check`] waits for each store.
pub const CHECK_DEADLINE: Duration = Duration::from_secs(2);

/// The cause if a store does not answer a check.
const LATE: &str = "no answer in time";

/// A file system over a metadata store and a place for blocks, opened by this process.
///
/// Dropping it without [`Volume::close`] is as if the process had been killed: what was
/// acknowledged stands, and the next session clears up.
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
    /// It answers, and has space.
    Well,
    /// It answers, but is out of space: reads and deletes go on, and writes fail. Names the cause and
    /// the cure.
    Full(String),
    /// It does not answer as it should. Names the cause.
    Failing(String),
}

/// The state of all that a volume needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The metadata store.
    pub store: StoreState,
    /// The block store.
    pub blocks: StoreState,
    /// Whether the session still counts.
    pub session: Result<(), String>,
}

impl Health {
    /// Returns true if requests can be served. A full store does not prevent that: a gateway that load
    /// balancers left out could not be emptied by deletes.
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
    /// Opens the volume in `store`, or makes one if there is none and the options allow it, and begins
    /// a session. The errors are those of [`Session::open`].
    pub async fn open(
        options: VolumeOptions,
        store: Arc<dyn MetaStore>,
        blocks: Arc<dyn BlockStore>,
    ) -> Result<Arc<Volume>, VolumeError> {
        let began = options.session.clone();
        let session = Session::open(began, options.block_bytes, store, &*blocks).await?;
        let traffic = Arc::<Traffic>::default();
        let staging = Arc::new(options.staging(&session, &blocks, &traffic));
        let writers = options.writers(&staging);
        let streams = Arc::new(options.reading(&staging));
        let (pack_bytes, grace) = (options.packing.pack_bytes, options.deletion_grace);
        let upkeep = Upkeep::new(&session, &blocks, &staging, pack_bytes, grace);
        if options.collect {
            upkeep.begin();
        }
        let known_pages = KnownPages::default();
        Ok(Arc::new(Volume { session, blocks, staging, writers, streams, known_pages, upkeep }))
    }

    /// Is told, within about [`session::FEED_INTERVAL`], when users or policies may have changed,
    /// whoever changed them.
    pub fn access_changes(&self) -> watch::Receiver<u64> {
        self.session.access_changes()
    }

    /// Until when what is read from now on may be remembered outside of this process, by those for
    /// whom [`Volume::watch_nodes`] stands.
    pub fn cache_validity(&self) -> CacheValidity {
        self.session.cache_validity()
    }

    /// Until when what was read while `before` was said may be remembered, though it is given out
    /// only now: not at all if anything may have changed since.
    pub fn validity_if_unchanged(&self, before: CacheValidity) -> CacheValidity {
        self.session.validity_if_unchanged(before)
    }

    /// Tells `watch` of names and nodes that change, but not of what is changed by node, which is
    /// the watch's own doing; and nobody who watched before.
    pub fn watch_nodes(&self, watch: Arc<dyn NodeWatch>, coherence: Coherence) {
        self.session.watch_nodes(watch, coherence);
    }

    /// Tells nobody of changes any more.
    pub fn unwatch_nodes(&self) {
        self.session.unwatch_nodes();
    }

    /// Waits until another process has ended this session, or the store has lost it: nothing is
    /// served any more then, and only a new process can. Does not return before.
    pub async fn lost(&self) {
        self.session.lost().await;
    }

    /// Finishes what is under way, for [`session::CLOSE_PATIENCE`] at most, and ends the session:
    /// nothing that comes later is served. The stores stay open; they are the caller's.
    pub async fn close(&self) {
        self.session.close().await;
    }

    /// Finishes what is under way and leaves the session to the process that is going to go on with
    /// it. The stores stay open; they are the caller's.
    pub async fn hand_over(&self) {
        self.session.hand_over().await;
    }

    /// The volume's time.
    pub fn now(&self) -> Timestamp {
        self.session.now()
    }

    /// A time that has surely come, for what must not end early, such as locks.
    pub fn passed(&self) -> Timestamp {
        self.session.passed()
    }

    /// The volume's own record.
    pub fn record(&self) -> &VolumeRecord {
        self.session.volume()
    }

    /// Deletes what records say is dead, then what dead sessions left: see [`Upkeep::gc`].
    pub async fn gc(&self, options: SweepOptions) -> Result<Collected, VolumeError> {
        self.upkeep.gc(options).await
    }

    /// Deletes blocks of ended sessions that no record names: see [`Upkeep::sweep`].
    pub async fn sweep(&self, options: SweepOptions) -> Result<Swept, VolumeError> {
        self.upkeep.sweep(options).await
    }

    /// Deletes everything that is dead by now: see [`Upkeep::reap_now`].
    pub async fn reap_now(&self) -> Result<Reaped, VolumeError> {
        self.upkeep.reap_now().await
    }

    /// Rewrites every sparse pack: see [`Upkeep::repack_now`].
    pub async fn repack_now(&self) -> Result<Repacked, VolumeError> {
        self.upkeep.repack_now().await
    }

    /// Moves what is left of files out of blocks that writes have hidden most of: see
    /// [`Upkeep::compact_now`].
    pub async fn compact_now(&self) -> Result<Compacted, VolumeError> {
        self.upkeep.compact_now().await
    }

    /// Puts every body that is staged inline into blocks: see [`Upkeep::destage_now`].
    pub async fn destage_now(&self) -> Result<Destaged, VolumeError> {
        self.upkeep.destage_now().await
    }

    /// Takes away locks of sessions that have ended: see [`Upkeep::forget_locks`].
    pub async fn forget_locks(&self) -> Result<u64, VolumeError> {
        self.upkeep.forget_locks().await
    }

    /// Whether the stores answer, within [`CHECK_DEADLINE`].
    pub async fn check(&self) -> Health {
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

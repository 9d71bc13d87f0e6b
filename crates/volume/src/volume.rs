//! The volume: one file system, opened by one session, which is one run of a process with its
//! records in the store.
//!
//! For example, `ashlar serve` opens one volume, and its S3 gateway and its mount use it together.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use block::{BlockErrorKind, BlockStore};
use content::{Reading, Staging, Traffic, Writers};
use keyring::{RingKeys, Rings};
use record::{Ino, Inode, Nonce, Timestamp, VolumeRecord};
use session::{
    CacheValidity, Coherence, NodeWatch, PeeringOptions, Session, SessionOptions, VolumeError,
};
use store::{MetaStore, Read};
use tokio::sync::watch;

use crate::VolumeOptions;
use crate::background::{BackgroundParts, WriteObserver};
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
    pub(crate) rings: Arc<dyn Rings>,
    /// The size of a full pack (a block of several files), in bytes.
    pack_bytes: u32,
    /// Set if background work runs beside the volume.
    observer: OnceLock<Arc<dyn WriteObserver>>,
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
    /// begins a session. Starts no background work on the volume: a process that serves opens it
    /// together with its upkeep. Fails as [`Session::open`] does.
    pub async fn open(
        options: VolumeOptions,
        store: Arc<dyn MetaStore>,
        blocks: Arc<dyn BlockStore>,
    ) -> Result<Arc<Volume>, VolumeError> {
        // The session comes first: it checks that the blocks belong to this volume.
        let keys = Arc::clone(&options.rings) as Arc<dyn RingKeys>;
        let began = SessionOptions { keys, ..options.session.clone() };
        let session = Session::open(began, options.block_bytes, store, &*blocks).await?;
        let traffic = Arc::<Traffic>::default();
        let staging = Arc::new(options.staging(&session, &blocks, &traffic));
        let writers = options.writers(&staging);
        let streams = Arc::new(options.reading(&staging));
        let (known_pages, rings) = (KnownPages::default(), options.rings);
        let (pack_bytes, observer) = (options.packing.pack_bytes, OnceLock::new());
        Ok(Arc::new(Volume {
            session,
            blocks,
            staging,
            writers,
            streams,
            known_pages,
            rings,
            pack_bytes,
            observer,
        }))
    }

    /// Returns the parts of the volume that background work uses: see [`BackgroundParts`].
    pub fn background_parts(&self) -> BackgroundParts {
        BackgroundParts {
            session: Arc::clone(&self.session),
            blocks: Arc::clone(&self.blocks),
            staging: Arc::clone(&self.staging),
            rings: Arc::clone(&self.rings),
            pack_bytes: self.pack_bytes,
        }
    }

    /// Registers the observer of written files. The volume owns it until the volume is dropped.
    /// Files that were written before are not reported to it.
    ///
    /// # Panics
    /// If the volume has an observer, because then two upkeeps would work on one session.
    pub fn observe_writes(&self, observer: Arc<dyn WriteObserver>) {
        let first = self.observer.set(observer);
        assert!(first.is_ok(), "a volume has at most one observer of writes");
    }

    /// Reports a file whose content was changed, and its present inode, to the observer.
    pub(crate) fn note_written(&self, ino: Ino, inode: &Inode) {
        if let Some(observer) = self.observer.get() {
            observer.note_written(ino, inode);
        }
    }

    /// Returns a receiver whose value changes when accounts, users, policies or ring keys may have
    /// changed in the store, within about [`session::FEED_INTERVAL`], also for changes of other
    /// processes. The value itself has no meaning.
    pub fn access_changes(&self) -> watch::Receiver<u64> {
        self.session.access_changes()
    }

    /// Returns how long the watch of [`Volume::watch_nodes`], for example the kernel's cache of a
    /// mount, may cache data that it reads from now on. Call it before the read.
    pub fn cache_validity(&self) -> CacheValidity {
        self.session.cache_validity()
    }

    /// Returns true if this is certainly the only session of the volume now: see
    /// [`session::Session::is_alone`].
    pub fn is_alone(&self) -> bool {
        self.session.is_alone()
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

    /// Lets the session give leases to the other sessions of the volume and take leases of them:
    /// see [`Session::connect_peers`].
    ///
    /// # Errors
    /// The errors of [`Session::connect_peers`].
    pub async fn connect_peers(&self, options: PeeringOptions) -> Result<(), VolumeError> {
        self.session.connect_peers(options).await
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

    /// Returns the unique name of this process's session.
    pub fn nonce(&self) -> Nonce {
        self.session.nonce()
    }

    /// Returns the volume's record.
    pub fn record(&self) -> &VolumeRecord {
        self.session.volume()
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

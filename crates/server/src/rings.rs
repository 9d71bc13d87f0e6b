//! The ring keys of the volume of this process.
//!
//! The layers that encrypt are below the volume, and the key store needs the volume's record. So
//! the layers get [`VolumeRings`] first, and its key store is opened when the volume is known.
//! Until then no content can be read or written under a ring key. For example, `ashlar serve` opens
//! the volume, creates its master key, and then opens the key store.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use identity::MasterKey;
use keyring::{
    Protection, ProtectionError, ProtectionErrorKind, RingError, RingErrorKind, RingKey, RingKeys,
    RingNumber, Rings,
};
use keystore::KeyStore;
use problem::Problem;
use record::{VolumeRecord, key};
use sealing::Sealing;
use store::{MetaStore, Read, ReadResult};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::config::VolumeSettings;
use crate::{credentials, ring};

/// The pause after a failure to read the records of the ring again.
const RELOAD_PAUSE: Duration = Duration::from_secs(1);

/// The ring keys of a volume, which are available once [`VolumeRings::open`] has succeeded.
#[derive(Debug)]
pub(crate) struct VolumeRings {
    /// The metadata store, without the layer that uses these keys.
    meta: Arc<dyn MetaStore>,
    opened: OnceLock<Arc<KeyStore>>,
}

/// Returns the ring keys in this metadata store, and the store with the layer that encrypts inline
/// content under them.
pub(crate) fn over(meta: Arc<dyn MetaStore>) -> (Arc<VolumeRings>, Arc<dyn MetaStore>) {
    let rings = Arc::new(VolumeRings { meta: Arc::clone(&meta), opened: OnceLock::new() });
    let sealing = Sealing::new(meta, rings.keys());
    (rings, Arc::new(sealing))
}

/// Opens the ring keys for a command, with the master key if this host has it.
pub(crate) async fn open_for_command(
    rings: &VolumeRings,
    settings: &VolumeSettings,
) -> Result<Arc<KeyStore>, Problem> {
    let master = credentials::known_master_key(settings)?;
    rings.open(settings, master.as_ref()).await
}

impl VolumeRings {
    /// Returns the keys, for the layers that encrypt.
    pub(crate) fn keys(self: &Arc<VolumeRings>) -> Arc<dyn RingKeys> {
        Arc::clone(self) as Arc<dyn RingKeys>
    }

    /// Opens the key store and returns it. Without the master key, content that is encrypted cannot
    /// be read.
    ///
    /// # Errors
    /// If the records of the ring cannot be read, or belong to another master key.
    pub(crate) async fn open(
        &self,
        settings: &VolumeSettings,
        master: Option<&MasterKey>,
    ) -> Result<Arc<KeyStore>, Problem> {
        let id = self.volume_id().await?;
        let opened = ring::open(settings, master, &self.meta, id).await?;
        opened.check().map_err(|error| Problem::new("use the master key", error))?;
        // A second call would find the same records.
        Ok(Arc::clone(self.opened.get_or_init(|| opened)))
    }

    /// Reads the records of the ring again whenever they may have changed, and keeps the login at
    /// the key management service valid, until the process stops.
    pub(crate) async fn follow(&self, changes: watch::Receiver<u64>, stop: CancellationToken) {
        tokio::select! {
            () = self.follow_records(changes, stop) => {}
            () = self.keep_login() => {}
        }
    }

    /// Never returns.
    async fn keep_login(&self) {
        if let Some(opened) = self.opened.get() {
            opened.keep_login().await;
        }
        std::future::pending::<()>().await;
    }

    async fn follow_records(&self, mut changes: watch::Receiver<u64>, stop: CancellationToken) {
        // A change between the opening and this call was notified already, and may have closed a
        // key.
        changes.mark_changed();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                next = changes.changed() => if next.is_err() { return },
            }
            let Some(opened) = self.opened.get() else { continue };
            // Until it succeeds, because another process removes a key that was closed after a time
            // in which each session has read its record.
            while let Err(error) = opened.reload().await {
                warn!(%error, "cannot read the ring keys again; the known ones stay in force");
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(RELOAD_PAUSE) => {}
                }
            }
        }
    }

    async fn volume_id(&self) -> Result<[u8; 16], Problem> {
        let at = key::volume();
        let doing = "read the record of the volume";
        let reads = [Read::Record { key: at.clone(), follow: None }];
        let found = self.meta.read(&reads).await.map_err(|error| Problem::new(doing, error))?;
        let Some(ReadResult::Record(Some(entry))) = found.first() else {
            return Err(Problem::new(doing, "there is none"));
        };
        let volume = VolumeRecord::decode(&at, &entry.value);
        volume.map(|volume| volume.id).map_err(|error| Problem::new(doing, error))
    }
}

/// The cause of errors before the key store is open.
const NOT_OPEN: &str = "this process has not read the ring keys yet";

#[async_trait]
impl RingKeys for VolumeRings {
    async fn key(&self, number: RingNumber) -> Result<Arc<RingKey>, RingError> {
        match self.opened.get() {
            Some(opened) => opened.key(number).await,
            None => {
                let (kind, cause) = (RingErrorKind::Unavailable, NOT_OPEN.to_owned());
                Err(RingError { number, kind, cause })
            }
        }
    }

    async fn key_to_write(&self, number: RingNumber) -> Result<Arc<RingKey>, RingError> {
        match self.opened.get() {
            Some(opened) => opened.key_to_write(number).await,
            // The error of a process that has not opened its ring.
            None => self.key(number).await,
        }
    }
}

#[async_trait]
impl Rings for VolumeRings {
    async fn current(&self, of: &Protection) -> Result<Option<RingNumber>, ProtectionError> {
        match self.opened.get() {
            Some(opened) => Rings::current(&**opened, of).await,
            None => {
                let (kind, cause) = (ProtectionErrorKind::Unavailable, NOT_OPEN.to_owned());
                Err(ProtectionError { kind, cause })
            }
        }
    }
}

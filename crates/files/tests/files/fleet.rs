//! Several mounts of one volume.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use block::MemoryBlocks;
use files::{Files, FilesOptions};
use maintained::MaintainedVolume;
use record::Ino;
use record::key::space;
use store::{Key, MemoryStore, MetaStore};
use upkeep::{NoProgress, fsck};
use volume::{SessionOptions, VolumeOptions};

use super::{BLOCK_BYTES, WHOLE_BYTES_MAX};

/// Longer than each wait in these tests that succeeds.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// A volume that several sessions have open.
pub(crate) struct Fleet {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) blocks: Arc<MemoryBlocks>,
}

impl Fleet {
    pub(crate) fn new() -> Fleet {
        Fleet { store: Arc::new(MemoryStore::new()), blocks: Arc::new(MemoryBlocks::new()) }
    }

    pub(crate) async fn open(&self) -> (MaintainedVolume, Arc<Files>) {
        let session = SessionOptions {
            join_patience: Duration::ZERO,
            heartbeat_interval: Duration::from_millis(200),
            session_silence: Duration::from_secs(2),
            ..SessionOptions::default()
        };
        let options =
            VolumeOptions { session, block_bytes: BLOCK_BYTES, ..VolumeOptions::default() };
        let volume = MaintainedVolume::open(options, None, self.store.clone(), self.blocks.clone())
            .await
            .unwrap();
        let options = FilesOptions {
            root: Ino::ROOT,
            read_only: false,
            write_memory: 16 << 20,
            full_rewrite_bytes_max: WHOLE_BYTES_MAX,
            io_timeout: LONG,
            updates_atime: true,
            defers_creations: false,
            ledger: None,
        };
        let files = Files::new(Arc::clone(&volume), options);
        (volume, files)
    }

    /// Returns the number of records in a key space.
    pub(crate) async fn records(&self, space: store::Space) -> usize {
        self.store.walk(space, None, 1_000).await.unwrap().records.len()
    }

    pub(crate) async fn sessions(&self) -> HashSet<Key> {
        let page = self.store.walk(space::SESSION, None, 1_000).await.unwrap();
        page.records.into_iter().map(|(key, _)| key).collect()
    }

    pub(crate) async fn check(&self) {
        let report = fsck(self.store.clone(), self.blocks.clone(), &NoProgress).await.unwrap();
        assert_eq!(report.findings, []);
    }
}

//! The stores, the cache and the volume of a process that serves.
//!
//! A gateway and a worker of a mount open them in the same order. For example, the metadata store
//! opens first, because its record of the volume says whether the block store must have the
//! volume's mark, an entry in the block store that names the volume.

use std::path::PathBuf;
use std::sync::Arc;

use block::{BlockReader, BlockStore};
use cache::Cache;
use keyring::Rings;
use maintained::MaintainedVolume;
use record::SessionFacts;
use store::MetaStore;
use volume::{Ledger, SessionOptions, VolumeOptions};

use crate::config::{BlocksPlace, MetaPlace, OpenSettings, ServerKind, VolumeSettings};
use crate::engines::{self, Blocks, Use};
use crate::rings::VolumeRings;
use crate::timed::{CallLatencies, TimedMeta};
use crate::{founding, instance, rings};
use problem::Problem;

/// The metadata store, the block store, the block cache and the volume that a process has opened.
#[derive(Debug)]
pub(crate) struct Backend {
    /// The volume with its upkeep, whose documentation has the order at the end.
    pub(crate) volume: MaintainedVolume,
    pub(crate) meta: Arc<dyn MetaStore>,
    pub(crate) meta_latencies: CallLatencies,
    /// The ring keys, which the caller opens when it has the master key.
    pub(crate) rings: Arc<VolumeRings>,
    pub(crate) blocks: Blocks,
    /// The directory of the block store, if it is one.
    pub(crate) folder: Option<PathBuf>,
    pub(crate) cache: Option<Arc<Cache<Arc<dyn BlockStore>>>>,
}

impl Backend {
    /// Closes the stores without ending the session, the registration of this process at the
    /// metadata store. The next worker of the mount continues the session.
    pub(crate) async fn hand_over(&self) {
        self.volume.hand_over().await;
        self.meta.close().await;
        if let Some(cache) = &self.cache {
            cache.close().await;
        }
    }

    /// Ends the session, the registration of this process at the metadata store, and closes the
    /// stores.
    pub(crate) async fn close(&self) {
        self.volume.close().await;
        self.meta.close().await;
        if let Some(cache) = &self.cache {
            cache.close().await;
        }
    }
}

/// The limits of the small bodies that are kept in the metadata store.
struct SmallBodies {
    inline_bytes_max: u32,
    staged_inline_bytes_max: u64,
}

/// Returns the limits of small bodies for a metadata store. etcd holds a few GiB and keeps the
/// history of each record until the next compaction, so it gets only the smallest bodies, and none
/// that move to blocks soon.
fn small_bodies(meta: &MetaPlace, staged: u64) -> SmallBodies {
    const ETCD_INLINE_BYTES_MAX: u32 = 512;
    let usual = SmallBodies {
        inline_bytes_max: VolumeOptions::default().inline_bytes_max,
        staged_inline_bytes_max: staged,
    };
    match meta {
        MetaPlace::Server(server) => match server.kind {
            ServerKind::Etcd => {
                SmallBodies { inline_bytes_max: ETCD_INLINE_BYTES_MAX, staged_inline_bytes_max: 0 }
            }
            ServerKind::Postgres | ServerKind::Mysql | ServerKind::Redis => usual,
        },
        MetaPlace::Sqlite(_) | MetaPlace::Memory => usual,
    }
}

/// Opens the metadata store, the block store, the cache and the volume. `existing` is the metadata
/// store if [`founding::admit`] has opened it; it has a volume, so none is created. `ledger` is the
/// state of a mount that survives its process; `None` if no other process can continue this one's
/// work. `facts` are shown in the list of sessions. `seed` seeds the jitter of retries.
pub(crate) async fn open(
    (settings, open): (&VolumeSettings, &OpenSettings),
    facts: SessionFacts,
    seed: u64,
    ledger: Option<Arc<Ledger>>,
    existing: Option<Arc<dyn MetaStore>>,
) -> Result<Backend, Problem> {
    let creates_volume = existing.is_none();
    let meta = match existing {
        Some(meta) => meta,
        None => engines::meta(settings, Use::Serve).await?,
    };
    let (meta, meta_latencies) = TimedMeta::over(meta);
    let (rings, meta) = rings::over(meta);
    // Before the block store opens, because opening creates a missing directory.
    founding::check_folder(settings, &meta, open.adopt_blocks).await?;
    let blocks = engines::blocks(&settings.blocks, seed, rings.keys()).await?;
    let cache = engines::cache(settings, open, &blocks).await?;
    // Uploads and downloads get one half each, so that neither can use up the memory of the other.
    let budget = open.memory_budget.0;
    let session = SessionOptions {
        record_cache_bytes: open.record_cache_bytes.0,
        authoritative_reads: open.authoritative_reads,
        sole: meta.limits().serves_one,
        place: instance::place(),
        facts,
        ledger,
        creates_volume,
        adopts_blocks: open.adopt_blocks,
        ..SessionOptions::default()
    };
    let small = small_bodies(&settings.meta, open.staged_inline_bytes.0);
    let options = VolumeOptions {
        session,
        block_bytes: u32::try_from(open.block_bytes.0).unwrap_or(u32::MAX),
        write_budget_bytes: budget / 2,
        read_budget_bytes: budget / 2,
        inline_bytes_max: small.inline_bytes_max,
        staged_inline_bytes_max: small.staged_inline_bytes_max,
        rings: Arc::clone(&rings) as Arc<dyn Rings>,
        reader: cache.clone().map(|cache| cache as Arc<dyn BlockReader>),
        ..VolumeOptions::default()
    };
    let (grace, store) = (settings.deletion_grace.given(), Arc::clone(&blocks.store));
    let opened = MaintainedVolume::open(options, grace, Arc::clone(&meta), store).await;
    let volume = opened
        .map_err(|error| Problem::new(format!("open the volume in {}", settings.meta), error))?;
    // After the open, which has created the volume or checked that the blocks belong to it.
    founding::remember(settings, volume.record());
    let folder = match &settings.blocks {
        BlocksPlace::Folder(path) => Some(path.clone()),
        _ => None,
    };
    Ok(Backend { volume, meta, meta_latencies, rings, blocks, folder, cache })
}

//! A block reader with a cache in memory and, optionally, on a disk.
//!
//! Roles:
//!
//! - The cache holds *pages*. A page is the content of one sub-block, under the block's id and the
//!   sub-block's index.
//! - A *read* takes pages from memory, then from the disk, and fetches the rest from the block
//!   store, adjacent pages with one request. Concurrent readers of one page share the request.
//! - A *stream* passes a long range on as it arrives, and keeps those of its pages that are worth
//!   their memory.
//! - *Eviction* writes a page to the disk when it leaves memory.
//!
//! **Invariant.** Blocks never change, so no page is ever stale. A page in memory has passed its
//! checksum or was sealed here, so a hit needs no verification. A page from the disk is verified
//! before it enters memory, and so is a page from the block store: if it fails, it is requested
//! once more, and a second failure is an error. A reader never gets zeros or fewer bytes instead of
//! an error.
//!
//! For example, a reader asks for pages 0 to 9 of a block, and pages 3 and 4 are in memory. The
//! cache sends two requests, for pages 0 to 2 and 5 to 9.
//!
//! The cache does not know files or objects, or when a block is deleted: pages of a deleted block
//! are not requested any more, so they are evicted in time. Callers decide how far they read ahead.

#![cfg_attr(
    not(test),
    deny(clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::unwrap_used)
)]

mod claims;
mod disk;
mod fetches;
mod metrics;
mod page;
mod read;
mod recent;

use std::sync::Arc;

use block::{BlockStore, SUB_BLOCK_BYTES};
use runtime::{Metered, Metric};
use tracing::warn;

use crate::claims::StreamClaims;
use crate::disk::{Disk, Pages};
use crate::fetches::Fetches;
use crate::recent::RecentHashes;

pub use disk::{
    DISK_BYTES_MIN, DISK_CLOSE_TIMEOUT, DISK_OPEN_TIMEOUT, DISK_PAUSE, DISK_TIMEOUT_DEFAULT,
    DiskOptions,
};
pub use metrics::CacheMeters;
pub use page::PAGE_OVERHEAD_BYTES;

/// The smallest memory of a cache, in bytes. A smaller setting counts as this.
pub const MEMORY_BYTES_MIN: u64 = 1 << 20;

/// Requests for at least this many pages count as scans. Pages of a scan are not kept in memory,
/// unless they were requested recently, or the memory holds less than [`SCAN_MEMORY_BYTES`], or the
/// disk has free space.
pub const SCAN_PAGES_MIN: u32 = 64;

/// The bytes in memory from which on pages of a scan are kept only if they were requested before.
/// Most long reads happen once, and a copy into memory that was not used before costs as much as
/// the rest of the read.
pub const SCAN_MEMORY_BYTES: usize = 16 << 20;

/// For each page that fits into the cache, the table of recent requests has this many entries, so
/// that pages of a working set of the cache's size are rarely forgotten between two requests.
const RECENT_PER_PAGE: u64 = 32;

/// The memory and the disk that a cache may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// Bytes of memory for pages, [their overhead](PAGE_OVERHEAD_BYTES) included.
    pub memory_bytes: u64,
    /// The disk that receives pages evicted from memory; `None` drops them.
    pub disk: Option<DiskOptions>,
}

/// A caching block reader over a block store.
#[derive(Debug)]
pub struct Cache<B> {
    blocks: B,
    pages: Pages,
    disk: Option<Disk>,
    fetches: Arc<Fetches>,
    claims: Arc<StreamClaims>,
    recent: RecentHashes,
    meters: Arc<CacheMeters>,
}

impl<B: BlockStore> Cache<B> {
    /// Opens a cache. If the disk cannot be used, the cache has only memory, and a warning gives
    /// the reason.
    ///
    /// # Errors
    /// Fails with an error of the `foyer` library if the memory cannot be allocated.
    pub async fn open(blocks: B, options: CacheOptions) -> Result<Cache<B>, foyer::Error> {
        let meters = Arc::<CacheMeters>::default();
        let memory_bytes = options.memory_bytes.max(MEMORY_BYTES_MIN);
        let mut opened = None;
        // A disk that cannot be opened must not keep the gateway from starting.
        if let Some(options) = &options.disk {
            match disk::memory_over_disk(memory_bytes, options, &meters).await {
                Ok((pages, disk)) => opened = Some((pages, Some(disk))),
                Err(error) => warn!(
                    dir = %options.dir.display(), %error,
                    "serving without the disk cache; configure a folder of its own that this user \
                     can write, on a disk with enough free space",
                ),
            }
        }
        let (pages, disk) = match opened {
            Some(opened) => opened,
            None => (disk::memory_only(memory_bytes, &meters).await?, None),
        };
        let disk_bytes = options.disk.as_ref().map_or(0, |options| options.bytes);
        let pages_max = memory_bytes.saturating_add(disk_bytes) / u64::from(SUB_BLOCK_BYTES);
        let recent =
            RecentHashes::new(usize::try_from(pages_max * RECENT_PER_PAGE).unwrap_or(usize::MAX));
        Ok(Cache {
            blocks,
            pages,
            disk,
            fetches: Arc::default(),
            claims: Arc::default(),
            recent,
            meters,
        })
    }

    /// Returns the block store below the cache.
    pub fn inner(&self) -> &B {
        &self.blocks
    }

    /// Returns the counters since the start.
    pub fn counters(&self) -> CacheMeters<u64> {
        self.meters.read()
    }

    /// Returns the number of pages in memory.
    pub fn memory_pages(&self) -> u64 {
        self.pages.memory().entries() as u64
    }

    /// Returns the bytes that the pages in memory take; at most the capacity and one page for each
    /// shard.
    pub fn memory_bytes(&self) -> u64 {
        self.pages.memory().usage() as u64
    }

    /// Returns true if the cache has a disk.
    pub fn has_disk(&self) -> bool {
        self.disk.is_some()
    }

    /// Writes the pages in memory to the disk, for at most [`DISK_CLOSE_TIMEOUT`], and drops them.
    pub async fn close(&self) {
        if let Err(error) = disk::close(&self.pages).await {
            warn!(%error, "the memory was not written to the disk cache completely");
        }
    }
}

impl<B: BlockStore> Metered for Cache<B> {
    fn visit_metrics(&self, visit: &mut dyn FnMut(Metric)) {
        self.meters.visit_metrics(visit);
        let written = self.pages.statistics().disk_write_bytes() as u64;
        let (name, help) =
            ("ashlar_cache_disk_written_bytes_total", "Bytes written to the cache disk.");
        visit(Metric::counter(name, help, written));
        let name = "ashlar_cache_memory_bytes";
        let help = "Memory that the block cache uses, with 256 bytes of overhead for each page.";
        visit(Metric::gauge(name, help, self.memory_bytes()));
        let (name, help) =
            ("ashlar_cache_disk_enabled", "1 if the block cache uses a disk, else 0.");
        visit(Metric::gauge(name, help, self.has_disk().into()));
    }
}

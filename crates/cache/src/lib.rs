//! A block reader with a cache in memory and, optionally, on a disk.
//!
//! The cache holds *pages*: the content of one sub-block each, by block and index. Blocks never change,
//! so nothing is ever stale. A page in memory has passed its checksum, or was sealed here, so a hit is
//! just a lookup. A page from the disk is verified before it gets into memory. So is what comes from the
//! block store: if it fails, it is requested once more, and then it is an error. A reader never gets
//! zeros or fewer bytes.
//!
//! A cold read asks the store for exactly the pages that are missing, neighbours in one request;
//! concurrent readers of one page share the request. What to read ahead is the callers' business.
//!
//! The cache knows neither files nor objects, nor when a block is deleted: nobody asks for a page of a
//! deleted block, and so it is evicted in time.

#![cfg_attr(
    not(test),
    deny(clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::unwrap_used)
)]

mod claims;
mod disk;
mod flights;
mod metrics;
mod page;
mod read;
mod seen;

use std::sync::Arc;

use block::{BlockStore, SUB_BLOCK_BYTES};
use tracing::warn;

use crate::claims::Claims;
use crate::disk::{Disk, Pages};
use crate::flights::Flights;
use crate::metrics::Metrics;
use crate::seen::Seen;

pub use disk::{
    DISK_BYTES_MIN, DISK_CLOSE_PATIENCE, DISK_OPEN_PATIENCE, DISK_PATIENCE_DEFAULT, DISK_REST,
    DiskOptions,
};
pub use metrics::CacheCounters;
pub use page::PAGE_OVERHEAD_BYTES;

/// Bytes of memory that a cache has at least. A smaller setting counts as this.
pub const MEMORY_BYTES_MIN: u64 = 1 << 20;

/// Pages that one request fetches and that count as a scan: they pass through, unless they were
/// asked for before, not long ago, or the memory holds less than [`SCAN_MEMORY_BYTES`].
pub const SCAN_PAGES_MIN: u32 = 64;

/// Bytes in memory from which on a scan must earn its place. Most of what is read in long runs is
/// read once, and a copy into memory that was not used before costs as much as all else that is
/// done for the read.
pub const SCAN_MEMORY_BYTES: usize = 16 << 20;

/// How many times as many places there are for pages that were asked for as there is room for pages:
/// one of a working set as large as that is rarely forgotten before it comes again.
const SEEN_FOR_EACH: u64 = 32;

/// What a cache may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// Bytes of memory for pages, [their overhead](PAGE_OVERHEAD_BYTES) included.
    pub memory_bytes: u64,
    /// Where pages go that leave memory; `None` forgets them.
    pub disk: Option<DiskOptions>,
}

/// A caching block reader over a block store.
#[derive(Debug)]
pub struct Cache<B> {
    blocks: B,
    pages: Pages,
    disk: Option<Disk>,
    flights: Arc<Flights>,
    claims: Arc<Claims>,
    seen: Seen,
    metrics: Metrics,
}

impl<B: BlockStore> Cache<B> {
    /// Opens a cache. If the disk cannot be used, there is none, and a warning says why.
    ///
    /// # Errors
    /// If not even the memory can be had; then in words of the library's.
    pub async fn open(blocks: B, options: CacheOptions) -> Result<Cache<B>, foyer::Error> {
        let metrics = Metrics::default();
        let memory_bytes = options.memory_bytes.max(MEMORY_BYTES_MIN);
        let mut opened = None;
        if let Some(options) = &options.disk {
            match disk::memory_over_disk(memory_bytes, options, &metrics).await {
                Ok((pages, disk)) => opened = Some((pages, Some(disk))),
                Err(error) => warn!(
                    dir = %options.dir.display(), %error,
                    "serving without the disk cache: give it a folder of its own that this user \
                     can write, with room for its size",
                ),
            }
        }
        let (pages, disk) = match opened {
            Some(opened) => opened,
            None => (disk::memory_alone(memory_bytes, &metrics).await?, None),
        };
        let disk_bytes = options.disk.as_ref().map_or(0, |options| options.bytes);
        let room = memory_bytes.saturating_add(disk_bytes) / u64::from(SUB_BLOCK_BYTES);
        let seen = Seen::new(usize::try_from(room * SEEN_FOR_EACH).unwrap_or(usize::MAX));
        Ok(Cache {
            blocks,
            pages,
            disk,
            flights: Arc::default(),
            claims: Arc::default(),
            seen,
            metrics,
        })
    }

    /// The store beneath.
    pub fn inner(&self) -> &B {
        &self.blocks
    }

    /// What was counted so far, and what is held now.
    pub fn counters(&self) -> CacheCounters {
        let memory = self.pages.memory();
        let disk = self.disk.as_ref();
        CacheCounters {
            memory_pages: memory.entries() as u64,
            memory_bytes: memory.usage() as u64,
            disk_dropped: disk.map_or(0, |disk| disk.beneath.dropped.get()),
            disk_written_bytes: self.pages.statistics().disk_write_bytes() as u64,
            disk: disk.is_some(),
            ..self.metrics.read()
        }
    }

    /// Writes what memory holds to the disk, for [`DISK_CLOSE_PATIENCE`] at most, and forgets it.
    pub async fn close(&self) {
        if let Err(error) = disk::close(&self.pages).await {
            warn!(%error, "the disk cache was not written to its end");
        }
    }
}

//! The disk below the memory: how it is opened, and when it is not used.
//!
//! A disk may be full, slow, absent, read-only or damaged, and no reader may fail for it. A lookup
//! waits at most [`DiskOptions::timeout`]. A disk that was late or failed is not used for
//! [`DISK_PAUSE`]. If a disk cannot be opened, the cache runs without one.
//!
//! A page is written when it is evicted from memory. So hot pages are in memory only, and no page
//! is written twice. Closing writes the pages that are still in memory. When the disk is full, a
//! page is written only if it was requested before, not long ago. So pages that are read once do
//! not displace pages that are read repeatedly.
//!
//! For example, a disk that needs 500 ms for a lookup is skipped after 100 ms; the page comes from
//! the block store, and the disk is tried again 2 seconds later.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use foyer::{
    BlockEngineConfig, DeviceBuilder, FsDeviceBuilder, HybridCache, HybridCacheBuilder,
    HybridCachePolicy, HybridCacheProperties, Location, PsyncIoEngineConfig, RecoverMode,
    S3FifoConfig, Spawner,
};
use tokio::time::Instant;
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

use crate::metrics::{CacheMeters, EvictionCounter, LibraryMetrics};
use crate::page::{Page, PageKey};

/// The smallest size of a disk cache, in bytes.
pub const DISK_BYTES_MIN: u64 = 64 << 20;

/// The default timeout of a lookup on the disk.
pub const DISK_TIMEOUT_DEFAULT: Duration = Duration::from_millis(100);

/// The time for which a disk is not used after it was late or failed.
pub const DISK_PAUSE: Duration = Duration::from_secs(2);

// A slow disk costs a small share of the time: one late lookup, then a pause.
const _: () = assert!(10 * DISK_TIMEOUT_DEFAULT.as_millis() <= DISK_PAUSE.as_millis());

/// The timeout for opening a disk and reading all its indexes.
pub const DISK_OPEN_TIMEOUT: Duration = Duration::from_secs(30);

/// The timeout for writing the memory to the disk at the end.
pub const DISK_CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of pages that are collected or written, in each of two buffers.
const WRITE_BUFFER_BYTES: usize = 16 << 20;

/// Bytes of pages that wait to be written. Further pages are dropped.
const WRITE_QUEUE_BYTES: usize = 32 << 20;

/// Files of the disk that are written at the same time.
const FLUSHERS: usize = 2;

/// Threads that wait for the disk at the same time.
const DISK_THREADS: usize = 4;

/// The number of files into which a disk cache is divided. Space is freed by emptying a whole file.
const FILES: u64 = 128;

/// The smallest and the largest size of such a file, in bytes.
const FILE_BYTES_MIN: u64 = 1 << 20;
const FILE_BYTES_MAX: u64 = 1 << 30;

/// With fewer empty files than this the disk counts as full: the files that are being written, and
/// the next ones.
const CLEAN_FILES_MIN: u64 = 4;

/// The prefix of the folder with the files of one layout. The number is the version of the format.
const LAYOUT: &str = "pages-1-";

/// Only the owner may read files and folders, because they hold users' data.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// The memory of one shard, a part of the cache in memory, in bytes. Each shard has a lock of its
/// own.
const SHARD_BYTES: u64 = 8 << 20;
const SHARDS_MAX: u64 = 16;

/// The settings of a disk cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskOptions {
    /// A folder for this cache alone. It is created if it does not exist.
    pub dir: PathBuf,
    /// The size of its files in bytes, at least [`DISK_BYTES_MIN`].
    pub bytes: u64,
    /// The timeout of a lookup on the disk. After it the page is fetched from the block store.
    pub timeout: Duration,
}

pub(crate) type Pages = HybridCache<PageKey, Page>;

/// An open disk cache.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) timeout: Duration,
    /// The number of files that are empty.
    clean: Arc<AtomicU64>,
    began: Instant,
    /// The time until which the disk is not used, in milliseconds since it was opened.
    paused_until: AtomicU64,
    /// The lock file, locked while the cache is open.
    _lock: File,
}

impl Disk {
    /// Returns true if the disk may be used now.
    pub(crate) fn is_usable(&self) -> bool {
        self.milliseconds() >= self.paused_until.load(Ordering::Relaxed)
    }

    /// Stops the use of the disk for [`DISK_PAUSE`].
    pub(crate) fn pause(&self) {
        let rest = u64::try_from(DISK_PAUSE.as_millis()).unwrap_or(u64::MAX);
        // Concurrent readers may store slightly different times; the last one is good enough.
        let until = self.milliseconds().saturating_add(rest);
        self.paused_until.store(until, Ordering::Relaxed);
    }

    /// Returns true if the disk can take pages without dropping others.
    pub(crate) fn has_free_space(&self) -> bool {
        self.clean.load(Ordering::Relaxed) >= CLEAN_FILES_MIN
    }

    fn milliseconds(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Creates a cache of pages with `bytes` bytes of memory and without a disk.
pub(crate) async fn memory_only(bytes: u64, meters: &Arc<CacheMeters>) -> foyer::Result<Pages> {
    let building = memory(bytes, LibraryMetrics::new(meters)).storage().build();
    building.with_subscriber(NoSubscriber::default()).await
}

/// Opens a cache of pages with `memory_bytes` bytes of memory over a disk. An error is a sentence
/// with the reason.
pub(crate) async fn memory_over_disk(
    memory_bytes: u64,
    options: &DiskOptions,
    meters: &Arc<CacheMeters>,
) -> Result<(Pages, Disk), String> {
    if options.bytes < DISK_BYTES_MIN {
        return Err(format!(
            "its size of {} bytes is below the minimum of {DISK_BYTES_MIN}",
            options.bytes
        ));
    }
    let file_bytes = (options.bytes / FILES).clamp(FILE_BYTES_MIN, FILE_BYTES_MAX);
    // The library writes in pages of 4 KiB.
    let file_bytes = file_bytes - file_bytes % 4096;
    let (dir, bytes) = (options.dir.clone(), options.bytes);
    // Opening may block on a slow disk, so it runs on a thread, with a timeout.
    let prepared = tokio::task::spawn_blocking(move || prepare(&dir, bytes, file_bytes));
    let prepared = with_timeout(DISK_OPEN_TIMEOUT, prepared).await?;
    let (folder, lock) = prepared.map_err(|error| error.to_string())?.map_err(|e| e.to_string())?;

    let library = LibraryMetrics::new(meters);
    let clean = Arc::clone(&library.clean);
    let size = |bytes: u64| usize::try_from(bytes).map_err(|error| error.to_string());
    let device = FsDeviceBuilder::new(&folder).with_capacity(size(options.bytes)?).build();
    let device = device.map_err(|error| error.to_string())?;
    let engine = BlockEngineConfig::new(device)
        .with_block_size(size(file_bytes)?)
        .with_flushers(FLUSHERS)
        .with_buffer_pool_size(WRITE_BUFFER_BYTES)
        .with_submit_queue_size_threshold(WRITE_QUEUE_BYTES)
        .with_clean_block_threshold(FLUSHERS);
    // A runtime of its own: a disk that hangs must not occupy the threads of the server.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(DISK_THREADS)
        .thread_name("cache")
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let building = memory(memory_bytes, library)
        .storage()
        .with_io_engine_config(PsyncIoEngineConfig::new())
        .with_engine_config(engine)
        .with_recover_mode(RecoverMode::Quiet)
        .with_spawner(Spawner::from(runtime))
        .build();
    let building = building.with_subscriber(NoSubscriber::default());
    let pages =
        with_timeout(DISK_OPEN_TIMEOUT, building).await?.map_err(|error| error.to_string())?;
    let closing = tokio::task::spawn_blocking(move || restrict_files(&folder));
    let closed = with_timeout(DISK_OPEN_TIMEOUT, closing).await?;
    closed.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    let (timeout, began, paused_until) = (options.timeout, Instant::now(), AtomicU64::new(0));
    Ok((pages, Disk { timeout, clean, began, paused_until, _lock: lock }))
}

/// Writes the pages in memory to the disk, except those of encrypted blocks, and closes the cache.
/// An error is a sentence with the reason.
pub(crate) async fn close(pages: &Pages) -> Result<(), String> {
    let closing = async {
        // The library's own flush at the end writes all pages, those for memory alone included.
        pages.flush_if(|key, _| !key.block.is_secret()).await;
        pages.close().await
    };
    let closing = closing.with_subscriber(NoSubscriber::default());
    with_timeout(DISK_CLOSE_TIMEOUT, closing).await?.map_err(|error| error.to_string())
}

/// Returns the properties of a page: it is written to the disk when it leaves memory if `written`,
/// and dropped otherwise.
pub(crate) fn properties(written: bool) -> HybridCacheProperties {
    let location = if written { Location::Default } else { Location::InMem };
    HybridCacheProperties::default().with_location(location)
}

async fn with_timeout<F: Future>(timeout: Duration, future: F) -> Result<F::Output, String> {
    let late = |_| format!("it did not answer within {} seconds", timeout.as_secs());
    tokio::time::timeout(timeout, future).await.map_err(late)
}

/// Builds the memory of a cache with or without a disk. Its eviction is S3-FIFO: pages that are
/// read once pass through a tenth of the memory, and pages that are read again enter the rest.
fn memory(
    bytes: u64,
    library: LibraryMetrics,
) -> foyer::HybridCacheBuilderPhaseMemory<PageKey, Page, foyer::DefaultHasher> {
    let shards = usize::try_from((bytes / SHARD_BYTES).clamp(1, SHARDS_MAX)).unwrap_or(1);
    HybridCacheBuilder::new()
        .with_name("cache")
        .with_policy(HybridCachePolicy::WriteOnEviction)
        .with_flush_on_close(false)
        .with_event_listener(Arc::new(EvictionCounter(Arc::clone(&library.meters))))
        .with_metrics_registry(Box::new(library))
        .memory(usize::try_from(bytes).unwrap_or(usize::MAX))
        .with_shards(shards)
        .with_eviction_config(S3FifoConfig::default())
        .with_weighter(|_: &PageKey, page: &Page| page.cost())
}

/// Prepares the folder for the files of this layout and locks it. Removes the files of other
/// layouts.
fn prepare(dir: &Path, bytes: u64, file_bytes: u64) -> io::Result<(PathBuf, File)> {
    let folders = |path: &Path| DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path);
    folders(dir)?;
    let mut private = OpenOptions::new();
    private.write(true).create(true).truncate(true).mode(FILE_MODE);
    let lock = private.open(dir.join("lock"))?;
    // Two processes would overwrite each other's files.
    lock.try_lock().map_err(|error| match error {
        fs::TryLockError::WouldBlock => io::Error::other("another process uses this folder"),
        fs::TryLockError::Error(error) => error,
    })?;
    // The name contains the sizes, so a changed setting starts with an empty folder.
    let layout = format!("{LAYOUT}{}x{file_bytes}", bytes / file_bytes);
    for found in fs::read_dir(dir)? {
        let found = found?;
        let name = found.file_name();
        // The library cannot read files of another layout, and they would take up space.
        let other = name.to_str().is_some_and(|name| name.starts_with("pages-") && name != layout);
        if other && found.file_type()?.is_dir() {
            fs::remove_dir_all(found.path())?;
        }
    }
    let folder = dir.join(layout);
    folders(&folder)?;
    // An earlier release may have created the folder with other permissions. Its files follow once
    // they all exist.
    fs::set_permissions(&folder, Permissions::from_mode(FOLDER_MODE))?;
    lock.set_permissions(Permissions::from_mode(FILE_MODE))?;
    Ok((folder, lock))
}

/// Restricts the files of a layout, which the library creates, to their owner. Their folder is
/// restricted already.
fn restrict_files(folder: &Path) -> io::Result<()> {
    for found in fs::read_dir(folder)? {
        let found = found?;
        if found.file_type()?.is_file() {
            fs::set_permissions(found.path(), Permissions::from_mode(FILE_MODE))?;
        }
    }
    Ok(())
}

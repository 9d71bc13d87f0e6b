//! The disk beneath the memory: how it is opened, and when it is left alone.
//!
//! A disk may be full, slow, absent, read-only or damaged, and no reader should notice. A lookup waits
//! [`DiskOptions::patience`] at most, and a disk that was late or failed is not used for [`DISK_REST`].
//! If a disk cannot be opened, there is none.
//!
//! A page is written when it is evicted from memory. So hot pages are in memory only, and nothing is
//! written twice. Closing writes what is still in memory. On a full disk, a page is written only if it
//! was asked for before, not long ago. So what is read once does not displace what is read repeatedly.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
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

use crate::metrics::{Beneath, Metrics};
use crate::page::{Page, PageKey};

/// Bytes of disk below which a disk cache is not worthwhile.
pub const DISK_BYTES_MIN: u64 = 64 << 20;

/// How long a lookup on the disk may take, by default.
pub const DISK_PATIENCE_DEFAULT: Duration = Duration::from_millis(100);

/// How long a disk is left alone after it was late or failed.
pub const DISK_REST: Duration = Duration::from_secs(2);

/// How long opening a disk may take, all its indexes read.
pub const DISK_OPEN_PATIENCE: Duration = Duration::from_secs(30);

/// How long writing what memory holds may take at the end.
pub const DISK_CLOSE_PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of pages that are being collected or written, in each of two buffers.
const WRITE_BUFFER_BYTES: usize = 16 << 20;

/// Bytes of pages that wait to be written; what comes beyond is dropped.
const WRITE_QUEUE_BYTES: usize = 32 << 20;

/// How many parts of the disk are written at a time.
const FLUSHERS: usize = 2;

/// Threads that wait for the disk at a time.
const DISK_THREADS: usize = 4;

/// Into how many files a disk is divided. Room is made by emptying one.
const FILES: u64 = 128;

/// Bytes of such a file, at least and at most.
const FILE_BYTES_MIN: u64 = 1 << 20;
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Empty files from which on a disk counts as full: those that are being written and the next.
const CLEAN_FILES_MIN: u64 = 4;

/// Begins the name of the folder that holds the files of one layout.
const LAYOUT: &str = "pages-1-";

/// Files and folders are their owner's alone.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Memory of a part of the index that has a lock of its own.
const SHARD_BYTES: u64 = 8 << 20;
const SHARDS_MAX: u64 = 16;

/// Where pages are kept that left memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskOptions {
    /// A folder for this cache alone. It is made if it is not there.
    pub dir: PathBuf,
    /// Bytes that its files may take, at least [`DISK_BYTES_MIN`].
    pub bytes: u64,
    /// How long a lookup may take.
    pub patience: Duration,
}

pub(crate) type Pages = HybridCache<PageKey, Page>;

/// A disk that is in use.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) patience: Duration,
    pub(crate) beneath: Beneath,
    began: Instant,
    /// Until when the disk is left alone, in milliseconds since it was opened.
    rests_until: AtomicU64,
    /// Held as long as the files are used.
    _lock: File,
}

impl Disk {
    /// Whether the disk is asked now.
    pub(crate) fn is_asked(&self) -> bool {
        self.milliseconds() >= self.rests_until.load(Ordering::Relaxed)
    }

    /// Leaves the disk alone for a while.
    pub(crate) fn rest(&self) {
        let rest = u64::try_from(DISK_REST.as_millis()).unwrap_or(u64::MAX);
        let until = self.milliseconds().saturating_add(rest);
        self.rests_until.store(until, Ordering::Relaxed);
    }

    /// Whether the disk has room without giving anything up.
    pub(crate) fn has_room(&self) -> bool {
        self.beneath.clean.get() >= CLEAN_FILES_MIN
    }

    fn milliseconds(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// A memory of so many bytes without a disk.
pub(crate) async fn memory_alone(bytes: u64, metrics: &Metrics) -> foyer::Result<Pages> {
    let building = memory(bytes, metrics, Beneath::default()).storage().build();
    building.with_subscriber(NoSubscriber::default()).await
}

/// A memory over a disk, or in a sentence why there is none.
pub(crate) async fn memory_over_disk(
    memory_bytes: u64,
    options: &DiskOptions,
    metrics: &Metrics,
) -> Result<(Pages, Disk), String> {
    if options.bytes < DISK_BYTES_MIN {
        return Err(format!("{} bytes are less than {DISK_BYTES_MIN}", options.bytes));
    }
    let file_bytes = (options.bytes / FILES).clamp(FILE_BYTES_MIN, FILE_BYTES_MAX);
    let file_bytes = file_bytes - file_bytes % 4096;
    let (dir, bytes) = (options.dir.clone(), options.bytes);
    let prepared = tokio::task::spawn_blocking(move || prepare(&dir, bytes, file_bytes));
    let prepared = within(DISK_OPEN_PATIENCE, prepared).await?;
    let (folder, lock) = prepared.map_err(|error| error.to_string())?.map_err(|e| e.to_string())?;

    let beneath = Beneath::default();
    let size = |bytes: u64| usize::try_from(bytes).map_err(|error| error.to_string());
    let device = FsDeviceBuilder::new(&folder).with_capacity(size(options.bytes)?).build();
    let device = device.map_err(|error| error.to_string())?;
    let engine = BlockEngineConfig::new(device)
        .with_block_size(size(file_bytes)?)
        .with_flushers(FLUSHERS)
        .with_buffer_pool_size(WRITE_BUFFER_BYTES)
        .with_submit_queue_size_threshold(WRITE_QUEUE_BYTES)
        .with_clean_block_threshold(FLUSHERS);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(DISK_THREADS)
        .thread_name("cache")
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let building = memory(memory_bytes, metrics, beneath.clone())
        .storage()
        .with_io_engine_config(PsyncIoEngineConfig::new())
        .with_engine_config(engine)
        .with_recover_mode(RecoverMode::Quiet)
        .with_spawner(Spawner::from(runtime))
        .build();
    let building = building.with_subscriber(NoSubscriber::default());
    let pages = within(DISK_OPEN_PATIENCE, building).await?.map_err(|error| error.to_string())?;
    let closing = tokio::task::spawn_blocking(move || close_to_others(&folder));
    let closed = within(DISK_OPEN_PATIENCE, closing).await?;
    closed.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    let (patience, began, rests_until) = (options.patience, Instant::now(), AtomicU64::new(0));
    Ok((pages, Disk { patience, beneath, began, rests_until, _lock: lock }))
}

/// Writes what memory holds to the disk, and ends.
pub(crate) async fn close(pages: &Pages) -> Result<(), String> {
    let closing = pages.close().with_subscriber(NoSubscriber::default());
    within(DISK_CLOSE_PATIENCE, closing).await?.map_err(|error| error.to_string())
}

/// How a page is kept that is to be written when it leaves memory, or not.
pub(crate) fn properties(written: bool) -> HybridCacheProperties {
    let location = if written { Location::Default } else { Location::InMem };
    HybridCacheProperties::default().with_location(location)
}

async fn within<F: Future>(patience: Duration, future: F) -> Result<F::Output, String> {
    let late = |_| format!("it did not answer within {} seconds", patience.as_secs());
    tokio::time::timeout(patience, future).await.map_err(late)
}

/// The memory of both kinds of cache. Its queues are those of S3-FIFO: what is read once passes
/// through a tenth of the room, and what is read again gets into the rest.
fn memory(
    bytes: u64,
    metrics: &Metrics,
    beneath: Beneath,
) -> foyer::HybridCacheBuilderPhaseMemory<PageKey, Page, foyer::DefaultHasher> {
    let shards = usize::try_from((bytes / SHARD_BYTES).clamp(1, SHARDS_MAX)).unwrap_or(1);
    HybridCacheBuilder::new()
        .with_name("cache")
        .with_policy(HybridCachePolicy::WriteOnEviction)
        .with_flush_on_close(true)
        .with_event_listener(metrics.listener())
        .with_metrics_registry(Box::new(beneath))
        .memory(usize::try_from(bytes).unwrap_or(usize::MAX))
        .with_shards(shards)
        .with_eviction_config(S3FifoConfig::default())
        .with_weighter(|_: &PageKey, page: &Page| page.cost())
}

/// The folder for the files of this layout, and the lock on it. Files of other layouts go.
fn prepare(dir: &Path, bytes: u64, file_bytes: u64) -> io::Result<(PathBuf, File)> {
    let folders = |path: &Path| DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path);
    folders(dir)?;
    let mut private = OpenOptions::new();
    private.write(true).create(true).truncate(true).mode(FILE_MODE);
    let lock = private.open(dir.join("lock"))?;
    lock.try_lock().map_err(|error| match error {
        fs::TryLockError::WouldBlock => io::Error::other("another process uses the folder"),
        fs::TryLockError::Error(error) => error,
    })?;
    let layout = format!("{LAYOUT}{}x{file_bytes}", bytes / file_bytes);
    for found in fs::read_dir(dir)? {
        let found = found?;
        let name = found.file_name();
        let other = name.to_str().is_some_and(|name| name.starts_with("pages-") && name != layout);
        if other && found.file_type()?.is_dir() {
            fs::remove_dir_all(found.path())?;
        }
    }
    let folder = dir.join(layout);
    folders(&folder)?;
    // One that an earlier release made; what is in it follows when all of it is there.
    fs::set_permissions(&folder, Permissions::from_mode(FOLDER_MODE))?;
    lock.set_permissions(Permissions::from_mode(FILE_MODE))?;
    Ok((folder, lock))
}

/// Gives the files of a layout, which the library makes, to their owner alone. Their folder is that
/// already.
fn close_to_others(folder: &Path) -> io::Result<()> {
    for found in fs::read_dir(folder)? {
        let found = found?;
        if found.file_type()?.is_file() {
            fs::set_permissions(found.path(), Permissions::from_mode(FILE_MODE))?;
        }
    }
    Ok(())
}

//! The space of a mount, for `df`.
//!
//! The used space comes from the volume's counters, the free space from the file system of the
//! block store's directory. Both are cached for a second, because programs may poll them. If a
//! store does not answer within [`TIMEOUT`], the last figures are used. For example, over a bucket,
//! whose free space is unknown, `df` shows 1 PiB free.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fuse::FileSystemSpace;
use record::Ino;
use tokio::sync::Mutex;
use tokio::time::Instant;
use volume::{Usage, Volume};

/// The lifetime of cached figures.
const CACHED_FOR: Duration = Duration::from_secs(1);

/// The limit of time to get new figures from the stores. After it, the last known figures are used.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The block size of the figures, in bytes.
const UNIT_BYTES: u32 = 4 << 10;

/// The free space if it is unknown, as in a bucket: 1 PiB.
const UNKNOWN_FREE_BYTES: u64 = 1 << 50;

/// The number of free inodes. No store has a limit, so it is only a large number.
const NAMES_FREE: u64 = 1 << 40;

/// The limit of bytes of a name.
const NAME_BYTES_MAX: u32 = 255;

/// The free bytes of the file system that has the block store's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Free {
    /// The free bytes that programs of any user can fill.
    available: u64,
    /// All free bytes, including the file system's reserve for privileged users.
    all: u64,
}

/// The used and free space of a mount, for `df`.
#[derive(Debug)]
pub(super) struct Space {
    volume: Arc<Volume>,
    /// The mounted bucket, or the bucket of the mounted directory; the root for the whole volume.
    bucket: Ino,
    /// The directory of the block store, if it is one.
    folder: Option<PathBuf>,
    /// The cached figures of used and free space, and the time of the query; `None` before the
    /// first query.
    known: Mutex<Option<(Instant, Usage, Free)>>,
}

impl Space {
    pub(super) fn new(volume: Arc<Volume>, bucket: Ino, folder: Option<PathBuf>) -> Space {
        Space { volume, bucket, folder, known: Mutex::default() }
    }

    /// Returns the space, at most [`CACHED_FOR`] old if the stores answer.
    pub(super) async fn figures(&self) -> FileSystemSpace {
        // The lock is held during the query, so that concurrent callers wait for one query.
        let mut known = self.known.lock().await;
        let (held, free) = match *known {
            Some((at, held, free)) if at.elapsed() < CACHED_FOR => (held, free),
            before => {
                let (_, held, free) =
                    before.unwrap_or((Instant::now(), Usage::default(), UNKNOWN_FREE));
                let query = tokio::time::timeout(TIMEOUT, self.volume.holdings(self.bucket));
                let (counted, seen) = futures::join!(query, self.free());
                let held = counted.ok().and_then(Result::ok).unwrap_or(held);
                let free = seen.unwrap_or(free);
                *known = Some((Instant::now(), held, free));
                (held, free)
            }
        };
        space_of(held, free)
    }

    /// Returns the free space of the block store, or `None` if its file system does not answer in
    /// time.
    async fn free(&self) -> Option<Free> {
        let Some(folder) = self.folder.clone() else { return Some(UNKNOWN_FREE) };
        // A network file system may not answer, so this runs on a thread that may block.
        let query = tokio::task::spawn_blocking(move || rustix::fs::statvfs(&folder));
        let seen = tokio::time::timeout(TIMEOUT, query).await.ok()?.ok()?.ok()?;
        let bytes = |fragments: u64| fragments.saturating_mul(seen.f_frsize);
        Some(Free { available: bytes(seen.f_bavail), all: bytes(seen.f_bfree) })
    }
}

const UNKNOWN_FREE: Free = Free { available: UNKNOWN_FREE_BYTES, all: UNKNOWN_FREE_BYTES };

/// Returns the figures for statfs(2): `held` is the usage of the mounted bucket or volume. The size
/// is the sum of its bytes and the free bytes.
fn space_of(held: Usage, free: Free) -> FileSystemSpace {
    let unit = u64::from(UNIT_BYTES);
    let used = held.bytes.div_ceil(unit);
    let blocks_free = free.all / unit;
    FileSystemSpace {
        blocks: used.saturating_add(blocks_free),
        blocks_free,
        blocks_available: free.available / unit,
        nodes: held.names.saturating_add(NAMES_FREE),
        nodes_free: NAMES_FREE,
        block_bytes: UNIT_BYTES,
        fragment_bytes: UNIT_BYTES,
        name_bytes_max: NAME_BYTES_MAX,
    }
}

#[cfg(test)]
mod tests;

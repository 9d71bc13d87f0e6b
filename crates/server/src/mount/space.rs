//! What `df` tells of a mount.
//!
//! Used is what the volume's counters say, and free is what the file system has that the blocks lie
//! in. Both are remembered for a moment, so that a loop of questions costs nothing, and nobody waits
//! long for an answer: a store that is away leaves the figures as they were.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fuse::FileSystemSpace;
use record::Ino;
use tokio::sync::Mutex;
use tokio::time::Instant;
use volume::{Usage, Volume};

/// How long an answer is given again.
const REMEMBERED_FOR: Duration = Duration::from_secs(1);

/// How long anybody waits for a new one.
const PATIENCE: Duration = Duration::from_secs(1);

/// The unit of the answer, in bytes.
const UNIT_BYTES: u32 = 4 << 10;

/// What is free where nobody can tell, as in a bucket: a pebibyte.
const ENDLESS_BYTES: u64 = 1 << 50;

/// Names that can be made still: no store has a limit to them.
const NAMES_FREE: u64 = 1 << 40;

/// The longest name, in bytes.
const NAME_BYTES_MAX: u32 = 255;

/// What is free: for anybody, and for those who may use what is set aside besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Free {
    available: u64,
    all: u64,
}

/// What is said of the space of a mount.
#[derive(Debug)]
pub(super) struct Space {
    volume: Arc<Volume>,
    /// The bucket that is mounted, or in which what is mounted lies; the root for the volume.
    of: Ino,
    /// The folder of blocks, if they lie in one.
    folder: Option<PathBuf>,
    known: Mutex<Option<(Instant, Usage, Free)>>,
}

impl Space {
    pub(super) fn new(volume: &Arc<Volume>, of: Ino, folder: Option<PathBuf>) -> Space {
        Space { volume: Arc::clone(volume), of, folder, known: Mutex::default() }
    }

    /// What there is, as of the last moment.
    pub(super) async fn told(&self) -> FileSystemSpace {
        let mut known = self.known.lock().await;
        let (held, free) = match *known {
            Some((asked, held, free)) if asked.elapsed() < REMEMBERED_FOR => (held, free),
            before => {
                let (_, held, free) = before.unwrap_or((Instant::now(), Usage::default(), ENDLESS));
                let asked = tokio::time::timeout(PATIENCE, self.volume.holdings(self.of));
                let (counted, seen) = futures::join!(asked, self.free());
                let held = counted.ok().and_then(Result::ok).unwrap_or(held);
                let free = seen.unwrap_or(free);
                *known = Some((Instant::now(), held, free));
                (held, free)
            }
        };
        said(held, free)
    }

    /// What is free where the blocks lie; none if that is not known in time.
    async fn free(&self) -> Option<Free> {
        let Some(folder) = self.folder.clone() else { return Some(ENDLESS) };
        // A folder on another machine may not answer.
        let asked = tokio::task::spawn_blocking(move || rustix::fs::statvfs(&folder));
        let seen = tokio::time::timeout(PATIENCE, asked).await.ok()?.ok()?.ok()?;
        let bytes = |fragments: u64| fragments.saturating_mul(seen.f_frsize);
        Some(Free { available: bytes(seen.f_bavail), all: bytes(seen.f_bfree) })
    }
}

const ENDLESS: Free = Free { available: ENDLESS_BYTES, all: ENDLESS_BYTES };

/// The answer: all there is, is what is used and what is free.
fn said(held: Usage, free: Free) -> FileSystemSpace {
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

//! The reserve: a file of real blocks beside the database, which keeps disk space for deletes.
//!
//! SQLite needs space even for a delete: in its log, and in the database for the pages that a
//! checkpoint moves there. So the store keeps a *reserve*, a file that occupies blocks of the disk
//! and has no data. If the disk is full, the writer cuts the reserve by the space that the next
//! delete needs. When there is space again, the reserve grows before other writes get space.
//!
//! ```text
//!           the disk has space                    a delete meets a full disk
//!  whole ────────────────────────► whole   whole ────────────────────────────► cut
//!    ▲                                                                          │
//!    └────────────────────── the disk has space again ──────────────────────────┘
//! ```
//!
//! For example, a DELETE on a full disk cuts the reserve from 8 MiB to 7.75 MiB, and is committed
//! in the space that became free.
//!
//! This module opens only the reserve and the log, never the database. If a process closes any
//! descriptor of a file, it loses all of its POSIX locks on that file, including those of SQLite.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;
use sqlx::sqlite::SqliteConnection;
use store::{StoreError, StoreErrorKind};

use crate::open::{self, FILE_MODE, sibling, wal_bytes};

/// Size of the reserve (disk space that is kept for deletes) on a large file system, in bytes.
const RESERVE_BYTES_MAX: u64 = 8 << 20;

/// Size of the reserve (disk space that is kept for deletes) on a tiny file system, in bytes.
const RESERVE_BYTES_MIN: u64 = 256 << 10;

/// The part of a small file system that the reserve, the space kept for deletes, may take: one
/// sixteenth.
const RESERVE_PART: u64 = 16;

/// With less free disk space than this, in bytes, the writer checks for space before each commit
/// and empties the write-ahead log after it. So the disk never fills up while the log has pages
/// that the database lacks.
const NEARLY_FULL_BYTES: u64 = 64 << 20;

/// The reserve, the file that keeps disk space for deletes, grows in multiples of this size in
/// bytes.
const STEP_BYTES: u64 = 64 << 10;

/// Least size of the write-ahead log's file while the disk is nearly full, in bytes, so that most
/// deletes need no space from the reserve.
const LOG_BYTES_MIN: u64 = 512 << 10;

/// The first part of the reserve, in bytes, that a delete on a full disk returns to the disk. Each
/// further cut for the same commit is twice as large.
pub(crate) const CUT_BYTES: u64 = 256 << 10;

/// The unit in which the operating system counts the blocks of a file.
const BLOCK_UNIT: u64 = 512;

/// If this much disk space is free, in bytes, an I/O error has another cause than a full disk.
pub(crate) const PROBE_BYTES: u64 = 64 << 10;

/// The reserve of one database: a file that occupies disk space, which deletes on a full disk use.
#[derive(Debug)]
pub(crate) struct Reserve {
    database: PathBuf,
    path: PathBuf,
    /// Size of the reserve when nothing has been cut from it, in bytes.
    whole: u64,
}

impl Reserve {
    /// Computes the size and path of the reserve, the file of disk space for deletes, beside
    /// `database`. Creates no file.
    pub(crate) fn beside(database: &Path) -> Reserve {
        let folder = folder(database);
        let total = statvfs(folder).map_or(0, |stat| stat.f_blocks.saturating_mul(stat.f_frsize));
        let whole = (total / RESERVE_PART).clamp(RESERVE_BYTES_MIN, RESERVE_BYTES_MAX);
        let whole = whole / STEP_BYTES * STEP_BYTES;
        Reserve { database: database.to_owned(), path: sibling(database, "-reserve"), whole }
    }

    /// Opens the connection that writes. SQLite needs some space for its files; on a full disk this
    /// space comes from the reserve.
    pub(crate) async fn connect(&self) -> Result<SqliteConnection, StoreError> {
        match open::writer(&self.database).await {
            Err(error) if error.kind() != StoreErrorKind::Corrupt => {
                let is_cut = self.len() > 0 && !self.has_space(PROBE_BYTES) && self.cut(CUT_BYTES);
                if is_cut { open::writer(&self.database).await } else { Err(error) }
            }
            opened => opened,
        }
    }

    /// Returns the number of bytes that the reserve lacks to its whole size.
    pub(crate) fn missing(&self) -> u64 {
        self.whole.saturating_sub(self.len())
    }

    fn len(&self) -> u64 {
        self.path.metadata().map_or(0, |metadata| metadata.len())
    }

    /// Returns true if the disk has little free space, or if the reserve is not whole because
    /// deletes have used a part of it.
    pub(crate) fn is_nearly_full(&self) -> bool {
        self.missing() > 0 || free_bytes(folder(&self.database)) < NEARLY_FULL_BYTES
    }

    /// Empties the reserve if it has no blocks: a tool that copied the folder, for example `rsync
    /// --sparse`, may have made a hole of it. The caller does this only at start, since some file
    /// systems count blocks late.
    pub(crate) fn fill_holes(&self) -> io::Result<()> {
        let Ok(metadata) = self.path.metadata() else { return Ok(()) };
        if metadata.blocks() * BLOCK_UNIT >= metadata.len() / 2 {
            return Ok(());
        }
        tracing::debug!("the reserve for deletes had no blocks");
        self.lock()?.set_len(0)
    }

    /// Grows the reserve to its whole size, or as far as the disk has space. A full disk is not an
    /// error. Fails only if the file cannot be used at all.
    pub(crate) fn refill(&self) -> io::Result<()> {
        if self.len() >= self.whole {
            return Ok(());
        }
        let file = self.lock()?;
        let mut len = file.metadata()?.len().min(self.whole);
        // Allocate all at once if possible, otherwise in halves, so that a nearly full disk costs
        // few system calls.
        let mut step = self.whole - len;
        while step >= STEP_BYTES {
            match allocate(&file, len, step) {
                Ok(()) => len += step,
                Err(error) if is_out_of_space(&error) => step /= 2,
                Err(error) => return Err(error),
            }
            step = step.min(self.whole - len);
        }
        // A failed step may have allocated a part.
        file.set_len(len)
    }

    /// Shortens the reserve by `bytes`, so that the disk has that space for deletes. Returns false
    /// if the reserve was empty.
    pub(crate) fn cut(&self, bytes: u64) -> bool {
        let cut = || -> io::Result<u64> {
            let file = self.lock()?;
            let len = file.metadata()?.len();
            file.set_len(len.saturating_sub(bytes))?;
            Ok(len)
        };
        cut().is_ok_and(|len| len > 0)
    }

    /// Returns true if the disk and the quota of this user have `bytes` of free space beyond the
    /// reserve. It tries to allocate them, since a quota cannot be read.
    pub(crate) fn has_space(&self, bytes: u64) -> bool {
        let probe = || -> io::Result<()> {
            let file = self.lock()?;
            let len = file.metadata()?.len();
            let allocated = allocate(&file, len, bytes);
            file.set_len(len)?;
            allocated
        };
        probe().is_ok()
    }

    /// Returns `bytes` if that much free space exists beyond the reserve, otherwise a half, a
    /// quarter and so on; 0 if there is less than one step.
    pub(crate) fn space_up_to(&self, bytes: u64) -> u64 {
        let halves = std::iter::successors(Some(bytes), |bytes| Some(bytes / 2));
        let mut halves = halves.take_while(|bytes| *bytes >= STEP_BYTES);
        halves.find(|bytes| self.has_space(*bytes)).unwrap_or(0)
    }

    /// Grows the file of the write-ahead log to its least size for a nearly full disk, if the disk
    /// has the space.
    pub(crate) fn widen_log(&self) {
        let len = wal_bytes(&self.database);
        if len == 0 || len >= LOG_BYTES_MIN {
            return;
        }
        // SQLite ends the log at the first frame without a valid checksum, so zeros at its end are
        // not data. Another process may append concurrently, so this neither writes nor truncates.
        let log = OpenOptions::new().write(true).open(sibling(&self.database, "-wal"));
        let widened = log.and_then(|log| {
            Ok(fallocate(&log, FallocateFlags::empty(), len, LOG_BYTES_MIN - len)?)
        });
        if let Err(error) = widened {
            tracing::debug!(%error, "the log of the metadata store was not widened");
        }
    }

    /// Opens and locks the file of the reserve, so that no other process changes its size
    /// meanwhile. Commands open the store while a gateway runs.
    fn lock(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        let file =
            options.create(true).truncate(false).write(true).mode(FILE_MODE).open(&self.path)?;
        file.lock()?;
        Ok(file)
    }
}

/// The folder of a file.
fn folder(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Returns the free space for this process, in bytes; `u64::MAX` if it is unknown.
fn free_bytes(folder: &Path) -> u64 {
    let Ok(stat) = statvfs(folder) else { return u64::MAX };
    // Root may use the blocks that the file system keeps for it.
    let free = if rustix::process::geteuid().is_root() { stat.f_bfree } else { stat.f_bavail };
    free.saturating_mul(stat.f_frsize)
}

/// Allocates real blocks at `offset` and sets the end of the file behind them.
fn allocate(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), offset, bytes) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => fill(file, offset, bytes),
        allocated => Ok(allocated?),
    }
}

/// Writes noise, for file systems that cannot allocate. They might store zeros without blocks.
fn fill(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    const PIECE: usize = 4 << 10;
    let (mut at, end, mut state) = (offset, offset + bytes, offset | 1);
    let mut piece = [0; PIECE];
    while at < end {
        for word in piece.chunks_exact_mut(8) {
            // Xorshift: noise that does not compress.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        let length = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
        file.write_all_at(&piece[..length], at)?;
        at += length as u64;
    }
    file.sync_data()
}

fn is_out_of_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests;

//! Load on one large file: a copy, a sequential read, and random reads.
//!
//! These are plain read and write calls of a program. For example, `copy_file` does not use
//! `copy_file_range`(2), with which a file system could copy by itself.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom as _;
use rustix::fs::{Advice, fadvise};

use crate::folder::system_error;
use crate::{Gauge, Pass, Trouble};

/// The size of a sequential read or write in bytes.
const SEQUENTIAL_BYTES: usize = 1 << 20;

/// The size of a random read in bytes.
const PAGE_BYTES: usize = 4 << 10;

/// Copies the bytes of a file to a new file, or over an existing one. Returns the duration until
/// the close of the target. With `synced` it includes an fsync(2) before the close.
///
/// # Errors
///
/// If a call fails, or the run was stopped.
pub fn copy_file(from: &Path, to: &Path, synced: bool, gauge: &Gauge) -> Result<Duration, Trouble> {
    let begin = Instant::now();
    let mut source = File::open(from).map_err(system_error("open", from))?;
    let mut target = File::create(to).map_err(system_error("create", to))?;
    through(&mut source, gauge, |bytes| target.write_all(bytes))
        .map_err(system_error("write", to))?;
    if synced {
        target.sync_all().map_err(system_error("sync", to))?;
    }
    drop(target);
    if gauge.is_stopped() { Err(Trouble::Stopped) } else { Ok(begin.elapsed()) }
}

/// Reads a file from its beginning to its end. Returns the duration.
///
/// # Errors
///
/// If a call fails, or the run was stopped.
pub fn read_file(path: &Path, gauge: &Gauge) -> Result<Duration, Trouble> {
    let begin = Instant::now();
    let mut file = File::open(path).map_err(system_error("open", path))?;
    through(&mut file, gauge, |_| Ok(())).map_err(system_error("read", path))?;
    if gauge.is_stopped() { Err(Trouble::Stopped) } else { Ok(begin.elapsed()) }
}

/// Drops the pages of a file from the page cache, so that the next read asks the file system.
///
/// # Errors
///
/// If a call fails.
pub fn forget_pages(path: &Path) -> Result<(), Trouble> {
    let file = File::open(path).map_err(system_error("open", path))?;
    // The kernel drops only pages that are written back.
    file.sync_all().map_err(system_error("sync", path))?;
    let forgotten = fadvise(&file, 0, None, Advice::DontNeed).map_err(io::Error::from);
    forgotten.map_err(system_error("forget pages of", path))
}

/// Reads at most `most` pages of 4 KiB in random order. No page is read twice, because the second
/// read would come from the page cache. Read-ahead of the kernel is turned off for the file.
///
/// # Errors
///
/// If a call fails, or the run was stopped.
pub fn read_randomly(path: &Path, most: usize, seed: u64, gauge: &Gauge) -> Result<Pass, Trouble> {
    let file = File::open(path).map_err(system_error("open", path))?;
    let length = file.metadata().map_err(system_error("look at", path))?.len();
    let advised = fadvise(&file, 0, None, Advice::Random).map_err(io::Error::from);
    advised.map_err(system_error("open", path))?;
    // All positions are shuffled before the first read, so that their choice costs no time between
    // reads.
    let mut pages: Vec<u64> = (0..length / PAGE_BYTES as u64).collect();
    pages.shuffle(&mut SmallRng::seed_from_u64(seed));
    pages.truncate(most);
    let (mut page, begin) = ([0; PAGE_BYTES], Instant::now());
    for number in &pages {
        file.read_exact_at(&mut page, number * PAGE_BYTES as u64)
            .map_err(system_error("read", path))?;
        if gauge.is_stopped() {
            return Err(Trouble::Stopped);
        }
    }
    Ok(Pass { calls: pages.len() as u64, took: begin.elapsed() })
}

/// Reads a file to its end and calls `take` for each MiB.
fn through(
    file: &mut File,
    gauge: &Gauge,
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut chunk = vec![0; SEQUENTIAL_BYTES];
    while !gauge.is_stopped() {
        let count = file.read(&mut chunk)?;
        if count == 0 {
            break;
        }
        take(&chunk[..count])?;
        gauge.add(1, count as u64);
    }
    Ok(())
}

#[cfg(test)]
mod tests;

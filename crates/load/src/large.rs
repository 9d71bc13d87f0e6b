//! The bytes of one large file: copied, read from its beginning to its end, read at random places.
//!
//! Plain reads and writes, as programs do them: nothing here asks a file system to copy by itself.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom as _;
use rustix::fs::{Advice, fadvise};

use crate::folder::wrong;
use crate::{Gauge, Pass, Trouble};

/// Bytes of one sequential read or write.
const SEQUENTIAL_BYTES: usize = 1 << 20;

/// Bytes of a read at a random place.
const PAGE_BYTES: usize = 4 << 10;

/// Copies a file's bytes into a new file or over an old one, and returns how long it took until the
/// new one was closed; if `synced`, durable before that.
///
/// # Errors
///
/// If any call fails, or the run was stopped.
pub fn copy_file(from: &Path, to: &Path, synced: bool, gauge: &Gauge) -> Result<Duration, Trouble> {
    let begin = Instant::now();
    let mut source = File::open(from).map_err(wrong("open", from))?;
    let mut target = File::create(to).map_err(wrong("create", to))?;
    through(&mut source, gauge, |bytes| target.write_all(bytes)).map_err(wrong("write", to))?;
    if synced {
        target.sync_all().map_err(wrong("sync", to))?;
    }
    drop(target);
    if gauge.is_stopped() { Err(Trouble::Stopped) } else { Ok(begin.elapsed()) }
}

/// Reads a file from its beginning to its end, and returns how long it took.
///
/// # Errors
///
/// If any call fails, or the run was stopped.
pub fn read_file(path: &Path, gauge: &Gauge) -> Result<Duration, Trouble> {
    let begin = Instant::now();
    let mut file = File::open(path).map_err(wrong("open", path))?;
    through(&mut file, gauge, |_| Ok(())).map_err(wrong("read", path))?;
    if gauge.is_stopped() { Err(Trouble::Stopped) } else { Ok(begin.elapsed()) }
}

/// Has the kernel forget what it keeps of a file, so that the next read asks its file system.
///
/// # Errors
///
/// If any call fails.
pub fn forget_pages(path: &Path) -> Result<(), Trouble> {
    let file = File::open(path).map_err(wrong("open", path))?;
    // Only what is written out is forgotten.
    file.sync_all().map_err(wrong("sync", path))?;
    let forgotten = fadvise(&file, 0, None, Advice::DontNeed).map_err(io::Error::from);
    forgotten.map_err(wrong("forget pages of", path))
}

/// Reads 4 KiB at random places, at most `most` of them and none twice: what was read once would
/// come from the kernel's memory. The kernel is told that it need not read ahead.
///
/// # Errors
///
/// If any call fails, or the run was stopped.
pub fn read_randomly(path: &Path, most: usize, seed: u64, gauge: &Gauge) -> Result<Pass, Trouble> {
    let file = File::open(path).map_err(wrong("open", path))?;
    let length = file.metadata().map_err(wrong("look at", path))?.len();
    let advised = fadvise(&file, 0, None, Advice::Random).map_err(io::Error::from);
    advised.map_err(wrong("open", path))?;
    let mut pages: Vec<u64> = (0..length / PAGE_BYTES as u64).collect();
    pages.shuffle(&mut SmallRng::seed_from_u64(seed));
    pages.truncate(most);
    let (mut page, begin) = ([0; PAGE_BYTES], Instant::now());
    for number in &pages {
        file.read_exact_at(&mut page, number * PAGE_BYTES as u64).map_err(wrong("read", path))?;
        if gauge.is_stopped() {
            return Err(Trouble::Stopped);
        }
    }
    Ok(Pass { calls: pages.len() as u64, took: begin.elapsed() })
}

/// Reads to the end of a file, and hands on what was read, MiB by MiB.
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

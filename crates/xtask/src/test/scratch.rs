//! The folder of a run, with its logs and with the data of its servers.
//!
//! Each commit of a server waits until its data is synced. A disk takes milliseconds for that, in
//! which the cores are idle. The tests end servers by signals, and a signal loses no data that the
//! kernel has, so no test depends on a sync. A run of short suites therefore has its folder in
//! memory, if the machine has enough of it. Longer runs have more data, and theirs is on the disk.

use std::fmt;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use tempfile::TempDir;

/// The file system in memory that Linux offers to all programs.
const MEMORY: &str = "/dev/shm";

/// The magic number by which `statfs` names a file system in memory, `TMPFS_MAGIC`.
const MEMORY_MAGIC: u64 = 0x0102_1994;

/// The free memory in bytes that a run in memory needs. The data of `tests/it` had 1.5 GB at the
/// most, and a cell on a mount 0.1 GB. The rest is for processes.
const NEEDED_BYTES: u64 = 8 << 30;

/// The place of a run's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The file system [`MEMORY`].
    Memory,
    /// The folder for temporary files, because this memory in bytes is free and more is needed.
    Disk(u64),
    /// The folder for temporary files, because the suites are long.
    DiskForLongSuites,
}

impl Place {
    /// Returns the place for a run on a machine with this free memory in bytes.
    fn of(is_short: bool, free: u64) -> Self {
        match (is_short, free >= NEEDED_BYTES) {
            (false, _) => Self::DiskForLongSuites,
            (true, true) => Self::Memory,
            (true, false) => Self::Disk(free),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => write!(text, "in memory ({MEMORY})"),
            Self::Disk(free) => write!(
                text,
                "on the disk: {:.1} GiB of memory are free, and {} GiB are needed",
                gibibytes(*free),
                NEEDED_BYTES >> 30
            ),
            Self::DiskForLongSuites => text.write_str("on the disk, because the suites are long"),
        }
    }
}

/// Creates the folder of a run, and returns its place. `is_short` is true for a run that takes each
/// suite in its short form.
pub(super) fn make(is_short: bool) -> Result<(TempDir, Place)> {
    let place = Place::of(is_short, free_memory());
    let mut builder = tempfile::Builder::new();
    // Servers that do not run as root must be able to search the folder.
    builder.prefix("ashlar-test-").permissions(Permissions::from_mode(0o755));
    let folder = match place {
        Place::Memory => builder.tempdir_in(MEMORY),
        Place::Disk(_) | Place::DiskForLongSuites => builder.tempdir(),
    };
    let folder = folder.context("cannot make the folder of the run")?;
    let data = data(folder.path());
    std::fs::create_dir(&data)?;
    // The same permissions as those of `/tmp`.
    std::fs::set_permissions(&data, Permissions::from_mode(0o1777))?;
    Ok((folder, place))
}

/// Returns the folder for temporary files of tests and for the data of databases. `folder` is the
/// folder of the run.
pub(super) fn data(folder: &Path) -> PathBuf {
    folder.join("tmp")
}

/// Returns the free memory in bytes that a file system in memory can have; 0 if there is none.
fn free_memory() -> u64 {
    let Ok(file_system) = rustix::fs::statfs(MEMORY) else { return 0 };
    if u64::try_from(file_system.f_type) != Ok(MEMORY_MAGIC) {
        return 0;
    }
    let block = u64::try_from(file_system.f_bsize).unwrap_or(0);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    available(&memory).min(file_system.f_bavail.saturating_mul(block))
}

/// Returns the available memory in bytes by the text of `/proc/meminfo`; 0 if it is not there.
fn available(memory: &str) -> u64 {
    let rest = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = rest.and_then(|rest| rest.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse::<u64>().ok()).map_or(0, |kib| kib.saturating_mul(1024))
}

fn gibibytes(bytes: u64) -> f64 {
    let mib = u32::try_from(bytes >> 20).unwrap_or(u32::MAX);
    f64::from(mib) / 1024.0
}

#[cfg(test)]
mod tests;

//! A temporary folder on which a program mounts a file system.
//!
//! Cleaning up never blocks on a file system that hangs. For example, the check for a mount reads
//! the kernel's table of mounts and does not call `stat` on the folder.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::child::{Child, Stop, tail};

/// The time that a program has to mount its file system.
const MOUNT_LIMIT: Duration = Duration::from_mins(1);

/// The pause between two checks for the mount.
const MOUNT_POLL: Duration = Duration::from_millis(20);

/// Returns the reason if this machine or user cannot mount file systems for tests.
pub(crate) fn obstacle() -> Option<&'static str> {
    if !Path::new("/dev/fuse").exists() {
        return Some("there is no /dev/fuse");
    }
    let root = rustix::process::geteuid().is_root();
    // The suites run programs as several users.
    (!root).then_some("only root may mount for other users and change owners")
}

/// An empty folder that every user can reach. Dropping the value unmounts a file system that is
/// still mounted there and removes the folder.
#[derive(Debug)]
pub(crate) struct MountPoint {
    folder: PathBuf,
}

impl MountPoint {
    /// Creates the folder below the folder for temporary files.
    pub(crate) fn make() -> Result<Self> {
        let open = std::fs::Permissions::from_mode(0o755);
        let made = tempfile::Builder::new().prefix("ashlar-mount-").permissions(open).tempdir()?;
        // `TempDir` would remove the files of a mounted file system together with the folder.
        Ok(Self { folder: made.keep() })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns true if the table of mounts lists the folder. This does not access the file system
    /// itself, which may hang.
    pub(crate) fn is_mounted(&self) -> Result<bool> {
        self.device().map(|device| device.is_some())
    }

    /// Returns the number of the kernel's FUSE connection, or `None` if nothing is mounted.
    pub(crate) fn device(&self) -> Result<Option<u32>> {
        let mounts =
            std::fs::read_to_string("/proc/self/mountinfo").context("cannot read the mounts")?;
        Ok(device_in(&mounts, &self.folder.to_string_lossy()))
    }

    /// Waits until `program` has mounted its file system. Fails if it ends or takes longer than
    /// [`MOUNT_LIMIT`].
    pub(crate) fn wait(&self, program: &mut Child, stop: &Stop) -> Result<()> {
        let end = Instant::now() + MOUNT_LIMIT;
        while !self.is_mounted()? {
            program.check_alive().with_context(|| tail(program.log(), 20))?;
            if Instant::now() > end {
                bail!(
                    "nothing was mounted within {} s:\n{}",
                    MOUNT_LIMIT.as_secs(),
                    tail(program.log(), 20)
                );
            }
            stop.sleep(MOUNT_POLL)?;
        }
        Ok(())
    }

    /// Aborts the connection, so that all waiting calls of programs on the mount fail.
    pub(crate) fn abort(&self) {
        if self.is_mounted().unwrap_or(true) {
            // `umount` reports that the mount is busy, but the kernel has aborted the connection.
            Command::new("umount").arg("--force").arg(&self.folder).output().ok();
        }
    }
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        if self.is_mounted().unwrap_or(true) {
            // A killed program leaves its mount. A lazy unmount succeeds also while files are open.
            Command::new("umount").arg("--lazy").arg(&self.folder).status().ok();
        }
        if let Err(error) = std::fs::remove_dir(&self.folder) {
            eprintln!("cannot remove {}: {error}", self.folder.display());
        }
    }
}

/// Returns the minor device number of the mount on `folder`. `mounts` has the form of
/// `/proc/self/mountinfo`. If several mounts cover each other, the last one is visible and counts.
fn device_in(mounts: &str, folder: &str) -> Option<u32> {
    let mounted = |line: &&str| line.split(' ').nth(4) == Some(folder);
    let line = mounts.lines().rev().find(mounted)?;
    line.split(' ').nth(2)?.split_once(':')?.1.parse().ok()
}

#[cfg(test)]
mod tests;

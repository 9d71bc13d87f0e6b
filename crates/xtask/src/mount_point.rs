//! A folder on which something is mounted for a while.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::child::{Child, Stop, tail};

/// How long a program may take to mount.
const MOUNT_LIMIT: Duration = Duration::from_mins(1);

/// How often it is looked whether it has.
const MOUNT_POLL: Duration = Duration::from_millis(20);

/// Why nothing can be mounted here, if so.
pub(crate) fn hindrance() -> Option<&'static str> {
    if !Path::new("/dev/fuse").exists() {
        return Some("there is no /dev/fuse");
    }
    let root = rustix::process::geteuid().is_root();
    (!root).then_some("only root may mount for other users and change owners")
}

/// An empty folder that every user can reach, and on which something may be mounted. What still is
/// when this value goes is taken away.
#[derive(Debug)]
pub(crate) struct MountPoint {
    folder: PathBuf,
}

impl MountPoint {
    pub(crate) fn make() -> Result<Self> {
        let open = std::fs::Permissions::from_mode(0o755);
        let made = tempfile::Builder::new().prefix("ashlar-mount-").permissions(open).tempdir()?;
        // Kept, because nothing that is mounted there may be removed with the folder.
        Ok(Self { folder: made.keep() })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Looks into the table of mounts: a mount that hangs is not touched.
    pub(crate) fn is_mounted(&self) -> Result<bool> {
        self.device().map(|device| device.is_some())
    }

    /// The number that the kernel knows its connection to the file system by, once it is mounted.
    pub(crate) fn device(&self) -> Result<Option<u32>> {
        let mounts =
            std::fs::read_to_string("/proc/self/mountinfo").context("cannot see mounts")?;
        Ok(device_in(&mounts, &self.folder.to_string_lossy()))
    }

    /// Waits until the program has mounted.
    pub(crate) fn wait(&self, program: &mut Child, stop: &Stop) -> Result<()> {
        let end = Instant::now() + MOUNT_LIMIT;
        while !self.is_mounted()? {
            program.check_alive().with_context(|| tail(program.log(), 20))?;
            if Instant::now() > end {
                bail!("nothing was mounted in time:\n{}", tail(program.log(), 20));
            }
            stop.sleep(MOUNT_POLL)?;
        }
        Ok(())
    }

    /// Takes what is mounted from whoever waits for it: all their calls fail.
    pub(crate) fn abort(&self) {
        if self.is_mounted().unwrap_or(true) {
            // That it is busy is what it says then; the connection ends all the same.
            Command::new("umount").arg("--force").arg(&self.folder).output().ok();
        }
    }
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        if self.is_mounted().unwrap_or(true) {
            // A program that was killed has left it; whoever still uses it is told so.
            Command::new("umount").arg("--lazy").arg(&self.folder).status().ok();
        }
        if let Err(error) = std::fs::remove_dir(&self.folder) {
            eprintln!("cannot remove {}: {error}", self.folder.display());
        }
    }
}

/// The minor number of the device on a folder, in the form of `/proc/self/mountinfo`: the last one,
/// which hides the others.
fn device_in(mounts: &str, folder: &str) -> Option<u32> {
    let mounted = |line: &&str| line.split(' ').nth(4) == Some(folder);
    let line = mounts.lines().rev().find(mounted)?;
    line.split(' ').nth(2)?.split_once(':')?.1.parse().ok()
}

#[cfg(test)]
mod tests;

//! The parameters of a mount.

use std::time::Duration;

use volume::Coherence;

/// The parameters of a mount: the part of the volume that it shows, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountParameters {
    /// True: programs can change nothing.
    pub read_only: bool,
    /// The path of the mounted directory: the bucket and the names below it. Empty for the whole
    /// volume.
    pub subdir: Vec<String>,
    /// True: all users may use the mount, not only the one who mounts.
    pub allow_other: bool,
    /// True: reads update access times.
    pub updates_atime: bool,
    /// The user that files are shown with.
    pub uid: ShownOwner,
    /// The group that files are shown with.
    pub gid: ShownOwner,
    /// The permission bits that no file is shown with. All other bits are shown for every file.
    /// `None` shows each file's own permissions.
    pub umask: Option<u32>,
    /// The kernel's cache of names and attributes while other processes have the volume open.
    pub coherence: Coherence,
    /// The limit of memory for dirty data, in bytes.
    pub write_memory: u64,
    /// The time after which an operation fails if a store does not answer.
    pub io_timeout: Duration,
}

/// The user or group that all files of a mount are shown with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownOwner {
    /// The one who mounts. If that is root, each file's own, because root may change all files
    /// anyway, and sets owners itself.
    Mounter,
    /// The owner of each file.
    Own,
    /// This owner for all files.
    Number(u32),
}

impl ShownOwner {
    /// Returns the owner that all files are shown with, or `None` for each file's own. `mounter` is
    /// the number of the user or group that mounts.
    pub(crate) fn number(self, mounter: u32, is_root: bool) -> Option<u32> {
        match self {
            ShownOwner::Number(number) => Some(number),
            ShownOwner::Own => None,
            ShownOwner::Mounter => (!is_root).then_some(mounter),
        }
    }
}

#[cfg(test)]
mod tests;

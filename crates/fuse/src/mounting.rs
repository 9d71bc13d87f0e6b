//! Mounting and unmounting.
//!
//! Root mounts directly; other users mount through `fusermount3`. A folder is refused before
//! anything is done if the mount would hide files, or if another mount of this program is there.
//! This thread never accesses such a mount: if its server does not answer, it would wait for ever.
//! For example, while the server is stopped, `stat` of the mount point hangs, but the kernel's
//! table of mounts can be read. A mount of this program whose server has ended is removed.

mod dead;
mod failure;
mod fusermount;
mod options;
mod table;

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno as SystemErrno;
use rustix::mount::{MountFlags, UnmountFlags};

use crate::device::Device;
use failure::DEVICE;

pub use failure::{MountError, UnmountError, UnmountMode};
pub use options::MountOptions;

/// Mounts a FUSE file system on an empty folder, and returns the device through which the kernel
/// sends its requests. Operations on the mount wait until a session starts. The mount ends when the
/// last duplicate of the device is closed.
///
/// If a mount of the same subtype is there whose server has ended, removes it first.
pub fn mount(folder: &Path, options: &MountOptions) -> Result<Device, MountError> {
    if !options.is_well_formed() {
        return Err(MountError::Options);
    }
    let mut found = resolve_mountable(folder, options)?;
    if let Mountable::Dead(dead) = &found {
        remove_dead(dead)?;
        // The folder below the removed mount has to be empty, too.
        found = resolve_mountable(folder, options)?;
    }
    let Mountable::Free(folder) = found else { return Err(MountError::Dead) };
    if rustix::process::geteuid().is_root() {
        mount_as_root(&folder, options)
    } else {
        fusermount::mount(&folder, options)
    }
}

/// Checks whether [`mount`] can mount on a folder, as far as that is known before: the folder is
/// empty and has no mount of this program, unless its server has ended, and the FUSE device exists.
/// For a user other than root, `fusermount3` exists, the user may write to the folder, and
/// `allow_other` is permitted. Changes nothing.
pub fn check_mountable(folder: &Path, options: &MountOptions) -> Result<(), MountError> {
    let (Mountable::Free(at) | Mountable::Dead(at)) = resolve_mountable(folder, options)?;
    if rustix::process::geteuid().is_root() {
        open_device().map(drop)
    } else if Path::new(DEVICE).exists() {
        fusermount::check(&at, options)
    } else {
        Err(MountError::DeviceMissing)
    }
}

/// The full path of a folder on which a mount is possible.
enum Mountable {
    /// The folder is empty and has no mount of this program.
    Free(PathBuf),
    /// A mount of this program is there, and its server has ended.
    Dead(PathBuf),
}

/// Returns the full path of a folder on which a mount is possible; otherwise fails with the reason.
fn resolve_mountable(folder: &Path, options: &MountOptions) -> Result<Mountable, MountError> {
    let folder = resolve(folder).map_err(|error| folder_error(error, "resolving the folder"))?;
    // The table of mounts is read first, because every access to a dead mount fails or hangs.
    let mounted = table::find(&folder).map_err(MountError::other("reading the table of mounts"))?;
    if let Some(mounted) = mounted
        && mounted.kind == format!("fuse.{}", options.subtype)
    {
        if dead::is_dead(&folder) {
            return Ok(Mountable::Dead(folder));
        }
        return Err(MountError::InUse { mounted: mounted.source });
    }
    let metadata = std::fs::metadata(&folder);
    let metadata = metadata.map_err(|error| folder_error(error, "resolving the folder"))?;
    if !metadata.is_dir() {
        return Err(MountError::NotAFolder);
    }
    let mut names =
        std::fs::read_dir(&folder).map_err(|error| folder_error(error, "reading the folder"))?;
    if names.next().is_some() { Err(MountError::NotEmpty) } else { Ok(Mountable::Free(folder)) }
}

/// Returns the reason why a mount failed, for an error of accessing the folder in this step.
#[expect(clippy::wildcard_enum_match_arm, reason = "the kinds of `std::io` errors grow")]
fn folder_error(error: io::Error, step: &'static str) -> MountError {
    match error.kind() {
        io::ErrorKind::NotFound => MountError::Missing,
        io::ErrorKind::NotADirectory => MountError::NotAFolder,
        io::ErrorKind::NotConnected => MountError::Dead,
        io::ErrorKind::PermissionDenied => MountError::NotPermitted { step: step.to_owned() },
        _ => MountError::Other { step, source: error },
    }
}

/// Returns the full path of a folder, with symbolic links resolved, without accessing a mount at
/// its end.
fn resolve(folder: &Path) -> io::Result<PathBuf> {
    let whole = std::path::absolute(folder)?;
    match (whole.parent(), whole.file_name()) {
        // The joined path has no slash at its end. A trailing slash would follow a symbolic link.
        (Some(parent), Some(name)) if !is_link(&parent.join(name)) => {
            Ok(parent.canonicalize()?.join(name))
        }
        _ => whole.canonicalize(),
    }
}

/// Returns true if the path ends in a symbolic link. Reading a link does not access a mount.
fn is_link(path: &Path) -> bool {
    std::fs::read_link(path).is_ok()
}

fn open_device() -> Result<OwnedFd, MountError> {
    rustix::fs::open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(|error| {
        match error {
            SystemErrno::NOENT | SystemErrno::NODEV | SystemErrno::NXIO => {
                MountError::DeviceMissing
            }
            SystemErrno::ACCESS | SystemErrno::PERM => {
                MountError::NotPermitted { step: format!("opening {DEVICE}") }
            }
            error => MountError::Other { step: "opening /dev/fuse", source: error.into() },
        }
    })
}

fn mount_as_root(folder: &Path, options: &MountOptions) -> Result<Device, MountError> {
    let device = open_device()?;
    let mut flags = MountFlags::empty();
    flags.set(MountFlags::RDONLY, options.read_only);
    flags.set(MountFlags::NOSUID, !options.allow_suid);
    flags.set(MountFlags::NODEV, !options.allow_devices);
    // The kernel requires the type of the root in octal: a directory.
    let text = format!(
        "fd={},rootmode=40000,user_id={},group_id={}{}",
        device.as_raw_fd(),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
        options.text()
    );
    let text = CString::new(text).map_err(|_| MountError::Options)?;
    let kind = format!("fuse.{}", options.subtype);
    let mounted =
        rustix::mount::mount(options.source.as_str(), folder, kind.as_str(), flags, &*text);
    match mounted {
        Ok(()) => Ok(Device::new(device)),
        Err(SystemErrno::PERM | SystemErrno::ACCESS) => {
            Err(MountError::NotPermitted { step: "mount(2)".to_owned() })
        }
        // The kernel does not know the file system type `fuse`.
        Err(SystemErrno::NODEV) => Err(MountError::DeviceMissing),
        Err(error) => Err(MountError::Other { step: "mount(2)", source: error.into() }),
    }
}

/// Removes the mount on a folder. Never accesses it, so this works if its server does not answer.
pub fn unmount(folder: &Path, mode: UnmountMode) -> Result<(), UnmountError> {
    let failed = |step| move |source| UnmountError::Other { step, source };
    let folder = resolve(folder).map_err(failed("resolving the folder"))?;
    let mounted = table::find(&folder).map_err(failed("reading the table of mounts"))?;
    if mounted.is_none() {
        return Err(UnmountError::NotMounted);
    }
    if !rustix::process::geteuid().is_root() {
        return fusermount::unmount(&folder, mode);
    }
    // `folder` is resolved already. A link that replaces it now must not be followed.
    let flags = match mode {
        UnmountMode::IfUnused => UnmountFlags::NOFOLLOW,
        UnmountMode::Lazy => UnmountFlags::NOFOLLOW | UnmountFlags::DETACH,
        UnmountMode::Abort => UnmountFlags::NOFOLLOW | UnmountFlags::FORCE,
    };
    match rustix::mount::unmount(&folder, flags) {
        Ok(()) => Ok(()),
        Err(SystemErrno::BUSY) => Err(UnmountError::Busy),
        Err(SystemErrno::INVAL) => Err(UnmountError::NotMounted),
        Err(SystemErrno::PERM) => Err(UnmountError::NotPermitted),
        Err(error) => Err(UnmountError::Other { step: "umount(2)", source: error.into() }),
    }
}

/// Removes a dead mount from its folder. Programs that still have files of it open get errors, as
/// before. Fails with `Dead` if this user may not remove it.
fn remove_dead(folder: &Path) -> Result<(), MountError> {
    match unmount(folder, UnmountMode::Lazy) {
        Ok(()) => {
            tracing::warn!(folder = %folder.display(), "removed a mount whose server has ended");
            Ok(())
        }
        // Another process has removed it meanwhile.
        Err(UnmountError::NotMounted) => Ok(()),
        Err(
            UnmountError::Busy
            | UnmountError::NotPermitted
            | UnmountError::NoFusermount
            | UnmountError::Other { .. },
        ) => Err(MountError::Dead),
    }
}

/// Returns the number that the kernel gave the file system mounted on a folder (`st_dev`), as text
/// `MAJOR:MINOR`; `None` if there is no mount. Never accesses it.
pub fn device_of(folder: &Path) -> io::Result<Option<String>> {
    Ok(table::find(&resolve(folder)?)?.map(|mounted| mounted.device))
}

/// Sets how far the kernel reads ahead on a mount, in KiB. Needs root. Call this after the session
/// has started: INIT sets the value to at most 128 KiB.
pub fn raise_read_ahead(folder: &Path, kib: u32) -> io::Result<()> {
    let mounted = device_of(folder)?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    let path: OsString = format!("/sys/class/bdi/{mounted}/read_ahead_kb").into();
    std::fs::write(path, kib.to_string())
}

#[cfg(test)]
mod tests;

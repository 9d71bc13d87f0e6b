//! Mounts and unmounts.
//!
//! Root mounts by itself; others through `fusermount3`. What would hide files or lie above another
//! mount of ours is refused before anything is done, and never touched: a mount whose server does
//! not answer would make us wait. What is served is not known here.

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

/// Mounts on an empty folder. The mount answers nobody until a session begins, and is gone when the
/// last copy of the device is closed.
pub fn mount(folder: &Path, options: &MountOptions) -> Result<Device, MountError> {
    if !options.is_well_formed() {
        return Err(MountError::Options);
    }
    let folder = resolve_mountable(folder, options)?;
    if rustix::process::geteuid().is_root() {
        mount_as_root(&folder, options)
    } else {
        fusermount::mount(&folder, options)
    }
}

/// Checks that [`mount`] can mount on a folder, as far as that can be known before: the folder is an
/// empty one without a mount of ours, and the device is there. Nothing is changed.
pub fn check_mountable(folder: &Path, options: &MountOptions) -> Result<(), MountError> {
    resolve_mountable(folder, options)?;
    if rustix::process::geteuid().is_root() {
        open_device().map(drop)
    } else if Path::new(DEVICE).exists() {
        Ok(())
    } else {
        Err(MountError::DeviceMissing)
    }
}

/// The folder's full path, if it can be mounted on.
fn resolve_mountable(folder: &Path, options: &MountOptions) -> Result<PathBuf, MountError> {
    let folder = resolve(folder).map_err(|error| folder_error(error, "looking at the folder"))?;
    let mounted = table::find(&folder).map_err(MountError::other("reading the table of mounts"))?;
    if let Some(mounted) = mounted
        && mounted.kind == format!("fuse.{}", options.subtype)
    {
        // One whose server has ended says so; one that is served may not answer soon.
        return Err(MountError::InUse { mounted: mounted.source });
    }
    let metadata = std::fs::metadata(&folder);
    let metadata = metadata.map_err(|error| folder_error(error, "looking at the folder"))?;
    if !metadata.is_dir() {
        return Err(MountError::NotAFolder);
    }
    let mut names =
        std::fs::read_dir(&folder).map_err(|error| folder_error(error, "reading the folder"))?;
    if names.next().is_some() { Err(MountError::NotEmpty) } else { Ok(folder) }
}

fn folder_error(error: io::Error, what: &'static str) -> MountError {
    match error.kind() {
        io::ErrorKind::NotFound => MountError::Missing,
        io::ErrorKind::NotADirectory => MountError::NotAFolder,
        io::ErrorKind::NotConnected => MountError::Dead,
        io::ErrorKind::PermissionDenied => MountError::NotPermitted { what: what.to_owned() },
        _ => MountError::Other { what, source: error },
    }
}

/// The full path, without asking what may be mounted at its end.
fn resolve(folder: &Path) -> io::Result<PathBuf> {
    let whole = std::path::absolute(folder)?;
    match (whole.parent(), whole.file_name()) {
        // Joined anew, the path has no slash at its end, which would lead through a link.
        (Some(parent), Some(name)) if !is_link(&parent.join(name)) => {
            Ok(parent.canonicalize()?.join(name))
        }
        _ => whole.canonicalize(),
    }
}

/// Whether the path ends in a symbolic link. Reading a link does not ask the server of a mount.
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
                MountError::NotPermitted { what: format!("opening {DEVICE}") }
            }
            error => MountError::Other { what: "opening /dev/fuse", source: error.into() },
        }
    })
}

fn mount_as_root(folder: &Path, options: &MountOptions) -> Result<Device, MountError> {
    let device = open_device()?;
    let mut flags = MountFlags::empty();
    flags.set(MountFlags::RDONLY, options.read_only);
    flags.set(MountFlags::NOSUID, !options.allow_suid);
    flags.set(MountFlags::NODEV, !options.allow_devices);
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
            Err(MountError::NotPermitted { what: "mount(2)".to_owned() })
        }
        Err(SystemErrno::NODEV) => Err(MountError::DeviceMissing),
        Err(error) => Err(MountError::Other { what: "mount(2)", source: error.into() }),
    }
}

/// Takes a mount away. Never asks its server.
pub fn unmount(folder: &Path, mode: UnmountMode) -> Result<(), UnmountError> {
    let failed = |what| move |source| UnmountError::Other { what, source };
    let folder = resolve(folder).map_err(failed("looking at the folder"))?;
    let mounted = table::find(&folder).map_err(failed("reading the table of mounts"))?;
    if mounted.is_none() {
        return Err(UnmountError::NotMounted);
    }
    if !rustix::process::geteuid().is_root() {
        return fusermount::unmount(&folder, mode);
    }
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
        Err(error) => Err(UnmountError::Other { what: "umount(2)", source: error.into() }),
    }
}

/// The number by which the kernel knows what is mounted on a folder, as `MAJOR:MINOR`. Never asks its
/// server.
pub fn device_of(folder: &Path) -> io::Result<Option<String>> {
    Ok(table::find(&resolve(folder)?)?.map(|mounted| mounted.device))
}

/// Lets the kernel read this far ahead on the mount. Root only, and after the session began: the
/// answer to INIT sets it to at most 128 KiB.
pub fn raise_read_ahead(folder: &Path, kib: u32) -> io::Result<()> {
    let mounted = device_of(folder)?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    let path: OsString = format!("/sys/class/bdi/{mounted}/read_ahead_kb").into();
    std::fs::write(path, kib.to_string())
}

#[cfg(test)]
mod tests;

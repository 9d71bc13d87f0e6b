//! Errors of mounting and unmounting. Each text names a remedy where there is one. For example, a
//! missing device names the `modprobe` command and the container option.

use std::io;

use thiserror::Error;

/// The device through which the kernel serves FUSE mounts.
pub(super) const DEVICE: &str = "/dev/fuse";

/// The reason why a mount failed. The text fits after "cannot mount on DIR:".
#[derive(Debug, Error)]
pub enum MountError {
    /// The folder does not exist.
    #[error("there is no such folder")]
    Missing,
    /// The path is not a folder, for example a file.
    #[error("it is not a folder")]
    NotAFolder,
    /// The folder is not empty: a mount would hide its files.
    #[error("the folder is not empty, and the mount would hide its content")]
    NotEmpty,
    /// A mount of the same file system type (`fuse.SUBTYPE`) exists on the folder.
    #[error("{mounted} is mounted there already; unmount it first")]
    InUse {
        /// The source of that mount, as `mount` and `df` show it.
        mounted: String,
    },
    /// A FUSE mount exists on the folder, and the process that served it has ended.
    #[error("a mount is there whose server has ended; unmount it first, with `umount -l`")]
    Dead,
    /// The FUSE device does not exist.
    #[error(
        "{DEVICE} is missing: load the kernel's module with `modprobe fuse`, or start the \
         container with `--device {DEVICE} --cap-add SYS_ADMIN`"
    )]
    DeviceMissing,
    /// The operating system denies a step of mounting.
    #[error(
        "not permitted: {step}. In a container, `--device {DEVICE} --cap-add SYS_ADMIN` (and on \
         some systems `--security-opt apparmor:unconfined`) permit it"
    )]
    NotPermitted {
        /// The step that is denied.
        step: String,
    },
    /// The program `fusermount3`, which users other than root need, is not installed.
    #[error(
        "fusermount3 is missing: install the package fuse3, or mount as root (in a container: \
         `--user 0`)"
    )]
    NoFusermount,
    /// `fusermount3` refused the mount.
    #[error("fusermount3 refused: {message}")]
    Fusermount {
        /// The error message of `fusermount3`.
        message: String,
    },
    /// The source or the subtype in the options has characters that cannot be passed to the kernel,
    /// or is empty.
    #[error("the source or the subtype of the mount has characters that are not allowed")]
    Options,
    /// Any other failure.
    #[error("{step} failed")]
    Other {
        /// The step that failed.
        step: &'static str,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl MountError {
    /// Returns a function that makes the error of a failed step from its cause.
    pub(super) fn other(step: &'static str) -> impl Fn(io::Error) -> MountError {
        move |source| MountError::Other { step, source }
    }
}

/// How an unmount treats programs that use the mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnmountMode {
    /// Removes the mount only if no program uses it; otherwise fails with `Busy`.
    IfUnused,
    /// Removes the mount from the folder at once. Programs that use it can go on; it ends when none
    /// does.
    Lazy,
    /// Ends the mount by force: operations in flight return errors to their programs. Needs root.
    Abort,
}

/// The reason why an unmount failed. The text fits after "cannot unmount DIR:".
#[derive(Debug, Error)]
pub enum UnmountError {
    /// A program uses a file or folder of the mount.
    #[error("it is in use; `lsof` or `fuser -m` list the programs")]
    Busy,
    /// No mount exists on the folder.
    #[error("nothing is mounted there")]
    NotMounted,
    /// The operating system denies the unmount, for example because another user mounted it.
    #[error("not permitted: the mount is another user's")]
    NotPermitted,
    /// The program `fusermount3`, which users other than root need, is not installed.
    #[error("fusermount3 is missing: install the package fuse3, or unmount as root")]
    NoFusermount,
    /// Any other failure.
    #[error("{step} failed")]
    Other {
        /// The step that failed.
        step: &'static str,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

//! Why a folder is not mounted on or a mount is still there, and what can be done about it.

use std::io;

use thiserror::Error;

/// What the kernel is asked for a mount through.
pub(super) const DEVICE: &str = "/dev/fuse";

/// Why a folder was not mounted on. Fits after "cannot mount on DIR:".
#[derive(Debug, Error)]
pub enum MountError {
    /// There is nothing.
    #[error("there is no such folder")]
    Missing,
    /// A file, for one.
    #[error("it is not a folder")]
    NotAFolder,
    /// Files would be hidden.
    #[error("the folder is not empty, and what is in it would be hidden")]
    NotEmpty,
    /// Somebody serves a mount of ours there.
    #[error("{mounted} is mounted there already; unmount it first")]
    InUse {
        /// What.
        mounted: String,
    },
    /// Nobody serves the mount that is there.
    #[error("a mount is there whose server has ended; unmount it first, with `umount -l`")]
    Dead,
    /// There is no FUSE.
    #[error(
        "{DEVICE} is missing: load the kernel's module with `modprobe fuse`, or start the \
         container with `--device {DEVICE} --cap-add SYS_ADMIN`"
    )]
    DeviceMissing,
    /// The system does not let us.
    #[error(
        "not permitted: {what}. In a container, `--device {DEVICE} --cap-add SYS_ADMIN` (and on \
         some systems `--security-opt apparmor:unconfined`) permit it"
    )]
    NotPermitted {
        /// What is not.
        what: String,
    },
    /// Only root can do without it.
    #[error("fusermount3 is missing: install the package fuse3, or mount as root")]
    NoFusermount,
    /// It refused, and said why.
    #[error("fusermount3 refused: {message}")]
    Fusermount {
        /// What it said.
        message: String,
    },
    /// An option cannot be passed on.
    #[error("the source or the subtype of the mount has characters that cannot be in it")]
    Options,
    /// Anything else.
    #[error("{what} failed")]
    Other {
        /// What.
        what: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl MountError {
    pub(super) fn other(what: &'static str) -> impl Fn(io::Error) -> MountError {
        move |source| MountError::Other { what, source }
    }
}

/// How much an unmount may break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnmountMode {
    /// Nothing: fails if the mount is in use.
    IfUnused,
    /// Takes the name away at once; the mount ends when nobody uses it any more.
    Lazy,
    /// Ends the session: programs that wait get errors. Root only.
    Abort,
}

/// Why a mount is still there. Fits after "cannot unmount DIR:".
#[derive(Debug, Error)]
pub enum UnmountError {
    /// A program has a file or folder of it open.
    #[error("it is in use; `lsof` or `fuser -m` tell by whom")]
    Busy,
    /// There is none.
    #[error("nothing is mounted there")]
    NotMounted,
    /// The system does not let us.
    #[error("not permitted: the mount is another user's")]
    NotPermitted,
    /// Only root can do without it.
    #[error("fusermount3 is missing: install the package fuse3, or unmount as root")]
    NoFusermount,
    /// Anything else.
    #[error("{what} failed")]
    Other {
        /// What.
        what: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
}

//! Counters of a mount, for the metrics of the process.

use std::sync::{Arc, Weak};

use files::{Files, FilesCounters};
use fuse::{KernelSession, OperationCounters};

/// A reader of the counters of a mount. It does not keep the mount.
#[derive(Clone, Debug)]
pub struct MountMeters {
    pub(crate) session: Weak<KernelSession>,
    pub(crate) files: Weak<Files>,
    pub(crate) restarts: u64,
}

/// The counters of a mount at one moment. Those of operations and bytes began with this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountCounters {
    /// The operations of the kernel that have occurred.
    pub operations: Vec<OperationCounters>,
    /// Bytes that programs have read, except those from the kernel's page cache.
    pub read_bytes: u64,
    /// Bytes that programs have written.
    pub written_bytes: u64,
    /// Requests that were read from the kernel and are not answered.
    pub requests_in_flight: u64,
    /// The open files and the dirty data.
    pub files: FilesCounters,
    /// Workers, processes that serve the mount, that ended before this one.
    pub restarts: u64,
}

impl MountMeters {
    /// Returns the counters, or `None` if the mount has ended.
    pub fn read(&self) -> Option<MountCounters> {
        let (session, files): (Arc<KernelSession>, Arc<Files>) =
            (self.session.upgrade()?, self.files.upgrade()?);
        let (read_bytes, written_bytes) = session.bytes();
        Some(MountCounters {
            operations: session.operations(),
            read_bytes,
            written_bytes,
            requests_in_flight: session.in_flight() as u64,
            files: files.counters(),
            restarts: self.restarts,
        })
    }
}

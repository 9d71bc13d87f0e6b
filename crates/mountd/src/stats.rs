//! The file `.ashlar/stats` at the root of a mount: the metrics of the process, as text.
//!
//! The directory `.ashlar` is not listed, but a lookup of its name finds it, unless the volume has
//! an entry with that name. Each open makes a snapshot of the metrics, which the reads of that
//! handle return. The file is read-only and not part of the volume. For example, `cat
//! /mnt/.ashlar/stats`.

use std::collections::HashMap;
use std::io::IoSlice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuse::FileHandle;
use rustix::io::Errno;

use crate::reports::Reports;

/// The name of the directory at the root of a mount that contains the stats file.
pub(super) const FOLDER_NAME: &str = ".ashlar";

/// The name of the stats file in this directory.
pub(super) const FILE_NAME: &str = "stats";

/// The lowest handle of the stats file. Handles of other files are below.
const HANDLES: u64 = 1 << 63;

/// The limit of open handles of the stats file. Each holds a text in memory.
const HANDLES_MAX: usize = 64;

/// The file `.ashlar/stats`: the metrics of the process, and the snapshots that open handles read.
#[derive(Debug)]
pub(super) struct Stats {
    reports: Arc<dyn Reports>,
    open: Mutex<Open>,
}

/// The open handles of the stats file, each with its snapshot of the metrics.
#[derive(Debug, Default)]
struct Open {
    /// The number of the newest handle.
    last: u64,
    texts: HashMap<u64, Arc<str>>,
}

impl Stats {
    /// Returns the stats file of a mount.
    pub(super) fn new(reports: Arc<dyn Reports>) -> Stats {
        Stats { reports, open: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true for a handle of the stats file.
    pub(super) fn is_handle(handle: FileHandle) -> bool {
        handle.0 >= HANDLES
    }

    /// Opens the file with a new snapshot. Fails with `MFILE` at [`HANDLES_MAX`] open handles.
    pub(super) fn open(&self) -> Result<FileHandle, Errno> {
        // One snapshot for each handle, so that a program that reads in parts sees one state.
        let text = self.reports.metrics().map_err(|_| Errno::IO)?;
        let mut open = self.lock();
        if open.texts.len() >= HANDLES_MAX {
            return Err(Errno::MFILE);
        }
        open.last += 1;
        let handle = HANDLES | open.last;
        open.texts.insert(handle, text.into());
        Ok(FileHandle(handle))
    }

    /// Replies to a read. Fails with `ESTALE` for a handle that a previous worker process of the
    /// mount opened, because its snapshot is lost.
    pub(super) fn read(&self, handle: FileHandle, offset: u64, size: u32, reply: fuse::Reply) {
        let text = self.lock().texts.get(&handle.0).cloned();
        let Some(text) = text else { return reply.error(fuse::Errno::ESTALE) };
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
        let rest = text.as_bytes().get(from..).unwrap_or_default();
        let size = usize::try_from(size).unwrap_or(usize::MAX).min(rest.len());
        reply.data(&[IoSlice::new(rest.get(..size).unwrap_or_default())]);
    }

    /// Closes a handle of the stats file, and drops its snapshot of the metrics.
    pub(super) fn close(&self, handle: FileHandle) {
        self.lock().texts.remove(&handle.0);
    }
}

//! `.ashlar/stats` at the root of a mount: what its process has counted, as text.
//!
//! The folder is found by its name and stands in no list; where the volume has something of that name,
//! that is found. Each open of the file is a text of its own, of that moment. Nothing of it is in the
//! volume, and nobody changes it.

use std::collections::HashMap;
use std::io::IoSlice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuse::FileHandle;
use rustix::io::Errno;

use crate::metrics::Metrics;

/// The name of the folder.
pub(super) const FOLDER_NAME: &str = ".ashlar";

/// The name of the file in it.
pub(super) const FILE_NAME: &str = "stats";

/// Handles of it have numbers from here on, which no handle of a file has.
const HANDLES: u64 = 1 << 63;

/// Handles that programs may have of it.
const HANDLES_MAX: usize = 64;

/// What was counted, and the texts that programs read.
#[derive(Debug)]
pub(super) struct Stats {
    metrics: Arc<Metrics>,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    last: u64,
    texts: HashMap<u64, Arc<str>>,
}

impl Stats {
    pub(super) fn new(metrics: &Arc<Metrics>) -> Stats {
        Stats { metrics: Arc::clone(metrics), open: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a handle is of this file.
    pub(super) fn is_handle(handle: FileHandle) -> bool {
        handle.0 >= HANDLES
    }

    /// Opens the file.
    pub(super) fn open(&self) -> Result<FileHandle, Errno> {
        let text = self.metrics.text().map_err(|_| Errno::IO)?;
        let mut open = self.lock();
        if open.texts.len() >= HANDLES_MAX {
            return Err(Errno::MFILE);
        }
        open.last += 1;
        let handle = HANDLES | open.last;
        open.texts.insert(handle, text.into());
        Ok(FileHandle(handle))
    }

    /// Answers a read. A handle that a process before this one gave has no text here.
    pub(super) fn read(&self, handle: FileHandle, offset: u64, size: u32, reply: fuse::Reply) {
        let text = self.lock().texts.get(&handle.0).cloned();
        let Some(text) = text else { return reply.error(fuse::Errno::ESTALE) };
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
        let rest = text.as_bytes().get(from..).unwrap_or_default();
        let size = usize::try_from(size).unwrap_or(usize::MAX).min(rest.len());
        reply.data(&[IoSlice::new(rest.get(..size).unwrap_or_default())]);
    }

    /// Closes a handle.
    pub(super) fn close(&self, handle: FileHandle) {
        self.lock().texts.remove(&handle.0);
    }
}

//! Counters of the open files of a mount, for metrics.

use crate::files::Files;

/// The open files and the dirty data of a mount at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilesCounters {
    /// Handles of open files.
    pub open_handles: u64,
    /// Files with at least one handle, or with dirty data.
    pub open_files: u64,
    /// Files with dirty data, written and not taken by a flush. Files that are in use at the moment
    /// are not counted.
    pub dirty_files: u64,
    /// Memory of dirty data in bytes, that of deleted files too.
    pub dirty_bytes: u64,
    /// The limit of memory of dirty data of files that are not deleted. Writers beyond it wait.
    pub dirty_bytes_max: u64,
}

impl Files {
    /// Returns the open files and the dirty data at this moment.
    pub fn counters(&self) -> FilesCounters {
        let files = self.open.all();
        let dirty =
            files.iter().filter(|file| file.state.try_lock().is_ok_and(|state| state.is_dirty()));
        FilesCounters {
            open_handles: self.open.handles().len() as u64,
            dirty_files: dirty.count() as u64,
            open_files: files.len() as u64,
            dirty_bytes: self.memory.in_use() + self.deleted_memory.in_use(),
            dirty_bytes_max: self.memory.total(),
        }
    }
}

//! The log of an open file's uncommitted changes in the ledger, the file in memory that survives
//! this process.

use ledger::DirtyLog;

/// The log of one open file's uncommitted changes in the ledger, if the file has one.
#[derive(Debug, Default)]
pub(crate) struct FileLog {
    /// The log; `None` if the file has none, because it has no dirty data.
    pub(crate) log: Option<DirtyLog>,
    /// True if the log has a copy of the file's record, because the record may be deleted with the
    /// last name.
    pub(crate) has_record: bool,
}

impl FileLog {
    /// Returns the offset in the log at which the next entry will begin; 0 if the file has no log.
    pub(crate) fn end(&self) -> u64 {
        self.log.as_ref().map_or(0, DirtyLog::end)
    }

    /// Returns true if the file has a log in the ledger.
    pub(crate) fn has_begun(&self) -> bool {
        self.log.is_some()
    }
}

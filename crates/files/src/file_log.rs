//! The log of an open file in the ledger.

use ledger::DirtyLog;

/// The log of one open file, if it has begun.
#[derive(Debug, Default)]
pub(crate) struct FileLog {
    pub(crate) log: Option<DirtyLog>,
    /// True if the log has a copy of the file's record, because the record may be deleted with the
    /// last name.
    pub(crate) has_record: bool,
}

impl FileLog {
    /// Returns the position at which the next log entry will begin; 0 without a log.
    pub(crate) fn end(&self) -> u64 {
        self.log.as_ref().map_or(0, DirtyLog::end)
    }

    /// Continues the log of an earlier worker.
    pub(crate) fn inherited(log: DirtyLog, has_record: bool) -> FileLog {
        FileLog { log: Some(log), has_record }
    }

    /// Returns true if the log has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.log.is_some()
    }
}

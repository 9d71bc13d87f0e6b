//! The log of an open file in the ledger, if it has one.

use ledger::DirtyLog;

/// The log of an open file, if it has one.
#[derive(Debug, Default)]
pub(crate) struct FileLog {
    pub(crate) log: Option<DirtyLog>,
    /// Whether it says the file's record.
    pub(crate) has_record: bool,
}

impl FileLog {
    /// Where what is told next will stand.
    pub(crate) fn end(&self) -> u64 {
        self.log.as_ref().map_or(0, DirtyLog::end)
    }

    /// Goes on with the log of a process before this one.
    pub(crate) fn inherited(log: DirtyLog, has_record: bool) -> FileLog {
        FileLog { log: Some(log), has_record }
    }

    /// Whether there is one.
    pub(crate) fn is_begun(&self) -> bool {
        self.log.is_some()
    }
}

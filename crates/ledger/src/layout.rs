//! The offsets of the ledger's parts in its file. The file is sparse: ranges that were never
//! written take no memory.

/// The offset of the journal, the table of requests that are not answered.
pub(crate) const JOURNAL_AT: u64 = 1 << 20;
/// The offset of the table of open handles.
pub(crate) const HANDLES_AT: u64 = 16 << 20;
/// The offset of the table of logs of dirty data.
pub(crate) const DIRTY_AT: u64 = 64 << 20;
/// The offset of the table of locks.
pub(crate) const LOCKS_AT: u64 = 128 << 20;
/// The offset of the first region, the range that contains one log of dirty data.
pub(crate) const LOGS_AT: u64 = 1 << 42;

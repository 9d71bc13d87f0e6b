//! The offsets of the ledger's parts in its file. The file is sparse: ranges that were never
//! written take no memory.

pub(crate) const JOURNAL_AT: u64 = 1 << 20;
pub(crate) const HANDLES_AT: u64 = 16 << 20;
pub(crate) const DIRTY_AT: u64 = 64 << 20;
pub(crate) const LOCKS_AT: u64 = 128 << 20;
pub(crate) const LOGS_AT: u64 = 1 << 42;

//! Where the parts of the file begin. It is sparse: what was never written takes no memory.

pub(crate) const JOURNAL_AT: u64 = 1 << 20;
pub(crate) const HANDLES_AT: u64 = 16 << 20;
pub(crate) const DIRTY_AT: u64 = 64 << 20;
pub(crate) const LOCKS_AT: u64 = 128 << 20;
pub(crate) const LOGS_AT: u64 = 1 << 42;

//! Errors of opening a ledger, the file in memory with the state of a mount that survives its
//! process.

use std::io;

/// The reason why the ledger, the file in memory with the state of a mount, cannot be opened. The
/// worker (the process that serves the mount) cannot begin then.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The file of the ledger cannot be read or written.
    #[error("the mount's ledger cannot be read or written")]
    Io(#[from] io::Error),
    /// Another release has written the ledger, in a format that this release cannot read.
    #[error("the mount's ledger has format {found}, and this release knows format {known}")]
    Format {
        /// The format number of the ledger, as its first word.
        found: u64,
        /// The format number of this release, as a word of the same form.
        known: u64,
    },
}

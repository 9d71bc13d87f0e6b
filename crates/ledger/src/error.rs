//! Errors of opening a ledger.

use std::io;

/// The reason why a ledger cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The file cannot be read or written.
    #[error("the mount's ledger cannot be read or written")]
    Io(#[from] io::Error),
    /// The ledger has the format of another release.
    #[error("the mount's ledger has format {found}, and this release knows format {known}")]
    Format {
        /// The format of the ledger.
        found: u64,
        /// The format of this release.
        known: u64,
    },
}

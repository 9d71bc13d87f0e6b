//! What a ledger fails with.

use std::io;

/// Why a file is no ledger that this release can go on with.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// It cannot be read or written.
    #[error("the mount's ledger cannot be read or written")]
    Io(#[from] io::Error),
    /// Another release made it.
    #[error("the mount's ledger has format {found}, and this release knows format {known}")]
    Format {
        /// What it has.
        found: u64,
        /// What is known.
        known: u64,
    },
}

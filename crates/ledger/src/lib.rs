//! What a mount knows that must outlive the process that serves it.
//!
//! A mount has a *keeper*, which lives as long as the mount, and a *worker*, which may die at any
//! instruction and is followed by another. The ledger is a file in memory that the keeper holds, and
//! never looks into, and each worker writes: which session it speaks for, which requests have
//! changed something and may not be answered yet, what is open, what is locked, and what programs have
//! written that is not a file's content yet. It goes with the keeper, or the machine.
//!
//! - One worker at a time writes. The keeper starts the next one when the last is no more.
//! - An entry is written by one call within a page of memory, so a worker that is killed has written
//!   it or not. What is longer has a mark behind it, and counts if that is there.
//! - What is written here is written before what it stands for is answered to a program.
//!
//! Knows neither the kernel's protocol nor a store. What the entries mean is for those who write them.

mod dirty;
mod error;
mod handle_entries;
mod handles;
mod header;
mod header_fields;
mod journal;
mod journal_entries;
mod layout;
mod ledger;
mod lock_entries;
mod locks;
mod log_entries;
mod table;

pub use dirty::{CHANGE_WORDS, DirtyLog, LOG_BYTES_MAX, LOGS_MAX, LoggedChange};
pub use error::LedgerError;
pub use handles::{HANDLES_MAX, HandleEntry};
pub use header::BLOCKS_RESERVED;
pub use journal::{InDoubt, JOURNAL_MAX, Note};
pub use ledger::Ledger;
pub use locks::{LOCKS_MAX, LockEntry};

#[cfg(test)]
mod tests;

//! The ledger of a mount: state that must survive a crash of the process that serves the mount.
//!
//! A mount has a *keeper*, which lives as long as the mount, and a *worker*, which can be killed at
//! any instruction and is then replaced by the next one. The ledger is a file in memory (memfd).
//! The keeper holds its descriptor and never reads it. Each worker writes to it: its session, the
//! requests that changed something and are not answered yet, the open handles, the locks, and the
//! dirty data of programs. The ledger is lost with the keeper or the machine.
//!
//! For example, a worker commits a rename(2) and is killed before it replies. The kernel sends the
//! request again, and the next worker finds it in the [journal](Note) as done: it replies without a
//! second rename.
//!
//! Invariants:
//!
//! - One worker at a time writes. The keeper starts the next one after the last has ended.
//! - An entry of a table is inside one memory page and is written by one call, so a killed worker
//!   has written all of it or nothing. A longer entry has a mark at its end, and is valid only with
//!   the mark.
//! - State is written here before a program can rely on it, that is, before the reply.
//!
//! This crate knows neither the kernel's protocol nor a store. Its callers define the meaning of
//! requests, kinds and words.

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

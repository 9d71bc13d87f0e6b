//! Maps SQLite's errors to their meaning for a caller.
//!
//! For example, `SQLITE_FULL` becomes `Full`, and an error of COMMIT that may have come from an
//! fsync becomes `Unknown`.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use store::{StoreError, StoreErrorKind};

use crate::script::Failure;

/// The remedy for a full disk, for operators.
const REMEDY: &str = "delete objects or free space on the file system";

/// Primary result codes of SQLite.
mod code {
    pub(super) const BUSY: i32 = 5;
    pub(super) const IOERR: i32 = 10;
    pub(super) const CORRUPT: i32 = 11;
    pub(super) const FULL: i32 = 13;
    pub(super) const NOTADB: i32 = 26;
    /// The extended code of a failed write.
    pub(super) const IOERR_WRITE: i32 = 0x030a;
    /// The extended code of a shared-memory index of the log that cannot grow.
    pub(super) const IOERR_SHMSIZE: i32 = 0x130a;
}

/// Returns the extended result code of an error of SQLite.
fn extended_code(error: &sqlx::Error) -> Option<i32> {
    error.as_database_error()?.code()?.parse().ok()
}

/// Returns the primary result code of an error of SQLite.
fn primary_code(error: &sqlx::Error) -> Option<i32> {
    // The lowest byte of an extended code is the primary code.
    extended_code(error).map(|code| code & 0xff)
}

/// Returns true if a system call of SQLite failed. The cause may be an exhausted quota, for which
/// SQLite has no code.
pub(crate) fn is_io(error: &sqlx::Error) -> bool {
    primary_code(error) == Some(code::IOERR)
}

/// Returns true if a write of SQLite failed in the operating system.
pub(crate) fn is_write(error: &sqlx::Error) -> bool {
    extended_code(error) == Some(code::IOERR_WRITE)
}

/// Returns true if another connection held the lock.
pub(crate) fn is_busy(error: &sqlx::Error) -> bool {
    primary_code(error) == Some(code::BUSY)
}

/// Returns true if the disk had no space for a write. An error of fsync has another code, though
/// the cause may be the same.
pub(crate) fn is_full(error: &sqlx::Error) -> bool {
    primary_code(error) == Some(code::FULL)
}

/// Returns the meaning, for the caller, of an error of a call that cannot have committed.
pub(crate) fn kind(error: &sqlx::Error) -> StoreErrorKind {
    let unreadable = matches!(
        error,
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::RowNotFound
    );
    match primary_code(error) {
        Some(code::CORRUPT | code::NOTADB) => StoreErrorKind::Corrupt,
        Some(code::FULL) => StoreErrorKind::Full,
        Some(code::IOERR) if extended_code(error) == Some(code::IOERR_SHMSIZE) => {
            StoreErrorKind::Full
        }
        _ if unreadable => StoreErrorKind::Corrupt,
        _ => StoreErrorKind::Unavailable,
    }
}

/// Returns the meaning of a failure in a script of `statements` whose last one is COMMIT.
///
/// - Before COMMIT began, nothing can have been committed.
/// - If COMMIT was refused as busy, SQLite left the transaction as it was, and a successful
///   ROLLBACK has ended it.
/// - If COMMIT found the disk full, SQLite could not write one of the frames. The last frame is the
///   one that commits, and recovery ignores the others without it. SQLite rolls back by itself, or
///   the writer closes the connection, so nothing was committed.
/// - The same is true if an exhausted quota failed a write. SQLite has no code for this; then
///   `no_space` is true.
/// - Any other error of COMMIT may come from an fsync. This process forgets the transaction, but
///   its frames may be complete in the log, and a process that recovers the file after a crash
///   would replay them. Only a later commit, which overwrites them, settles this. The outcome is
///   unknown.
pub(crate) fn kind_of_commit(
    failure: &Failure,
    statements: usize,
    rolled_back: bool,
    no_space: bool,
) -> StoreErrorKind {
    if no_space && is_write(&failure.error) {
        return StoreErrorKind::Full;
    }
    let began = failure.done + 1 >= statements;
    if !began || is_full(&failure.error) || (is_busy(&failure.error) && rolled_back) {
        kind(&failure.error)
    } else {
        StoreErrorKind::Unknown
    }
}

/// Returns the cause and the remedy of a full disk, for operators.
pub(crate) fn full_disk(database: &Path) -> String {
    format!("the disk of {} is full: {REMEDY}", database.display())
}

/// The error of a failed transaction, for all callers whose plans were in it.
#[derive(Clone)]
pub(crate) struct Shared {
    kind: StoreErrorKind,
    error: Arc<dyn std::error::Error + Send + Sync>,
}

impl Shared {
    pub(crate) fn new(kind: StoreErrorKind, error: sqlx::Error) -> Shared {
        Shared { kind, error: Arc::new(error) }
    }

    /// Creates the error of a disk without space: nothing was committed.
    pub(crate) fn full(database: &Path, error: Option<sqlx::Error>) -> Shared {
        let cause = error.map_or_else(String::new, |error| format!(" ({error})"));
        let text = full_disk(database) + &cause;
        let error: Box<dyn std::error::Error + Send + Sync> = text.into();
        Shared { kind: StoreErrorKind::Full, error: error.into() }
    }

    /// Returns true if nothing was committed because the disk has no space.
    pub(crate) fn is_full(&self) -> bool {
        self.kind == StoreErrorKind::Full
    }

    /// Returns the error for one caller.
    pub(crate) fn to_error(&self, doing: String) -> StoreError {
        StoreError::because(self.kind, doing, SharedCause(Arc::clone(&self.error)))
    }
}

impl From<StoreError> for Shared {
    fn from(error: StoreError) -> Shared {
        Shared { kind: error.kind(), error: Arc::new(error) }
    }
}

/// A cause that several errors share.
#[derive(Debug)]
struct SharedCause(Arc<dyn std::error::Error + Send + Sync>);

impl fmt::Display for SharedCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for SharedCause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// Returns a function that wraps the driver's error of a call that committed nothing.
pub(crate) fn while_doing(doing: &str) -> impl Fn(sqlx::Error) -> StoreError + '_ {
    move |error| StoreError::because(kind(&error), doing, error)
}

/// Returns the error of all calls after `close`.
pub(crate) fn closed() -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "calling a store that is closed")
}

#[cfg(test)]
mod tests;

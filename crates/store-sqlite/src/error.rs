//! What SQLite's errors mean for a caller.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use store::{StoreError, StoreErrorKind};

use crate::script::Failure;

/// The cure of a full disk, for operators.
const CURE: &str = "delete objects or free space on the file system";

/// Primary result codes of SQLite.
mod code {
    pub(super) const BUSY: i32 = 5;
    pub(super) const IOERR: i32 = 10;
    pub(super) const CORRUPT: i32 = 11;
    pub(super) const FULL: i32 = 13;
    pub(super) const NOTADB: i32 = 26;
    /// The extended code of a failed write.
    pub(super) const IOERR_WRITE: i32 = 0x030a;
    /// The extended code of an index of the log that cannot grow.
    pub(super) const IOERR_SHMSIZE: i32 = 0x130a;
}

/// The code behind an error of SQLite's own, in its extended form.
fn extended_code(error: &sqlx::Error) -> Option<i32> {
    error.as_database_error()?.code()?.parse().ok()
}

/// The primary code behind an error of SQLite's own.
fn primary_code(error: &sqlx::Error) -> Option<i32> {
    // Extended codes keep the primary one in their lowest byte.
    extended_code(error).map(|code| code & 0xff)
}

/// Returns true if the operating system failed a call of SQLite. The cause may be a spent quota, for
/// which SQLite has no code.
pub(crate) fn is_io(error: &sqlx::Error) -> bool {
    primary_code(error) == Some(code::IOERR)
}

/// Returns true if the operating system failed a write.
pub(crate) fn is_write(error: &sqlx::Error) -> bool {
    extended_code(error) == Some(code::IOERR_WRITE)
}

/// Whether another connection was in the way.
pub(crate) fn is_busy(error: &sqlx::Error) -> bool {
    primary_code(error) == Some(code::BUSY)
}

/// Returns true if the disk had no space for a write. An error of fsync has another code, though
/// the cause may be the same.
pub(crate) fn is_full(error: &sqlx::Error) -> bool {
    primary_code(error) == Some(code::FULL)
}

/// What an error means if nothing can have been committed.
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

/// What a failure means in a script of `statements` whose last one is COMMIT.
///
/// Before COMMIT began, nothing can have been committed. If COMMIT was refused as busy, SQLite
/// left the transaction as it was, and a ROLLBACK that then succeeds has ended it. If COMMIT found the
/// disk full, SQLite could not write one of the frames. The last frame is the one that commits, and no
/// recovery believes the others without it. SQLite rolls back by itself then, or the writer closes the
/// connection, so nothing was committed. The same is true if a spent quota failed a write, for which
/// SQLite has no code of its own: then `no_space` is true. Any other error of COMMIT may come from an
/// fsync: this process forgets the transaction, but its frames may be whole in the log, and a process that
/// recovers the file after a crash would believe them. That is settled only by a later commit, which writes
/// over them.
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

/// The cause and the cure of a full disk, for operators.
pub(crate) fn full_disk(database: &Path) -> String {
    format!("the disk of {} is full: {CURE}", database.display())
}

/// An error for everyone whose plans were in one transaction.
#[derive(Clone)]
pub(crate) struct Shared {
    kind: StoreErrorKind,
    error: Arc<dyn std::error::Error + Send + Sync>,
}

impl Shared {
    pub(crate) fn new(kind: StoreErrorKind, error: sqlx::Error) -> Shared {
        Shared { kind, error: Arc::new(error) }
    }

    /// A disk without space: nothing was committed.
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

    /// This caller's own copy.
    pub(crate) fn to_error(&self, doing: String) -> StoreError {
        StoreError::because(self.kind, doing, ByAll(Arc::clone(&self.error)))
    }
}

impl From<StoreError> for Shared {
    fn from(error: StoreError) -> Shared {
        Shared { kind: error.kind(), error: Arc::new(error) }
    }
}

/// A cause that several errors have in common.
#[derive(Debug)]
struct ByAll(Arc<dyn std::error::Error + Send + Sync>);

impl fmt::Display for ByAll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for ByAll {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// An error of a call that committed nothing.
pub(crate) fn while_doing(doing: &str) -> impl Fn(sqlx::Error) -> StoreError + '_ {
    move |error| StoreError::because(kind(&error), doing, error)
}

/// What every call says after `close`.
pub(crate) fn closed() -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "calling a store that is closed")
}

#[cfg(test)]
mod tests;

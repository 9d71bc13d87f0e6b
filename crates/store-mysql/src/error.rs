//! What the server's errors mean for a caller.

use sqlx::mysql::MySqlDatabaseError;
use store::{StoreError, StoreErrorKind};

use crate::script::Failure;

/// Error numbers of MariaDB and MySQL.
mod number {
    pub(super) const CRASHED_TABLE: [u16; 6] = [126, 127, 145, 1034, 1194, 1712];
    /// Disk full; the table is full.
    pub(super) const FULL: [u16; 2] = [1021, 1114];
    /// Errors that can name a full disk: of a write to a file (the second is of the server, the first of
    /// its library), of a disk in the library, and of the engine.
    pub(super) const OF_SYSTEM: [u16; 4] = [3, 1026, 20, 1030];
    pub(super) const NO_SUCH_TABLE: u16 = 1146;
    pub(super) const CHECKREAD: u16 = 1020;
    pub(super) const DUPLICATE_ENTRY: u16 = 1062;
    pub(super) const LOCK_WAIT_TIMEOUT: u16 = 1205;
    pub(super) const DEADLOCK: u16 = 1213;
    pub(super) const SHUTTING_DOWN: u16 = 1053;
    pub(super) const OPTION_PREVENTS: u16 = 1290;
    pub(super) const READ_ONLY_MODE: u16 = 1836;
    pub(super) const CONNECTION_KILLED: u16 = 1927;
    pub(super) const IDLE_TOO_LONG: u16 = 4031;
}

fn number_of(error: &sqlx::Error) -> Option<u16> {
    let error = error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>()?;
    Some(error.number())
}

/// Whether somebody else was in the way, so that the same may succeed when tried again. The
/// transaction has to be rolled back all the same: some of these undo one statement only.
pub(crate) fn is_contention(error: &sqlx::Error) -> bool {
    matches!(
        number_of(error),
        Some(
            number::CHECKREAD
                | number::DUPLICATE_ENTRY
                | number::LOCK_WAIT_TIMEOUT
                | number::DEADLOCK
        )
    )
}

/// Whether the transaction is gone for certain, even if COMMIT itself says so.
pub(crate) fn is_deadlock(error: &sqlx::Error) -> bool {
    number_of(error) == Some(number::DEADLOCK)
}

/// Whether the connection had ended, rather than a statement on it failed.
pub(crate) fn is_broken(error: &sqlx::Error) -> bool {
    match number_of(error) {
        Some(number) => matches!(
            number,
            number::SHUTTING_DOWN | number::CONNECTION_KILLED | number::IDLE_TOO_LONG
        ),
        None => {
            matches!(error, sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::Tls(_))
        }
    }
}

/// Whether the server takes no writes any more.
pub(crate) fn is_read_only(error: &sqlx::Error) -> bool {
    matches!(number_of(error), Some(number::OPTION_PREVENTS | number::READ_ONLY_MODE))
}

/// Whether a client's own patience ended the wait.
pub(crate) fn is_timeout(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Io(error) if error.kind() == std::io::ErrorKind::TimedOut)
}

/// Whether a table does not exist.
pub(crate) fn is_missing_table(error: &sqlx::Error) -> bool {
    number_of(error) == Some(number::NO_SUCH_TABLE)
}

/// The numbers of the operating system for a full disk and a spent quota, as the server's texts write
/// them.
const NO_SPACE: [&str; 6] =
    ["Errcode: 28", "Errcode: 122", "errno: 28", "errno: 122", "error 28 ", "error 122 "];

/// Returns true if the server has no space for a row.
fn is_full(error: &sqlx::Error) -> bool {
    let Some(number) = number_of(error) else { return false };
    let text = error.to_string();
    number::FULL.contains(&number)
        || number::OF_SYSTEM.contains(&number) && NO_SPACE.iter().any(|cause| text.contains(cause))
}

/// Returns true if the server names a full disk as the cause, also if the outcome is unknown: the binary
/// log of the server can have no space when it carries out a COMMIT.
pub(crate) fn names_full_disk(error: &StoreError) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref());
    source.is_some_and(is_full)
}

/// What an error means if nothing can have been committed.
pub(crate) fn kind(error: &sqlx::Error) -> StoreErrorKind {
    let unreadable = matches!(
        error,
        sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::Decode(_)
            | sqlx::Error::RowNotFound
            | sqlx::Error::ColumnIndexOutOfBounds { .. }
    );
    match number_of(error) {
        Some(number) if number::CRASHED_TABLE.contains(&number) => StoreErrorKind::Corrupt,
        _ if unreadable => StoreErrorKind::Corrupt,
        _ if is_full(error) => StoreErrorKind::Full,
        _ => StoreErrorKind::Unavailable,
    }
}

/// Whether it is unknown what became of a transaction that writes, after a script that ends with
/// its COMMIT. Before COMMIT could be carried out nothing can have been committed, and a deadlock
/// has undone the transaction even there (servers of a cluster say so).
pub(crate) fn is_unknown(failure: &Failure) -> bool {
    failure.last_in_doubt && !is_deadlock(&failure.error)
}

/// An error of a call that committed nothing.
pub(crate) fn while_doing(doing: &str) -> impl Fn(sqlx::Error) -> StoreError + '_ {
    move |error| StoreError::because(kind(&error), doing, error)
}

/// What every call says after `close`.
pub(crate) fn closed() -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "calling a store that is closed")
}

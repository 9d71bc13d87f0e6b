//! Maps the server's errors to their meaning for a caller.
//!
//! For example, a lock timeout is contention and retried, and a connection that breaks after COMMIT
//! was sent is `Unknown`.

use sqlx::mysql::MySqlDatabaseError;
use store::{StoreError, StoreErrorKind};

use crate::script::Failure;

/// Error numbers of MariaDB and MySQL.
mod number {
    pub(super) const CRASHED_TABLE: [u16; 6] = [126, 127, 145, 1034, 1194, 1712];
    /// The disk is full; the table is full.
    pub(super) const FULL: [u16; 2] = [1021, 1114];
    /// Errors that can mean a full disk: of a write to a file (the second is of the server, the
    /// first of its library), of a disk in the library, and of the engine.
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

/// Returns true if another transaction was in the way, so that a retry may succeed. The transaction
/// must be rolled back in each case, because some of these errors undo only one statement.
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

/// Returns true if the transaction is certainly rolled back, even if COMMIT itself returns the
/// error.
pub(crate) fn is_deadlock(error: &sqlx::Error) -> bool {
    number_of(error) == Some(number::DEADLOCK)
}

/// Returns true if the connection ended, in contrast to a failed statement.
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

/// Returns true if the server does not accept writes any more.
pub(crate) fn is_read_only(error: &sqlx::Error) -> bool {
    matches!(number_of(error), Some(number::OPTION_PREVENTS | number::READ_ONLY_MODE))
}

/// Returns true if the client's own timeout ended the wait.
pub(crate) fn is_timeout(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Io(error) if error.kind() == std::io::ErrorKind::TimedOut)
}

/// Returns true if a table does not exist.
pub(crate) fn is_missing_table(error: &sqlx::Error) -> bool {
    number_of(error) == Some(number::NO_SUCH_TABLE)
}

/// The operating system's numbers for a full disk and an exhausted quota, in the forms of the
/// server's texts.
const NO_SPACE: [&str; 6] =
    ["Errcode: 28", "Errcode: 122", "errno: 28", "errno: 122", "error 28 ", "error 122 "];

/// Returns true if the server has no space for a row.
fn is_full(error: &sqlx::Error) -> bool {
    let Some(number) = number_of(error) else { return false };
    let text = error.to_string();
    number::FULL.contains(&number)
        || number::OF_SYSTEM.contains(&number) && NO_SPACE.iter().any(|cause| text.contains(cause))
}

/// Returns true if the server reports a full disk as the cause, also if the outcome is unknown: the
/// server's binary log may be out of space during a COMMIT.
pub(crate) fn names_full_disk(error: &StoreError) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref());
    source.is_some_and(is_full)
}

/// Returns the meaning of an error of a call that cannot have committed.
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

/// Returns true if the outcome of a transaction that writes is unknown, after a script that ends
/// with its COMMIT. Before COMMIT ran, nothing can have been committed. A deadlock rolled back the
/// transaction even during COMMIT (servers of a cluster return it there).
pub(crate) fn is_unknown(failure: &Failure) -> bool {
    failure.last_in_doubt && !is_deadlock(&failure.error)
}

/// Returns a function that wraps the driver's error of a call that committed nothing.
pub(crate) fn while_doing(doing: &str) -> impl Fn(sqlx::Error) -> StoreError + '_ {
    move |error| StoreError::because(kind(&error), doing, error)
}

/// Returns the error of all calls after `close`.
pub(crate) fn closed() -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "calling a store that is closed")
}

//! Maps PostgreSQL's errors to their meaning for a caller.
//!
//! For example, a deadlock aborts a commit and may be retried, while a session that an
//! administrator ends leaves the outcome unknown.

use sqlx::postgres::{PgDatabaseError, PgSeverity};
use store::{StoreError, StoreErrorKind};

/// The reason why a try to commit failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: sqlx::Error,
    /// True if the server may have received the statement that commits.
    pub(crate) sent: bool,
}

impl Failure {
    /// Creates the failure of a try that sent nothing that could commit.
    pub(crate) fn before(error: sqlx::Error) -> Failure {
        Failure { error, sent: false }
    }

    /// Creates the failure of a try that may have sent the committing statement.
    pub(crate) fn after(error: sqlx::Error) -> Failure {
        Failure { error, sent: true }
    }

    /// Returns the meaning of the failure for the caller of the commit: for example `Unknown` if
    /// the commit may have happened.
    pub(crate) fn kind(&self) -> StoreErrorKind {
        if self.sent { kind_of_commit(&self.error) } else { kind(&self.error) }
    }

    /// Returns true if a retry may succeed.
    pub(crate) fn is_worth_another_try(&self) -> bool {
        is_worth_another_try(&self.error)
    }
}

/// `SQLSTATE` codes that lead to different steps.
mod code {
    pub(super) const INSUFFICIENT_PRIVILEGE: &str = "42501";
    /// Raised by `commit.sql`.
    pub(super) const OVER_BOUND: &str = "ASH01";
    pub(super) const DISK_FULL: &str = "53100";
    pub(super) const COMPLETION_UNKNOWN: &str = "40003";
    /// Codes of aborts after which the same commit may succeed.
    pub(super) const WORTH_ANOTHER_TRY: [&str; 5] = [
        "40001", // serialization_failure
        "40P01", // deadlock_detected
        "55P03", // lock_not_available: lock_timeout
        "53200", // out_of_memory: of shared memory for locks, above all
        "23505", // unique_violation: two creators of one row, where no lock was taken
    ];
    /// `data_corrupted` and `index_corrupted`.
    pub(super) const CORRUPT: [&str; 2] = ["XX001", "XX002"];
    /// Tables or functions are missing, or have another form.
    pub(super) const UNDEFINED: [&str; 4] = ["42P01", "42703", "42883", "42804"];
    /// Classes of errors that a proxy may have sent, or a server that ends the session.
    pub(super) const OF_CONNECTIONS: [&str; 2] = ["08", "57P"];
}

fn of_server(error: &sqlx::Error) -> Option<&PgDatabaseError> {
    error.as_database_error()?.try_downcast_ref()
}

/// Returns true if the server reports that it aborted the statement and its transaction.
///
/// An `ERROR` is such a report: after a transaction's commit record is written, PostgreSQL reports
/// problems as `FATAL` or `PANIC` only. The end of a session can come before or after the commit.
pub(crate) fn is_definite(error: &sqlx::Error) -> bool {
    of_server(error).is_some_and(|error| {
        let code = error.code();
        error.severity() == PgSeverity::Error
            && code != code::COMPLETION_UNKNOWN
            && !code::OF_CONNECTIONS.iter().any(|class| code.starts_with(class))
    })
}

/// Returns true if a commit certainly did not happen and may succeed in a retry.
pub(crate) fn is_worth_another_try(error: &sqlx::Error) -> bool {
    is_definite(error)
        && of_server(error).is_some_and(|error| code::WORTH_ANOTHER_TRY.contains(&error.code()))
}

/// Returns true if the role lacks a privilege.
pub(crate) fn is_forbidden(error: &sqlx::Error) -> bool {
    of_server(error).is_some_and(|error| error.code() == code::INSUFFICIENT_PRIVILEGE)
}

/// Returns true if the function aborted a commit because a counter would have exceeded its bound.
pub(crate) fn is_over_bound(error: &sqlx::Error) -> bool {
    is_definite(error) && of_server(error).is_some_and(|error| error.code() == code::OVER_BOUND)
}

/// Returns the meaning of an error of a call that cannot have committed.
pub(crate) fn kind(error: &sqlx::Error) -> StoreErrorKind {
    let code = of_server(error).map(PgDatabaseError::code);
    let broken =
        code.is_some_and(|code| code::CORRUPT.contains(&code) || code::UNDEFINED.contains(&code));
    let unreadable = matches!(
        error,
        sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::ColumnNotFound(_)
            | sqlx::Error::ColumnIndexOutOfBounds { .. }
            | sqlx::Error::Decode(_)
            | sqlx::Error::RowNotFound
    );
    if broken || unreadable {
        StoreErrorKind::Corrupt
    } else if code == Some(code::DISK_FULL) {
        StoreErrorKind::Full
    } else {
        StoreErrorKind::Unavailable
    }
}

/// Returns the meaning of an error of a commit that may have been sent.
pub(crate) fn kind_of_commit(error: &sqlx::Error) -> StoreErrorKind {
    if is_definite(error) { kind(error) } else { StoreErrorKind::Unknown }
}

/// Returns a function that wraps the driver's error of a call that committed nothing.
pub(crate) fn while_doing(doing: &str) -> impl Fn(sqlx::Error) -> StoreError + '_ {
    move |error| StoreError::because(kind(&error), doing, error)
}

/// Returns the error of a call that certainly did nothing.
pub(crate) fn unavailable(why: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, why)
}

/// Returns the error of all calls after `close`.
pub(crate) fn closed() -> StoreError {
    unavailable("calling a store that is closed")
}

/// Returns the error of an answer that does not decode.
pub(crate) fn unreadable(what: &'static str) -> sqlx::Error {
    sqlx::Error::Decode(what.into())
}

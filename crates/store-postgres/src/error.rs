//! What PostgreSQL's errors mean for a caller.

use sqlx::postgres::{PgDatabaseError, PgSeverity};
use store::{StoreError, StoreErrorKind};

/// Why a try to commit failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: sqlx::Error,
    /// The statement that commits may have reached the server.
    pub(crate) sent: bool,
}

impl Failure {
    /// An error before anything was sent that could commit.
    pub(crate) fn before(error: sqlx::Error) -> Failure {
        Failure { error, sent: false }
    }

    /// An error once the committing statement may have been sent.
    pub(crate) fn after(error: sqlx::Error) -> Failure {
        Failure { error, sent: true }
    }

    /// What it means for the batch.
    pub(crate) fn kind(&self) -> StoreErrorKind {
        if self.sent { kind_of_commit(&self.error) } else { kind(&self.error) }
    }

    /// Whether another try may succeed.
    pub(crate) fn is_worth_another_try(&self) -> bool {
        is_worth_another_try(&self.error)
    }
}

/// `SQLSTATE`s that are told apart.
mod code {
    pub(super) const INSUFFICIENT_PRIVILEGE: &str = "42501";
    /// What `whole.sql` raises.
    pub(super) const OVER_BOUND: &str = "ASH01";
    pub(super) const DISK_FULL: &str = "53100";
    pub(super) const COMPLETION_UNKNOWN: &str = "40003";
    /// Aborts after which the same commit may well succeed.
    pub(super) const WORTH_ANOTHER_TRY: [&str; 5] = [
        "40001", // serialization_failure
        "40P01", // deadlock_detected
        "55P03", // lock_not_available: lock_timeout
        "53200", // out_of_memory: of shared memory for locks, above all
        "23505", // unique_violation: two creators of one row, where no lock was taken
    ];
    /// `data_corrupted` and `index_corrupted`.
    pub(super) const CORRUPT: [&str; 2] = ["XX001", "XX002"];
    /// Tables or functions are not there, or are not ours.
    pub(super) const UNDEFINED: [&str; 4] = ["42P01", "42703", "42883", "42804"];
    /// Classes in which somebody between us and the server, or its end, may be speaking.
    pub(super) const OF_CONNECTIONS: [&str; 2] = ["08", "57P"];
}

fn of_server(error: &sqlx::Error) -> Option<&PgDatabaseError> {
    error.as_database_error()?.try_downcast_ref()
}

/// Whether the server says that it has aborted the statement, and its transaction with it.
///
/// An `ERROR` does say so: once a transaction's commit record is written, PostgreSQL reports
/// trouble as `FATAL` or `PANIC` only. Whoever ends a session can be early or late.
pub(crate) fn is_definite(error: &sqlx::Error) -> bool {
    of_server(error).is_some_and(|error| {
        let code = error.code();
        error.severity() == PgSeverity::Error
            && code != code::COMPLETION_UNKNOWN
            && !code::OF_CONNECTIONS.iter().any(|class| code.starts_with(class))
    })
}

/// Whether a commit certainly did not happen, and may succeed if it is tried again.
pub(crate) fn is_worth_another_try(error: &sqlx::Error) -> bool {
    is_definite(error)
        && of_server(error).is_some_and(|error| code::WORTH_ANOTHER_TRY.contains(&error.code()))
}

/// Whether the role may not do what was asked.
pub(crate) fn is_forbidden(error: &sqlx::Error) -> bool {
    of_server(error).is_some_and(|error| error.code() == code::INSUFFICIENT_PRIVILEGE)
}

/// Whether a commit was aborted by itself, because a counter would have exceeded its bound.
pub(crate) fn is_over_bound(error: &sqlx::Error) -> bool {
    is_definite(error) && of_server(error).is_some_and(|error| error.code() == code::OVER_BOUND)
}

/// What an error means if nothing can have been committed.
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

/// What an error means for a commit that may have been sent.
pub(crate) fn kind_of_commit(error: &sqlx::Error) -> StoreErrorKind {
    if is_definite(error) { kind(error) } else { StoreErrorKind::Unknown }
}

/// An error of a call that committed nothing.
pub(crate) fn while_doing(doing: &str) -> impl Fn(sqlx::Error) -> StoreError + '_ {
    move |error| StoreError::because(kind(&error), doing, error)
}

/// What a call says that certainly did nothing.
pub(crate) fn unavailable(why: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, why)
}

/// What every call says after `close`.
pub(crate) fn closed() -> StoreError {
    unavailable("calling a store that is closed")
}

/// An answer that is not one.
pub(crate) fn unreadable(what: &'static str) -> sqlx::Error {
    sqlx::Error::Decode(what.into())
}

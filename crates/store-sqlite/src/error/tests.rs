use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use sqlx::error::{DatabaseError, ErrorKind};
use store::StoreErrorKind::{Corrupt, Full, Unavailable, Unknown};

use super::{code, kind_of_commit};
use crate::script::Failure;

/// An error with a code of SQLite.
#[derive(Debug)]
struct Coded(i32);

impl fmt::Display for Coded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Coded {}

impl DatabaseError for Coded {
    fn message(&self) -> &'static str {
        "planted"
    }

    fn code(&self) -> Option<Cow<'_, str>> {
        Some(self.0.to_string().into())
    }

    fn as_error(&self) -> &(dyn Error + Send + Sync + 'static) {
        self
    }

    fn as_error_mut(&mut self) -> &mut (dyn Error + Send + Sync + 'static) {
        self
    }

    fn into_error(self: Box<Self>) -> Box<dyn Error + Send + Sync + 'static> {
        self
    }

    fn kind(&self) -> ErrorKind {
        ErrorKind::Other
    }
}

/// SQLite's code for an I/O error of fsync.
const IOERR_FSYNC: i32 = 0x040a;
/// SQLite's code for a busy file, in one of its extended forms.
const BUSY_SNAPSHOT: i32 = 0x0205;

#[track_caller]
fn check(done: usize, code: i32, rolled_back: bool, expected: store::StoreErrorKind) {
    let failure = Failure { done, error: sqlx::Error::Database(Box::new(Coded(code))) };
    assert_eq!(kind_of_commit(&failure, 4, rolled_back, false), expected);
}

#[test]
fn a_failure_before_commit_is_definite() {
    for done in 0..3 {
        check(done, code::FULL, true, Full);
        check(done, IOERR_FSYNC, false, Unavailable);
        check(done, code::BUSY, true, Unavailable);
        check(done, code::CORRUPT, true, Corrupt);
    }
}

#[test]
fn a_busy_commit_that_rolls_back_is_definite() {
    check(3, code::BUSY, true, Unavailable);
    check(3, BUSY_SNAPSHOT, true, Unavailable);
    check(3, code::BUSY, false, Unknown);
}

#[test]
fn a_commit_that_a_full_disk_refuses_is_not_committed() {
    check(3, code::FULL, true, Full);
    check(3, code::FULL, false, Full);
}

#[test]
fn a_commit_that_an_exhausted_quota_refuses_is_not_committed() {
    for done in [2, 3] {
        for code in [code::IOERR_WRITE, IOERR_FSYNC] {
            let failure = Failure { done, error: sqlx::Error::Database(Box::new(Coded(code))) };
            let expected = match (code, done) {
                (code::IOERR_WRITE, _) => Full,
                (_, 2) => Unavailable,
                _ => Unknown,
            };
            assert_eq!(kind_of_commit(&failure, 4, false, true), expected);
        }
    }
    check(3, code::IOERR_WRITE, true, Unknown);
}

#[test]
fn any_other_error_of_commit_is_unknown() {
    check(3, IOERR_FSYNC, true, Unknown);
    check(3, IOERR_FSYNC, false, Unknown);
    check(3, code::CORRUPT, true, Unknown);
    let crashed = Failure { done: 3, error: sqlx::Error::WorkerCrashed };
    assert_eq!(kind_of_commit(&crashed, 4, false, false), Unknown);
}

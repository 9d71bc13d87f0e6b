//! Errors, by the next step of the caller.
//!
//! For example, after `Unavailable` a caller may send the same batch again, while after `Unknown`
//! it must first find out if the batch was committed.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// The meaning of an error for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// Nothing was committed. The caller may try again later, or at another store.
    Unavailable,
    /// The store is out of space; nothing was committed. The same call succeeds once there is space
    /// again. An engine that keeps space in reserve still commits plans that free space.
    Full,
    /// The commit may have happened, or may still happen. The caller must first find out, from a
    /// record that each of its plans changes (its *idempotency slot*), if the plan was committed.
    Unknown,
    /// A record does not decode, or the database is not an Ashlar store. A retry does not help.
    Corrupt,
    /// The call violates the contract, for example with a malformed plan or range. This is a bug of
    /// the caller.
    Malformed,
}

/// A failed call: the meaning for the caller, the action that failed, and the cause. It can be
/// cloned, because one failure may concern many callers.
#[derive(Clone, Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    doing: Arc<str>,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// Creates an error without a cause. `doing` is the action that failed, as text that fits after
    /// "while", for example `reading a position`.
    pub fn new(kind: StoreErrorKind, doing: impl Into<String>) -> StoreError {
        StoreError { kind, doing: doing.into().into(), source: None }
    }

    /// Creates an error with the driver's error as its cause. `doing` is the action that failed, as
    /// text that fits after "while".
    pub fn because(
        kind: StoreErrorKind,
        doing: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> StoreError {
        let source: Box<dyn Error + Send + Sync> = source.into();
        StoreError { kind, doing: doing.into().into(), source: Some(source.into()) }
    }

    /// Returns the meaning of the error for the caller.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            StoreErrorKind::Unavailable => "store unavailable",
            StoreErrorKind::Full => "store full",
            StoreErrorKind::Unknown => "outcome unknown",
            StoreErrorKind::Corrupt => "store corrupt",
            StoreErrorKind::Malformed => "malformed call",
        };
        write!(f, "{what} while {}", self.doing)?;
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|source| source.as_ref() as &(dyn Error + 'static))
    }
}

//! Errors by what the caller does next.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// What an error means for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// Nothing happened. Try again, later or elsewhere.
    Unavailable,
    /// The store is out of space: nothing was committed. The same call succeeds once there is space
    /// again. Plans that free space are committed if the engine keeps a reserve for them.
    Full,
    /// The commit may have happened, or may happen yet. Resolve its idempotency slot before anything else.
    Unknown,
    /// A record does not decode, or the store is not one of ours. Trying again will not help.
    Corrupt,
    /// The call itself was wrong: a malformed plan or range. A bug of the caller.
    Malformed,
}

/// A failed call: what it means, what was being done, and why it failed. A clone says the same, to
/// another of those whom the failure concerns.
#[derive(Clone, Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    doing: Arc<str>,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// An error without a cause of its own.
    pub fn new(kind: StoreErrorKind, doing: impl Into<String>) -> StoreError {
        StoreError { kind, doing: doing.into().into(), source: None }
    }

    /// An error with the driver's error behind it.
    pub fn because(
        kind: StoreErrorKind,
        doing: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> StoreError {
        let source: Box<dyn Error + Send + Sync> = source.into();
        StoreError { kind, doing: doing.into().into(), source: Some(source.into()) }
    }

    /// What the error means for the caller.
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

//! Errors of block stores, classified by the caller's next step.
//!
//! For example, `Unavailable` may be retried, `Conflict` needs a new id, and `Refused` needs an
//! operator.

use std::error::Error;
use std::fmt;

use keyring::{RingError, RingErrorKind};
use publication::ContentError;

/// The kind of an error, which determines the caller's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BlockErrorKind {
    /// The store did not answer. The call may be repeated. A `put` that failed so may still have
    /// stored the block.
    Unavailable,
    /// The store has no space for the block. The operator must free space.
    Full,
    /// No block has this id.
    NotFound,
    /// The bytes are not those that were sealed, that is, they do not match their checksums. A
    /// retry helps only if a cache or proxy returned them.
    Corrupt,
    /// The block exists, but the storage has lost its checksums. A caller that has the record's
    /// reference calls [`recompute_checksums`](crate::BlockStore::recompute_checksums) and repeats
    /// the call.
    ChecksumsLost,
    /// Other bytes are stored under the block's id. They stay, and the caller puts its block under
    /// a new id. Or the store has a mark (the name of the blocks' owner) other than the one to set.
    Conflict,
    /// The store refuses the request because of permissions or configuration. An operator must
    /// correct them.
    Refused,
}

/// A failed call: the kind, the operation, and the cause.
#[derive(Debug)]
pub struct BlockError {
    kind: BlockErrorKind,
    doing: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl BlockError {
    /// Creates an error without a cause. `doing` names the operation with its block or place, and
    /// fits after "while": "reading block 00…".
    pub fn new(kind: BlockErrorKind, doing: impl Into<String>) -> BlockError {
        BlockError { kind, doing: doing.into(), source: None }
    }

    /// Creates an error with a cause.
    pub fn with_cause(
        kind: BlockErrorKind,
        doing: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> BlockError {
        BlockError { kind, doing: doing.into(), source: Some(source.into()) }
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> BlockErrorKind {
        self.kind
    }
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            BlockErrorKind::Unavailable => "block store unavailable",
            BlockErrorKind::Full => "block store full",
            BlockErrorKind::NotFound => "block missing",
            BlockErrorKind::Corrupt => "block corrupt",
            BlockErrorKind::ChecksumsLost => "checksums of a block lost",
            BlockErrorKind::Conflict => "other bytes already there",
            BlockErrorKind::Refused => "block store refused",
        };
        write!(f, "{what} while {}", self.doing)?;
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl Error for BlockError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|source| source.as_ref() as &(dyn Error + 'static))
    }
}

impl BlockError {
    /// Returns true if the cause is a ring key that its key management service refuses.
    fn is_of_refused_key(&self) -> bool {
        let cause = self.source.as_ref().and_then(|source| source.downcast_ref::<RingError>());
        cause.is_some_and(|error| error.kind == RingErrorKind::Refused)
    }
}

impl From<BlockError> for ContentError {
    fn from(error: BlockError) -> ContentError {
        match error.kind() {
            BlockErrorKind::Refused if error.is_of_refused_key() => {
                ContentError::KeyRefused(error.to_string())
            }
            BlockErrorKind::Full => ContentError::Full(error.to_string()),
            // A record named the block, so it must be there.
            BlockErrorKind::NotFound | BlockErrorKind::Corrupt | BlockErrorKind::ChecksumsLost => {
                ContentError::Corrupt(error.to_string())
            }
            BlockErrorKind::Unavailable | BlockErrorKind::Conflict | BlockErrorKind::Refused => {
                ContentError::Unavailable(error.to_string())
            }
        }
    }
}

//! Errors by what the caller does next.

use std::error::Error;
use std::fmt;

/// What an error means for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BlockErrorKind {
    /// The store did not answer. The call may be repeated; a `put` that failed like this may still
    /// have stored the block.
    Unavailable,
    /// The store has no room for a block. Somebody has to make some first.
    Full,
    /// No block has this id.
    NotFound,
    /// The bytes are not those that were sealed. Trying again helps only if a cache lies between.
    Corrupt,
    /// The block is there, and the place has lost what its pieces are verified by. Who knows what the
    /// whole block is lets the place [learn](crate::BlockStore::learn) it, and asks again.
    SumsLost,
    /// The id already names other bytes: they stay, and these go under a new id. Or another mark
    /// stands already.
    Conflict,
    /// The store refuses: permission or configuration. A person must look.
    Refused,
}

/// A failed call: what it means, what was being done, and why it failed.
#[derive(Debug)]
pub struct BlockError {
    kind: BlockErrorKind,
    doing: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl BlockError {
    /// An error without a cause of its own. `doing` names the block or the place and fits after
    /// "while": "reading block 00…".
    pub fn new(kind: BlockErrorKind, doing: impl Into<String>) -> BlockError {
        BlockError { kind, doing: doing.into(), source: None }
    }

    /// An error with the cause behind it.
    pub fn because(
        kind: BlockErrorKind,
        doing: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> BlockError {
        BlockError { kind, doing: doing.into(), source: Some(source.into()) }
    }

    /// What the error means for the caller.
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
            BlockErrorKind::SumsLost => "checksums of a block lost",
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

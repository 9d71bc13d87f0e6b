//! Why bytes could not be laid down or read.

use block::{BlockError, BlockErrorKind};

/// Why the byte path failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ContentError {
    /// The blocks cannot be reached, or answer too late. Nothing happened.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// There is no room for more blocks. Nothing happened.
    #[error("no room: {0}")]
    Full(String),
    /// The byte budget was not granted in time: the load is beyond what fits into memory.
    #[error("overloaded: no memory within the deadline")]
    Overloaded,
    /// A block, or the record that names it, is not what was written. A person must look.
    #[error("corrupt: {0}")]
    Corrupt(String),
}

impl From<BlockError> for ContentError {
    fn from(error: BlockError) -> ContentError {
        match error.kind() {
            BlockErrorKind::Full => ContentError::Full(error.to_string()),
            // A record named the block, so it must be there.
            BlockErrorKind::NotFound | BlockErrorKind::Corrupt | BlockErrorKind::SumsLost => {
                ContentError::Corrupt(error.to_string())
            }
            _ => ContentError::Unavailable(error.to_string()),
        }
    }
}

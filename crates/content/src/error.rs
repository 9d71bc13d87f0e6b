//! Errors of writing and reading content.

use block::{BlockError, BlockErrorKind};

/// The reason why content could not be written or read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ContentError {
    /// The block store cannot be reached, or did not answer in time. Nothing was published; blocks
    /// that were put are deleted. A retry may succeed.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// The block store has no space for more blocks. Nothing was published. The operator must free
    /// space.
    #[error("no space for blocks: {0}")]
    Full(String),
    /// The byte budget granted no memory within the deadline, because other requests hold it. A
    /// retry may succeed.
    #[error("overloaded: no memory was granted within the timeout")]
    Overloaded,
    /// A block, or the record that references it, does not hold the bytes that were written. An
    /// operator must investigate.
    #[error("corrupt: {0}")]
    Corrupt(String),
}

impl From<BlockError> for ContentError {
    fn from(error: BlockError) -> ContentError {
        match error.kind() {
            BlockErrorKind::Full => ContentError::Full(error.to_string()),
            // A record named the block, so it must be there.
            BlockErrorKind::NotFound | BlockErrorKind::Corrupt | BlockErrorKind::ChecksumsLost => {
                ContentError::Corrupt(error.to_string())
            }
            _ => ContentError::Unavailable(error.to_string()),
        }
    }
}
